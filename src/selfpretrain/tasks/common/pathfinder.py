"""Base class of Pathfinder, PathX and PathX-256: are both markers on the same one of two dashed contours?

Images are generated here or read from Long Range Arena's release, and stored compressed, as most pixels are
black.
"""

import math
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import ClassVar, Literal

import numpy as np
import torch
from torch import Tensor

from ...config import Count, Seed, spec
from ...data.dataset import SequenceDataset
from ...data.spec import Classes, SequenceSpec
from ...data.store import DatasetWriter
from ...errors import DataError
from ...registry import name_of
from ...system.events import report_progress
from ...system.hardware import usable_cores
from ..base import Card
from .augmentations import Pictures
from .stored import LRA_RELEASE, Moments, Prepared, lra_paths, require_files

CLASSES = ("separate", "connected")
DASHES = {"hard": 14, "intermediate": 9, "easy": 6}  # dashes per contour at each difficulty
FOLDERS = {"hard": "curv_contour_length_14", "intermediate": "curv_contour_length_9", "easy": "curv_baseline"}
"""Folder of each difficulty in the release."""
EMPTY_FILE = "curv_baseline/imgs/0/sample_172.png"
"""A file of the release (32 pixels, easy) that is known to be empty; it is skipped."""
CHUNK = 2000  # images between two checkpoints: 400 MB of memory at 256 pixels
MEASURED_IMAGES = 1000  # number of first training images on which mean and standard deviation are measured
SQUARES = {16: 1, 32: 1, 64: 1, 128: 2, 256: 3}
"""Resolution -> h, where a marker is found as a white square of 2 h + 1 pixels a side."""
BINS = 32  # bins of the distance between markers, up to the side of an image


@spec
class PathfinderTask(Prepared):
    """Are both markers on the same contour? Base class of all resolutions."""

    downloads = (LRA_RELEASE,)
    packed = True
    resumes = True
    edition = 2
    augmentation = Pictures(("left-right", "up-down", "transpose"))  # the eight symmetries of the square

    source: Literal["generated", "lra"] = "generated"  # lra: the released files of Long Range Arena
    difficulty: Literal["hard", "intermediate", "easy"] = "hard"  # 14, 9 or 6 dashes per contour
    quirks: Literal["lra", "none"] = "lra"  # generated only: keep the quirks of the original program or not
    train: Count = 160_000  # training images, at most; a smaller number gives a subset
    val: Count = 20_000  # validation images
    test: Count = 20_000  # test images
    seed: Seed = 0  # seed of the generator; with source=lra, of the random split

    side: ClassVar[int]  # pixels per side of the real images; synthetic ones have 16

    def write(self, out: DatasetWriter) -> SequenceSpec:
        """Write train, val and test; an interrupted call resumes from its last checkpoint."""
        images: Generated | Released | Synthetic
        if self.made_up:
            images = Synthetic()
        else:
            images = Generated(self) if self.source == "generated" else Released(self)
        # The first training images are read again on resuming.
        pixels, _ = images.read(np.flatnonzero(images.split == 0)[:MEASURED_IMAGES])
        moments = Moments()
        moments.add(pixels.reshape(len(pixels), -1, 1))
        signal = moments.values(np.ones(len(pixels), dtype=bool), 256, (0.0, 255.0))
        n = len(images.split)
        for start in range(out.rows, n, CHUNK):
            rows = np.arange(start, min(start + CHUNK, n))
            pixels, labels = images.read(rows)
            out.add_packed(pixels.reshape(len(rows), -1), labels, images.split[rows])
            out.checkpoint()
            report_progress(f"{name_of(self)} images", out.rows, n)
        return SequenceSpec(signal, images.side**2, Classes(CLASSES))

    def shortcuts(self) -> dict[str, Callable[[SequenceDataset], Tensor]]:
        """Return the marker distance as a cue: its distribution differs between connected and separate."""
        return {"marker distance": marker_distance}


def card(baselines: str, leaks: str) -> Card:
    """Return a card with the fields that all resolutions share."""
    return Card(
        source="rules of Linsley et al. (2018) with the parameters of Long Range Arena (Tay et al. 2021), "
        "generated here or read from its release",
        licence="none needed for generated images; the release states none",
        counts="160,000 / 20,000 / 20,000 images, about half of them connected",
        baselines=baselines,
        leaks=leaks,
        get="nothing is needed to generate images; source=lra needs the release",
    )


class Generated:
    """Generated images; every split has its own random stream, so a smaller split is a subset."""

    def __init__(self, task: PathfinderTask) -> None:
        from ..generators import pathfinder

        self.side = task.side
        self.settings = pathfinder.Settings(task.side, DASHES[task.difficulty], task.quirks)
        sizes = (task.train, task.val, task.test)
        self.split = np.repeat([0, 1, 2], sizes)
        # Each split has its own range of indices, so its images do not depend on the other sizes.
        rows = [(number << 40) + np.arange(size) for number, size in enumerate(sizes)]
        self.seeds = pathfinder.seeds(task.seed, np.concatenate(rows))

    def read(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Generate (n, side, side) uint8 pixels and (n,) labels, 1 for connected, on all cores."""
        from ..generators import pathfinder

        images, labels, _ = pathfinder.images(self.seeds[rows], self.settings, threads=usable_cores())
        return images, labels


class Released:
    """Files of the release, with a random 80/10/10 split."""

    def __init__(self, task: PathfinderTask) -> None:
        name = f"pathfinder{task.side}/{FOLDERS[task.difficulty]}"
        self.side = task.side
        self.folder = require_files(task, *lra_paths(name))
        self.files, self.labels = _list_images(self.folder)
        order = np.random.RandomState(task.seed).permutation(len(self.files))
        test, val, train = np.split(order, [len(order) // 10, 2 * (len(order) // 10)])
        parts = [train[: task.train], val[: task.val], test[: task.test]]
        self.order = np.concatenate(parts)
        self.split = np.repeat([0, 1, 2], [len(part) for part in parts])

    def read(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Read and decode the images of these rows."""
        numbers = self.order[rows]
        with ThreadPoolExecutor(usable_cores()) as pool:
            images = list(pool.map(self._decode, (self.files[i] for i in numbers)))
        return np.stack(images), self.labels[numbers]

    def _decode(self, name: str) -> np.ndarray:
        from PIL import Image

        try:
            with Image.open(self.folder / name) as image:
                pixels = np.asarray(image.convert("L"))
        except OSError as error:
            file = self.folder / name
            raise DataError(f"{file} is not an image ({error}); unpack the release again") from error
        if pixels.shape != (self.side, self.side):
            raise DataError(f"{self.folder / name} has {pixels.shape} pixels, not {self.side} by {self.side}")
        return pixels


class Synthetic:
    """Small synthetic images of two straight dashed lines: 80 in train, 40 in each of val and test."""

    side = 16

    def __init__(self) -> None:
        self.split = np.repeat([0, 1, 2], [80, 40, 40])

    def read(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Draw the images of these rows."""
        images = np.zeros((len(rows), self.side, self.side), dtype=np.uint8)
        for image, row in zip(images, rows, strict=True):
            random = np.random.RandomState(row)
            lines = random.randint(2, 7), random.randint(9, 14)
            image[random.randint(16, size=6), random.randint(16, size=6)] = 60
            image[lines, 1:15] = np.where(np.arange(14) % 4 == 3, 0, 150)
            first = random.randint(2)
            for line, x in ((lines[first], 2), (lines[first ^ (row % 2 == 0)], 13)):
                image[line - 1 : line + 2, x - 1 : x + 2] = 255
        return images, rows % 2


def marker_distance(examples: SequenceDataset) -> Tensor:
    """Return the (n,) distance between the markers of each image in 32nds of its side, from the pixels."""
    from ..generators import pathfinder

    side = math.isqrt(int(examples.lengths[0, 0]))
    centres = np.zeros((len(examples), 2, 2), dtype=np.int64)
    for rows in torch.arange(len(examples)).split(max(2**22 // side**2, 1)):
        images = examples.batch(rows).inputs.to(torch.uint8).view(-1, side, side).numpy()
        pathfinder.find_markers(images, SQUARES[side], centres[rows[0] : rows[-1] + 1])
    offset = centres[:, 0] - centres[:, 1]
    return torch.from_numpy(np.hypot(offset[:, 0], offset[:, 1]) * BINS // side).long()


def _list_images(folder: Path) -> tuple[list[str], np.ndarray]:
    """Return names and labels of all images in the metadata, in the order of the numbered tables."""
    tables = sorted((folder / "metadata").glob("*.npy"), key=lambda file: int(file.stem))
    if not tables:
        raise DataError(f"{folder / 'metadata'} holds no tables; unpack the release again")
    names = []
    labels = []
    for table in tables:  # a text file, or a saved NumPy array of strings
        try:
            if table.read_bytes()[:6] == b"\x93NUMPY":
                lines = np.load(table, allow_pickle=False).tolist()
            else:
                text = table.read_text(encoding="utf-8")
                lines = [line.split() for line in text.splitlines() if line.strip()]
        except (OSError, ValueError) as error:
            raise DataError(f"{table} cannot be read ({error}); unpack the release again") from error
        for line in lines:
            if len(line) < 4 or line[3] not in ("0", "1"):
                says = "does not say folder, file, number and label of each image"
                raise DataError(f"{table} {says}; unpack it again")
            file = folder / line[0] / line[1]
            known_empty = file.as_posix().endswith(EMPTY_FILE) and file.is_file() and not file.stat().st_size
            if not known_empty:
                names.append(f"{line[0]}/{line[1]}")
                labels.append(int(line[3]))
    return names, np.array(labels)
