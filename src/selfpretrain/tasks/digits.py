"""Which digit is it: real handwriting, 8x8 pixels of 17 grey levels, read row by row.

Simple methods are strong here (one nearest neighbour reaches about 98 %): report them next to a network. The
images come with scikit-learn.
"""

import functools
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from ..config import Count, Seed, spec
from ..data.dataset import SequenceDataset
from ..data.spec import Classes, SequenceSpec, Split, Values
from ..data.splits import check_labels, limit_labels, stratified_order
from ..errors import DataError, SpecError
from .base import Card, Task
from .common.augmentations import Pictures

POOL = 1000  # images in train
VAL = 300  # images in val; the remaining 497 are the test split


@spec
class Digits(Task):
    """Which digit is it? The 1,797 images of the test part of UCI's handwritten digits, as 64 pixels."""

    card = Card(
        source="Alpaydin and Kaynak (1998), Optical Recognition of Handwritten Digits, UCI; in scikit-learn",
        licence="CC BY 4.0",
    )
    augmentation = Pictures(shift=1)  # shifts by one pixel; digits turned over would be others

    train: Count = 1000  # training images, at most 1,000; a smaller number gives a subset
    labels: Count | None = None  # training images that keep their label, stratified and nested; None: all
    split_seed: Seed = 0  # seed of the split into train, val and test

    def __post_init__(self) -> None:
        if self.train > POOL:
            raise SpecError(f"train={self.train}: there are {POOL} training images; give at most that")
        check_labels(self.labels, self.train, "images")

    @property
    def form(self) -> SequenceSpec:
        """Return 64 grey values 0..16, with the mean and standard deviation of the training images."""
        x = _load_images()[0][self._rows("train")].astype(np.float64)
        signal = Values(1, levels=17, low=0.0, high=16.0, centre=(float(x.mean()),), spread=(float(x.std()),))
        return SequenceSpec(signal, 64, Classes(tuple("0123456789")))

    def load(self, split: Split) -> SequenceDataset:
        """Return the images of a split as (64, 1) grey values."""
        images, digits = _load_images()
        rows = self._rows(split)
        examples = SequenceDataset.from_array(images[rows], digits[rows])
        return limit_labels(examples, self.labels) if split == "train" else examples

    def tiny(self) -> "Digits":
        """Return the task with at most 200 training images, all labelled."""
        return Digits(train=min(self.train, 200), split_seed=self.split_seed)

    def _rows(self, split: Split) -> np.ndarray:
        order = stratified_order(_load_images()[1], self.split_seed)
        pool, val, test = np.split(order, [POOL, POOL + VAL])
        return {"train": pool[: self.train], "val": val, "test": test}[split]


@functools.lru_cache(maxsize=1)
def _load_images() -> tuple[np.ndarray, np.ndarray]:
    package = find_spec("sklearn")  # found, not imported: importing scikit-learn takes a second
    if package is None or package.origin is None:
        raise DataError("the images come with scikit-learn, which is not installed; pip install scikit-learn")
    table = np.loadtxt(Path(package.origin).with_name("datasets") / "data" / "digits.csv.gz", delimiter=",")
    return table[:, :-1].astype(np.float32)[:, :, None], table[:, -1].astype(np.int64)


task = Digits
