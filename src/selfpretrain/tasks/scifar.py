"""Which object is in the picture, in colour: CIFAR-10, 1,024 pixels of three channels read row by row."""

from ..data.prepared import Writer
from ..data.schema import Form
from ..spec import Seed, spec
from . import _cifar, _images
from ._prepared import Prepared
from .base import Card


@spec
class Scifar(Prepared):
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
    downloads = _cifar.DOWNLOADS
    places = _cifar.PLACES

    split_seed: Seed = 0  # another choice of the 5,000 validation images

    def write(self, out: Writer) -> Form:
        """Three channels of 256 levels."""
        if self.made_up:
            return _images.write(out, _images.invent(3), _cifar.NAMES, self.split_seed, val=20)
        return _images.write(out, _cifar.blocks(self), _cifar.NAMES, self.split_seed)


task = Scifar
