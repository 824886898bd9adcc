"""Which garment is in the picture: Fashion-MNIST, 784 grey pixels read row by row."""

import gzip
import math
import zlib
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from ..config import Seed, spec
from ..data.download import Download
from ..errors import DataError
from .base import Card
from .common.augmentations import Pictures
from .common.images import ImageBlock, ImageTask
from .common.stored import require_files

NAMES = (
    *("T-shirt/top", "trouser", "pullover", "dress", "coat", "sandal", "shirt", "sneaker", "bag"),
    "ankle boot",
)
DEBIAN = "/usr/share/datasets/fashion-mnist"  # folder of the files in Debian's package dataset-fashion-mnist
LAST = "t10k-labels-idx1-ubyte.gz"  # the file that is downloaded last: the others are there, too


def _download(name: str, size: int, md5: str) -> Download:
    address = f"https://github.com/zalandoresearch/fashion-mnist/raw/master/data/fashion/{name}"
    return Download(address, into="fashion-mnist", size=size, md5=md5, unpack=False)


@spec
class FashionMnist(ImageTask):
    """Which garment is in the picture? A lossless alternative to CIFAR-10."""

    card = Card(
        source="Xiao, Rasul and Vollgraf (2017), Fashion-MNIST; Zalando",
        licence="MIT",
        counts="55,000 / 5,000 / 10,000; validation is 500 of every class, drawn with split_seed",
        baselines="on 5,000 images: nearest neighbour 78.0 %, logistic regression on pixels 82.8 %; "
        "chance 10 %",
        leaks="none known",
        get="also Debian's package dataset-fashion-mnist",
    )
    downloads = (
        _download("train-images-idx3-ubyte.gz", 26_421_880, "8d4fb7e6c68d591d4c3dfef9ec88bf0d"),
        _download("train-labels-idx1-ubyte.gz", 29_515, "25c81989df183df01b3e8a0aad5dffbe"),
        _download("t10k-images-idx3-ubyte.gz", 4_422_102, "bef4ecab320f06d8554ea6380940ec79"),
        _download(LAST, 5_148, "bb300cfdad3c16e7a12a480ee83cd310"),
    )
    places = (f"fashion-mnist/{LAST}", f"{DEBIAN}/{LAST}")
    names = NAMES
    augmentation = Pictures(("left-right",), shift=2)

    split_seed: Seed = 0  # seed of the choice of the 5,000 validation images

    def blocks(self) -> Iterator[ImageBlock]:
        """Yield the images of the files in the IDX format, 10,000 at a time."""
        folder = require_files(self, *self.places).parent
        for part in ("train", "t10k"):
            pixels = _read_idx(folder / f"{part}-images-idx3-ubyte.gz")
            labels = _read_idx(folder / f"{part}-labels-idx1-ubyte.gz")
            if pixels.ndim != 3 or labels.shape != pixels.shape[:1]:
                both = f"{labels.size} labels for images {pixels.shape}"
                raise DataError(f"{folder} holds {both}; get it again")
            for start in range(0, len(pixels), 10_000):
                rows = slice(start, start + 10_000)
                yield ImageBlock(pixels[rows, :, :, None], labels[rows].astype(np.int64), part == "t10k")


def _read_idx(file: Path) -> np.ndarray:
    """Return the uint8 array in a file of the IDX format: 0 0 8, number of axes, their sizes, values."""
    try:
        data = gzip.decompress(file.read_bytes())
        shape = tuple(int(n) for n in np.frombuffer(data, ">i4", count=data[3], offset=4))
        if data[:3] != b"\x00\x00\x08" or len(data) != 4 + 4 * data[3] + math.prod(shape):
            raise ValueError("it is not what it says it holds")
        return np.frombuffer(data, np.uint8, offset=4 + 4 * data[3]).reshape(shape)
    except (OSError, EOFError, IndexError, ValueError, zlib.error) as error:
        raise DataError(f"{file} is not a file of Fashion-MNIST ({error}); get it again") from error


task = FashionMnist
