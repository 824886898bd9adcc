"""Which object is in the picture: CIFAR-10 in grey, 1,024 pixels read row by row."""

from ..config import spec
from .base import Card
from .common.cifar import Cifar


@spec
class Image(Cifar):
    """Which object is in the picture? The "Image" task of the Long Range Arena."""

    card = Card(
        source="Krizhevsky (2009), Learning Multiple Layers of Features from Tiny Images; as in Tay et al. "
        "(2021), Long Range Arena",
        licence="no explicit licence; for research",
        counts="45,000 / 5,000 / 10,000; validation is 500 of every class, drawn with split_seed",
        baselines="on 5,000 images of its JPEG copy: nearest neighbour 22.9 %, logistic regression on pixels "
        "25.3 %; chance 10 %",
        leaks="none known; the usual code scales pixels by constants of the training images, as here",
        get="`cifar-10-batches-py` of the authors, or the Parquet files of uoft-cs/cifar10",
    )


task = Image
