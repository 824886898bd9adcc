"""Which object is in the picture, in colour: CIFAR-10, 1,024 pixels of three channels read row by row."""

from ..config import spec
from .base import Card
from .common.cifar import Cifar


@spec
class Scifar(Cifar):
    """Which object is in the picture? Sequential CIFAR-10, three channels per position."""

    card = Card(
        source="Krizhevsky (2009), Learning Multiple Layers of Features from Tiny Images",
        licence="no explicit licence; for research",
        counts="45,000 / 5,000 / 10,000; validation is 500 of every class, drawn with split_seed",
        baselines="on 5,000 images of its JPEG copy: nearest neighbour 26.6 %, logistic regression on pixels "
        "34.0 %; chance 10 %",
        leaks="none known",
        get="`cifar-10-batches-py` of the authors, or the Parquet files of uoft-cs/cifar10",
    )
    channels = 3


task = Scifar
