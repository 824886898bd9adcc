"""Base class of the image tasks, whose sequences are pixels, row by row; and patches of cells."""

import abc
import io
import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from ...data.spec import Classes, SequenceSpec
from ...data.splits import stratified_order
from ...data.store import DatasetWriter
from ...system.events import report_progress
from .stored import Moments, Prepared

VAL = 5000  # training images held out for validation
FEW = 20  # the same of synthetic images


@dataclass(frozen=True)
class ImageBlock:
    """A block of images of the official training or test part."""

    pixels: np.ndarray  # (n, height, width, C) uint8
    labels: np.ndarray  # (n,)
    test: bool


class ImageTask(Prepared):
    """A task whose sequences are the pixels of images, of one or three channels of 256 levels."""

    names: tuple[str, ...]  # of the classes
    channels: int = 1
    split_seed: int  # a field of every subclass

    @abc.abstractmethod
    def blocks(self) -> Iterator[ImageBlock]:
        """Yield all images in order; coloured ones are made grey if the task has one channel."""

    def write(self, out: DatasetWriter) -> SequenceSpec:
        """Write the images in order, and hold out validation images, equally many of every class."""
        moments = Moments()
        labels = []
        test = []
        starts = []
        for block in make_synthetic(self.channels) if self.made_up else self.blocks():
            pixels = block.pixels if block.pixels.shape[3] == self.channels else grey(block.pixels)
            n, height, width, channels = pixels.shape
            sequences = pixels.reshape(n, height * width, channels)
            starts.append(out.append(sequences.reshape(-1, channels)) + height * width * np.arange(n))
            labels.append(block.labels)
            test.append(np.full(n, block.test))
            moments.add(sequences)
            report_progress("images", sum(map(len, labels)))
        targets = np.concatenate(labels)
        split = np.where(np.concatenate(test), 2, 0)
        pool = np.flatnonzero(split == 0)
        split[pool[stratified_order(targets[pool], self.split_seed)[: FEW if self.made_up else VAL]]] = 1
        length = sequences.shape[1]
        out.add_examples(np.concatenate(starts), np.full(len(targets), length), targets, split)
        return SequenceSpec(moments.values(split == 0, 256, (0.0, 255.0)), length, Classes(self.names))


def grey(pixels: np.ndarray) -> np.ndarray:
    """Convert (..., 3) RGB to (..., 1) luma, as Pillow's mode "L": round(0.299 R + 0.587 G + 0.114 B).

    Source: ITU-R BT.601; weights in units of 1 / 65536.
    """
    weights = np.array([19595, 38470, 7471], dtype=np.uint32)
    return ((pixels @ weights + 0x8000) >> 16).astype(np.uint8)[..., None]


def decode(files: list[bytes]) -> np.ndarray:
    """Return (n, height, width, 3) pixels from the bytes of image files of one size."""
    from PIL import Image

    images = (Image.open(io.BytesIO(file), formats=("JPEG", "PNG")) for file in files)
    return np.stack([np.asarray(image.convert("RGB")) for image in images])


def cells_to_patches(cells: np.ndarray, patch: int, kinds: int) -> np.ndarray:
    """Return (n, positions) tokens from (n, size^2) cells: in base ``kinds``, those of a patch."""
    side = math.isqrt(cells.shape[1]) // patch
    parts = cells.reshape(-1, side, patch, side, patch).swapaxes(2, 3).reshape(-1, side**2, patch**2)
    return (parts * kinds ** np.arange(patch**2)).sum(-1, dtype=np.uint8)


def patches_to_cells(tokens: np.ndarray, patch: int, kinds: int) -> np.ndarray:
    """Return (n, size^2) cells from (n, positions) tokens; the inverse of ``cells_to_patches``."""
    side = math.isqrt(tokens.shape[1])
    parts = tokens[:, :, None] // kinds ** np.arange(patch**2) % kinds
    return parts.reshape(-1, side, side, patch, patch).swapaxes(2, 3).reshape(len(tokens), -1)


def make_synthetic(channels: int) -> Iterator[ImageBlock]:
    """Yield synthetic images of ten classes, a pattern for each plus noise: 12 for training, 4 for test."""
    random = np.random.RandomState(0)
    patterns = random.randint(0, 128, (10, 8, 8, channels))
    for test, count in ((False, 12), (True, 4)):
        labels = np.repeat(np.arange(10), count)
        noise = random.randint(0, 128, (len(labels), 8, 8, channels))
        yield ImageBlock((patterns[labels] + noise).astype(np.uint8), labels, test)
