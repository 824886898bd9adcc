"""Are both marked ends those of one curve: two winding curves among short ones, on a small grid of cells.

The question of Pathfinder (Linsley et al. 2018) on 16 to 4,096 positions, 16 by default. No image occurs
twice, and every image of one class is matched with one of the other class whose marked ends are equally many
rows and columns apart, so the distance of the ends does not predict the label.
"""

import functools
from collections.abc import Callable
from dataclasses import replace
from typing import Annotated, Literal

import numpy as np
import torch
from numpy.lib.stride_tricks import sliding_window_view
from pydantic import Field
from torch import Tensor

from ..config import Count, Natural, Seed, spec
from ..data.dataset import Augmentation, SequenceDataset
from ..data.spec import Classes, SequenceSpec, Split, Tokens
from ..data.splits import check_labels, limit_labels
from ..errors import SpecError
from .base import Card, Task
from .common.augmentations import Pictures
from .common.images import cells_to_patches, patches_to_cells
from .generators import CurveRules

CELLS = ".#O"
"""Characters of a cell: empty, part of a curve, marked end."""
BLOCK_SIZE = 20_000  # layouts drawn at a time
MIN_FOUND = 200  # images per block below which generation gives up


@spec
class Paths(Task):
    """Are both marked ends those of one curve?"""

    card = Card(
        source="generated here; the question is that of Pathfinder, Linsley et al. (2018)",
        licence="none needed",
        counts="60,000 / 2,000 / 4,000 images, half of them of one curve",
        baselines="commonest class 50 %, distance of the ends 50 %, logistic regression on patches 54 %, "
        "gradient boosting on how much is drawn around the ends and in each row and column 88 % (80 % with "
        "size=12)",
        leaks="none known: the distance of the marked ends, in rows and in columns, is matched between the "
        "classes image by image, and no image occurs twice",
    )

    denoising = "masked"
    masking = 0.3
    small = (  # chosen on validation with a seed that no report uses: docs/log.md
        *("pretrain.batch=64", "finetune.batch=64", "scratch.batch=64", "pretrain.optim.lr=6e-3"),
        *("pretrain.budget.steps=1500", "finetune.budget.steps=2000", "scratch.budget.steps=2000"),
        *("s4d.mixer.states=16", "s4d.mixer.shortest=0.01", "s4d.mixer.longest=1"),
        *("s4d.pretrain.budget.steps=1000", "s4d.finetune.budget.steps=2500"),
        "s4d.scratch.budget.steps=2500",
    )

    size: Annotated[int, Field(ge=8, le=64)] = 8  # cells per side
    patch: Literal[1, 2] = 2  # cells per side of a token: one cell of 3 kinds, or 2 by 2 of them
    shortest: Annotated[int, Field(ge=2)] | None = None  # minimum cells of a curve; None: size
    longest: Annotated[int, Field(ge=2)] | None = None  # maximum cells of a curve; None: size * 5 / 4
    distractors: Natural | None = None  # short curves; None: size / 6
    short: Count | None = None  # cells of a short curve; None: size / 4
    gap: Annotated[int, Field(ge=1, le=8)] = 1  # free cells between curves, diagonals counted
    train: Count = 60_000  # training images; a smaller number gives a subset
    val: Count = 2_000  # validation images
    test: Count = 4_000  # test images
    labels: Count | None = None  # training images that keep their label, nested; None: all
    seed: Seed = 0  # seed of the generator

    def __post_init__(self) -> None:
        if self.size % self.patch:
            advice = "use an even size, or patch=1"
            raise SpecError(f"size={self.size} is not a multiple of patch={self.patch}; {advice}")
        if self.rules.shortest > self.rules.longest:
            both = f"shortest={self.rules.shortest} and longest={self.rules.longest}"
            raise SpecError(f"{both}: no curve has both; raise longest")
        check_labels(self.labels, self.train, "images")

    @property
    def rules(self) -> CurveRules:
        """Return the parameters of the generator; None is replaced by the default for the size."""
        defaults = (self.size, 5 * self.size // 4, self.size // 6, self.size // 4)
        settings = (self.shortest, self.longest, self.distractors, self.short)
        values = (d if value is None else value for value, d in zip(settings, defaults, strict=True))
        shortest, longest, distractors, short = values
        return CurveRules(self.size, shortest, longest, distractors, short, self.gap)

    @property
    def form(self) -> SequenceSpec:
        """Return one token per cell or patch, row by row."""
        symbols = len(CELLS) ** self.patch**2
        length = (self.size // self.patch) ** 2
        return SequenceSpec(Tokens(symbols), length, Classes(("two curves", "one curve")))

    def load(self, split: Split) -> SequenceDataset:
        """Return the images of one split."""
        # Labels and patches do not change what is generated.
        cells, labels = _generate(replace(self, labels=None, patch=1))
        first = {"test": 0, "val": self.test, "train": self.test + self.val}[split]
        rows = slice(first, first + {"test": self.test, "val": self.val, "train": self.train}[split])
        patches = cells_to_patches(cells[rows], self.patch, len(CELLS))
        examples = SequenceDataset.from_array(patches, labels[rows])
        return limit_labels(examples, self.labels) if split == "train" else examples

    def tiny(self) -> "Paths":
        """Return the task with 160 training images of 8 by 8 cells, and 40 in each of val and test."""
        return Paths(size=8, train=160, val=40, test=40, seed=self.seed)

    @property
    def augmentation(self) -> Augmentation:  # type: ignore[override]  # it depends on a field
        """Return the eight symmetries of the square."""
        return Pictures(("left-right", "up-down", "transpose"), patch=self.patch, kinds=len(CELLS))

    def symbols(self) -> tuple[str, ...]:
        """Return each token as its cell, or as the upper and lower row of its patch."""
        if self.patch == 1:
            return tuple(CELLS)
        cells = np.arange(len(CELLS) ** 4)[:, None] // len(CELLS) ** np.arange(4) % len(CELLS)
        return tuple(f"{a}{b}/{c}{d} " for a, b, c, d in np.array(list(CELLS))[cells])

    def shortcuts(self) -> dict[str, Callable[[SequenceDataset], Tensor]]:
        """Return two cues: rows and columns between the marked ends, and the position of the first end."""
        return {
            "distance of the ends": self._end_distance,
            "place of an end": lambda examples: self._ends(examples)[:, 0],
        }

    def pixels(self, sequence: np.ndarray) -> np.ndarray:
        """Return one pixel per cell: curves are grey, marked ends white."""
        return patches_to_cells(sequence[None], self.patch, len(CELLS)).reshape(-1, 1) / 2

    def statistics(self, examples: SequenceDataset) -> np.ndarray:
        """Return positions and distance of the ends, and drawn cells near them and per row and column."""
        size = self.size
        image = self._cells(examples) > 0
        ends = self._ends(examples).numpy()
        coordinates = np.stack([ends // size, ends % size], axis=-1)  # (n, ends, 2)
        picture = image.reshape(-1, size, size)
        near = [_count_around(picture, coordinates, reach) for reach in (1, 2, 3)]
        distance = abs(coordinates[:, 0] - coordinates[:, 1])
        features = [coordinates.reshape(-1, 4), distance, *near, picture.sum(1), picture.sum(2)]
        return np.concatenate(features, axis=1)

    def _end_distance(self, examples: SequenceDataset) -> Tensor:
        ends = self._ends(examples)
        down = (ends // self.size).diff().abs()
        right = (ends % self.size).diff().abs()
        return (down * self.size + right)[:, 0]

    def _cells(self, examples: SequenceDataset) -> np.ndarray:
        """Return the (n, size^2) cells: 0 empty, 1 curve, 2 marked end."""
        whole = examples.flat.numpy().reshape(-1, self.form.length)
        rows = (examples.starts[0] // self.form.length).numpy()
        return patches_to_cells(whole[rows], self.patch, len(CELLS))

    def _ends(self, examples: SequenceDataset) -> Tensor:
        """Return the (n, 2) indices of the marked cells, counted row by row."""
        return torch.from_numpy(np.nonzero(self._cells(examples) == 2)[1].reshape(-1, 2))


def _count_around(picture: np.ndarray, coordinates: np.ndarray, reach: int) -> np.ndarray:
    """Return (n, ends) counts of drawn cells in the square of 2 reach + 1 cells per side around every end."""
    padded = np.pad(picture, ((0, 0), (reach, reach), (reach, reach)))
    squares = sliding_window_view(padded, (2 * reach + 1, 2 * reach + 1), axis=(1, 2))
    top, left = np.moveaxis(coordinates, -1, 0)
    return squares[np.arange(len(picture))[:, None], top, left].sum((-2, -1))


@functools.lru_cache(maxsize=2)
def _generate(task: Paths) -> tuple[np.ndarray, np.ndarray]:
    """Generate test, val and train in this order, so that the size of train does not change test and val."""
    from .generators.paths import PathImages

    rules = task.rules
    n_images = task.test + task.val + task.train
    images = np.zeros((n_images + 1, rules.size**2), dtype=np.uint8)
    labels = np.zeros(n_images + 1, dtype=np.int64)
    stream = PathImages(task.seed, rules, n_images + 1)
    n_found = 0
    while n_found < n_images:
        n_new = stream.fill(images[n_found:], labels[n_found:], BLOCK_SIZE)
        n_found += n_new
        if n_found < n_images and n_new < MIN_FOUND:
            raise SpecError(
                f"{BLOCK_SIZE:,} layouts of such curves gave {n_new} images after the first "
                f"{n_found - n_new:,}; lower "
                f"longest={rules.longest}, distractors={rules.distractors}, short={rules.short} or "
                f"gap={rules.gap}, or ask for fewer images than {n_images:,}"
            )
    return images[:n_images], labels[:n_images]


task = Paths
