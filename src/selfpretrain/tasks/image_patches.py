"""What is in a small grey picture of four shades, read as patches of 2x2 pixels: 64 positions at most.

Images of another task are halved (means of 2x2 pixels) until they are at most 16 pixels wide, and pixels are
quantised to the quartiles of the training pixels. A token is a patch of 2x2 pixels of four shades.
"""

import functools
from typing import Literal, cast

import numpy as np

from ..config import Count, spec
from ..data.dataset import SequenceDataset
from ..data.spec import SPLITS, Classes, SequenceSpec, Split, Tokens
from ..data.splits import check_labels, limit_labels, stratified_order
from ..errors import SpecError
from ..registry import find
from .base import Card, DatasetStub, Task, with_stub
from .common.augmentations import Pictures
from .common.images import cells_to_patches, patches_to_cells
from .common.stored import Prepared

SHADES = 4
WIDEST = 16


@spec
class ImagePatches(Task):
    """What is in the picture, reduced to little more than its shapes?"""

    card = Card(
        source="image-jpeg or fashion-mnist, made smaller and coarser here",
        licence="that of the source",
        counts="20,000 / 2,000 / 4,000 of the source's, classes in equal parts, drawn once",
        baselines="of image-jpeg with train=5000: logistic regression on patches at their places 33 %, on "
        "1-4-grams 30 %; chance 10 %",
        leaks="those of the source",
        get="what the source needs: selfpretrain data show image-jpeg, selfpretrain data get fashion-mnist",
    )

    denoising = "masked"
    masking = 0.5
    small = (  # chosen on validation, with train=5000 and a seed that no report uses: docs/log.md
        *("pretrain.batch=32", "finetune.batch=32", "scratch.batch=32"),
        *("pretrain.budget.steps=2500", "finetune.budget.steps=1000", "scratch.budget.steps=1000"),
    )
    augmentation = Pictures(("left-right",), patch=2, kinds=SHADES)  # pictures seen in a mirror

    source: Literal["image-jpeg", "fashion-mnist"] = "image-jpeg"
    train: Count = 20_000  # training images; a smaller number gives a subset
    val: Count = 2_000  # validation images
    test: Count = 4_000  # test images
    labels: Count | None = None  # training images that keep their label, nested; None: all
    made_up: bool = False  # use a few synthetic images, for tests and smoke runs

    def __post_init__(self) -> None:
        check_labels(self.labels, self.train, "images")

    @property
    def origin(self) -> Prepared:
        """Return the task that the images are taken from."""
        return cast(Prepared, find("tasks", self.source)(made_up=self.made_up))

    @property
    def form(self) -> SequenceSpec:
        """Return one token per patch, row by row."""
        if self.stub:
            return self.stub.form
        form = self.origin.form
        side = _reduced_width(form.length) // 2
        return SequenceSpec(Tokens(SHADES**4), side**2, cast(Classes, form.target))

    def load(self, split: Split) -> SequenceDataset:
        """Return the images of a split as sequences of patch tokens.

        Raises:
            SpecError: if the source has fewer than are asked for.
        """
        examples = self.stub.examples(split) if self.stub else self._images(split)
        return limit_labels(examples, self.labels) if split == "train" else examples

    def _images(self, split: Split) -> SequenceDataset:
        tokens, labels = _load_tokens(self.origin)[split]
        number = getattr(self, split)
        if number > len(labels) and not self.made_up:
            raise SpecError(
                f"{self.source} has {len(labels):,} {split} images, not {number:,}; lower {split}={number}"
            )
        order = stratified_order(labels, 0)[:number]
        return SequenceDataset.from_array(tokens[order], labels[order])

    def stubbed(self) -> "ImagePatches":
        """Return the task with a stub, unless the images of its source are prepared or made up."""
        if self.made_up or self.origin.folder.exists():
            return self
        side = {"image-jpeg": 8, "fashion-mnist": 7}[self.source]
        form = SequenceSpec(Tokens(SHADES**4), side**2, Classes(tuple("0123456789")))
        return with_stub(self, DatasetStub(form, self.train, self.val, self.test))

    def version(self) -> str:
        """Return the version of the source."""
        return "" if self.stub else self.origin.version()

    def tiny(self) -> "ImagePatches":
        """Return the task with a few synthetic images."""
        return ImagePatches(self.source, made_up=True)

    def pixels(self, sequence: np.ndarray) -> np.ndarray:
        """Return the (side^2, 1) brightness in [0, 1] of the image that patch tokens encode."""
        return patches_to_cells(sequence[None], 2, SHADES).reshape(-1, 1) / (SHADES - 1)


def _reduced_width(length: int) -> int:
    side = round(length**0.5)
    while side > WIDEST:
        side //= 2
    return side


@functools.lru_cache(maxsize=2)
def _load_tokens(task: Prepared) -> dict[Split, tuple[np.ndarray, np.ndarray]]:
    """Return (n, positions) tokens of all images and their (n,) labels, by split."""
    side = round(task.form.length**0.5)
    width = _reduced_width(task.form.length)
    factor = side // width
    quartiles: np.ndarray | None = None  # of training pixels
    found: dict[Split, tuple[np.ndarray, np.ndarray]] = {}
    for split in SPLITS:  # train comes first
        examples = task.load(split)
        rows = examples.stack().numpy()
        pixels = rows.reshape(len(rows), width, factor, width, factor).mean((2, 4), dtype=np.float32)
        if quartiles is None:
            quartiles = np.quantile(pixels, np.arange(1, SHADES) / SHADES).astype(np.float32)
        shades = np.searchsorted(quartiles, pixels.reshape(len(rows), -1), side="right")
        found[split] = (cells_to_patches(shades, 2, SHADES), examples.targets.numpy())
    return found


task = ImagePatches
