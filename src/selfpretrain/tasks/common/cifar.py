"""Read CIFAR-10 as published: six pickled batches, or Parquet files of encoded images."""

from collections.abc import Iterator
from pathlib import Path

from ...config import Seed, spec
from ...data.download import Download
from ...errors import DataError
from . import images
from .augmentations import Pictures
from .images import ImageBlock, ImageTask
from .stored import require_files
from .unpickle import read_batch

NAMES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
BATCHES = "cifar-10-batches-py"


@spec
class Cifar(ImageTask):
    """Which object is in the picture? Base class of the tasks on CIFAR-10."""

    downloads = (
        Download(
            "https://www.cs.toronto.edu/~kriz/cifar-10-python.tar.gz",
            into=BATCHES,
            size=170_498_071,
            md5="c58f30108f718f92721af3b95e74349a",
        ),
    )
    places = (BATCHES, "uoft-cs/cifar10", "cifar10")
    names = NAMES
    augmentation = Pictures(("left-right",), shift=4)

    split_seed: Seed = 0  # seed of the choice of the 5,000 validation images

    def blocks(self) -> Iterator[ImageBlock]:
        """Yield the images of the authors' folder, or of the Parquet files of uoft-cs/cifar10."""
        folder = require_files(self, *self.places)
        if folder.name != BATCHES:
            yield from read_parquet(folder, "img")
            return
        for name in (*(f"data_batch_{i}" for i in range(1, 6)), "test_batch"):
            yield ImageBlock(*read_batch(folder / name), test=name == "test_batch")


def read_parquet(folder: Path, column: str) -> Iterator[ImageBlock]:
    """Yield images from ``train*.parquet`` and ``test*.parquet`` in or below a folder.

    Args:
        column: column of the encoded images: bytes, or records with a field ``bytes``.

    Raises:
        DataError: if there are no such files, or they do not hold images and labels.
    """
    import pyarrow as pa
    from pyarrow import parquet as pq

    for part in ("train", "test"):
        files = sorted(folder.rglob(f"{part}*.parquet"))
        if not files:
            raise DataError(f"no {part}*.parquet in {folder}; place the files of the data set there")
        for file in files:
            try:
                for rows in pq.ParquetFile(file).iter_batches(1000, columns=[column, "label"]):
                    cells = rows[column].to_pylist()
                    encoded = [cell["bytes"] if isinstance(cell, dict) else cell for cell in cells]
                    yield ImageBlock(images.decode(encoded), rows["label"].to_numpy(), part == "test")
            except (pa.ArrowException, KeyError, OSError, TypeError, ValueError) as error:
                raise DataError(f"{file} does not hold images and labels: {error}") from error
