"""Which object is in the picture: CIFAR-10 in grey, 1,024 pixels read row by row."""

from ..data.prepared import Writer
from ..data.schema import Form
from ..spec import Seed, spec
from . import _cifar, _images
from ._prepared import Prepared
from .base import Card


@spec
class Image(Prepared):
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
    downloads = _cifar.DOWNLOADS
    places = _cifar.PLACES

    split_seed: Seed = 0  # another choice of the 5,000 validation images

    def write(self, out: Writer) -> Form:
        """One grey channel of 256 levels."""
        if self.made_up:
            return _images.write(out, _images.invent(1), _cifar.NAMES, self.split_seed, val=20)
        blocks = (_images.ImageBlock(_images.grey(b.pixels), b.labels, b.test) for b in _cifar.blocks(self))
        return _images.write(out, blocks, _cifar.NAMES, self.split_seed)


task = Image
