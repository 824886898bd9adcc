"""Images: the authors' pickles without their dangers, Parquet, IDX files, grey as Pillow has it, splits."""

import gzip
import io
import os
import pickle
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from PIL import Image as Pillow
from pyarrow import parquet as pq

from releases import BATCH, old_pickle, pixels, write_cifar
from selfpretrain.data.spec import SPLITS
from selfpretrain.errors import DataError
from selfpretrain.tasks import fashion_mnist
from selfpretrain.tasks.common import images
from selfpretrain.tasks.common.unpickle import read_batch
from selfpretrain.tasks.fashion_mnist import FashionMnist
from selfpretrain.tasks.image import Image
from selfpretrain.tasks.image_jpeg import ImageJpeg
from selfpretrain.tasks.scifar import Scifar

VAL = 50
"""Images held out in the small copy."""


@pytest.fixture
def data(tmp_path, monkeypatch):
    """An empty data folder, for releases of few images."""
    monkeypatch.setattr(images, "VAL", VAL)
    monkeypatch.setenv("SELFPRETRAIN_DATA", str(tmp_path))
    monkeypatch.setattr(FashionMnist, "places", FashionMnist.places[:1])
    return tmp_path


@pytest.mark.parametrize("protocol", ["python 2", 2, 4])
def test_a_batch_is_read_whoever_pickled_it(tmp_path, protocol):
    x, y = pixels(7), [1, 0, 9, 3, 3, 2, 5]
    content = old_pickle(x, y) if protocol == "python 2" else pickle.dumps({"data": x, "labels": y}, protocol)
    (tmp_path / "batch").write_bytes(content)
    assert protocol != "python 2" or pickle.loads(content, encoding="bytes")[b"labels"] == y
    images, labels = read_batch(tmp_path / "batch")
    assert labels.tolist() == y
    np.testing.assert_array_equal(images[4, 20, 9], x[4].reshape(3, 32, 32)[:, 20, 9])


class Evil:
    def __reduce__(self):
        return os.mkdir, ("made_by_a_pickle",)


@pytest.mark.parametrize(
    "content",
    [
        pickle.dumps({"data": Evil(), "labels": [0]}),
        pickle.dumps({"data": np.zeros((1, 3072)), "labels": [0]}, 2),
        pickle.dumps({"data": np.array([[{}]], dtype=object), "labels": [0]}, 2),
        pickle.dumps({"data": pixels(2), "labels": [0]}, 2),
        pickle.dumps({"data": np.asfortranarray(pixels(2)), "labels": [0, 1]}, 2),
        pickle.dumps([1, 2]),
        old_pickle(pixels(2), [0, 1])[:-100],
        b"",
    ],
    ids=["code", "floats", "objects", "labels", "order", "list", "cut", "empty"],
)
def test_anything_but_a_batch_is_refused(tmp_path, monkeypatch, content):
    monkeypatch.chdir(tmp_path)
    Path("batch").write_bytes(content)
    with pytest.raises(DataError, match="is not a batch of CIFAR-10"):
        read_batch(Path("batch"))
    assert not Path("made_by_a_pickle").exists()


def test_grey_is_that_of_pillow():
    some = pixels(2000).reshape(-1, 32, 32, 3)
    theirs = np.stack([np.asarray(Pillow.fromarray(image).convert("L")) for image in some])
    np.testing.assert_array_equal(images.grey(some)[..., 0], theirs)


def test_cifar_is_read_from_the_authors_folder(data):
    parts = write_cifar(data / "raw" / "cifar-10-batches-py")
    task = Scifar()
    splits = {split: task.load(split) for split in SPLITS}
    assert [len(e) for e in splits.values()] == [5 * BATCH - VAL, VAL, BATCH]
    assert splits["val"].targets.bincount().tolist() == [VAL // 10] * 10
    x, y = parts["test_batch"]
    assert splits["test"].targets.tolist() == y.tolist()
    np.testing.assert_array_equal(splits["test"].sequence(3), x[3].reshape(3, 1024).T)
    assert Scifar(split_seed=1).load("val").digests() != splits["val"].digests()
    assert Image().load("test").sequence(0).shape == (1024, 1)
    everything = [d for e in splits.values() for d in e.digests()]
    assert len(set(everything)) == 6 * BATCH


def encoded(image: np.ndarray) -> bytes:
    file = io.BytesIO()
    Pillow.fromarray(image).save(file, "png", compress_level=0)
    return file.getvalue()


def test_parquet_and_pickles_hold_the_same(data, tmp_path, monkeypatch):
    parts = write_cifar(data / "cifar-10-batches-py")
    theirs = {split: Image().load(split).digests() for split in SPLITS}
    other = tmp_path / "other"
    folder = other / "uoft-cs" / "cifar10" / "plain_text"
    folder.mkdir(parents=True)
    for part in ("train", "test"):
        some = [v for k, v in parts.items() if k.startswith("test") == (part == "test")]
        images = np.concatenate([x for x, _ in some]).reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1)
        column = [{"bytes": encoded(image), "path": None} for image in images]
        table = pa.table({"img": column, "label": np.concatenate([y for _, y in some])})
        pq.write_table(table, folder / f"{part}-00000-of-00001.parquet")
    monkeypatch.setenv("SELFPRETRAIN_DATA", str(other))
    assert {split: Image().load(split).digests() for split in SPLITS} == theirs


def test_damaged_parquet_is_said(data):
    assert ImageJpeg().tiny().form.signal.channels == 1
    assert replace(ImageJpeg(), colour="rgb").tiny().form.signal.channels == 3
    folder = data / "cifar10_jpeg"
    folder.mkdir()
    with pytest.raises(DataError, match="needs cifar10_jpeg"):
        ImageJpeg().load("train")
    (folder / "README").touch()
    with pytest.raises(DataError, match=r"no train\*\.parquet"):
        ImageJpeg().load("train")
    pq.write_table(pa.table({"image": [b"no image"], "label": [0]}), folder / "train.parquet")
    with pytest.raises(DataError, match="does not hold images and labels"):
        ImageJpeg().load("train")


def write_idx(folder: Path, part: str, images: np.ndarray, labels: np.ndarray) -> None:
    for kind, array in (("images-idx3", images), ("labels-idx1", labels)):
        head = bytes([0, 0, 8, array.ndim]) + b"".join(n.to_bytes(4, "big") for n in array.shape)
        (folder / f"{part}-{kind}-ubyte.gz").write_bytes(gzip.compress(head + array.tobytes(), 1))


def test_idx_files_are_read_and_checked(data):
    folder = data / "fashion-mnist"
    folder.mkdir()
    x, y = pixels(150)[:, :784].reshape(-1, 28, 28), np.arange(150).astype(np.uint8) % 10
    write_idx(folder, "train", x, y)
    write_idx(folder, "t10k", x[:9] ^ 255, y[:9])
    test = FashionMnist().load("test")
    np.testing.assert_array_equal(test.sequence(8)[:, 0], (x[8] ^ 255).flatten())
    assert test.targets.tolist() == y[:9].tolist()
    assert len(FashionMnist().load("train")) == 100
    write_idx(folder, "t10k", x[:9], y[:8])
    with pytest.raises(DataError, match="8 labels for images"):
        FashionMnist(split_seed=1).load("test")
    (folder / "t10k-images-idx3-ubyte.gz").write_bytes(gzip.compress(b"\0\0\x08\x03" + b"\0" * 20))
    with pytest.raises(DataError, match="not a file of Fashion-MNIST"):
        FashionMnist(split_seed=1).load("test")


@pytest.mark.slow
@pytest.mark.needs_data("cifar10_jpeg")
def test_the_jpeg_copy_has_the_statistics_of_cifar(real_data):
    """Constants of the usual code: grey 122.6 and 61.0; colours .4914 .4822 .4465 and .247 .243 .261."""
    grey, rgb = ImageJpeg(), ImageJpeg(colour="rgb")
    assert [len(grey.load(split)) for split in SPLITS] == [45_000, 5_000, 10_000]
    assert grey.load("test").targets.bincount().tolist() == [1000] * 10
    assert grey.form.signal.centre[0] == pytest.approx(122.6, abs=0.3)
    assert grey.form.signal.spread[0] == pytest.approx(61.0, abs=0.3)
    assert np.array(rgb.form.signal.centre) / 255 == pytest.approx([0.4914, 0.4822, 0.4465], abs=0.002)
    assert np.array(rgb.form.signal.spread) / 255 == pytest.approx([0.247, 0.243, 0.261], abs=0.003)


@pytest.mark.slow
@pytest.mark.skipif(
    not Path(fashion_mnist.DEBIAN).is_dir(), reason="needs Debian's package dataset-fashion-mnist"
)
def test_fashion_mnist_is_whole(tmp_path, monkeypatch):
    monkeypatch.setenv("SELFPRETRAIN_DATA", str(tmp_path))
    task = FashionMnist()
    assert [len(task.load(split)) for split in SPLITS] == [55_000, 5_000, 10_000]
    assert task.load("test").targets.bincount().tolist() == [1000] * 10
    assert task.form.signal.centre[0] == pytest.approx(72.9, abs=0.3)
    assert task.form.signal.spread[0] == pytest.approx(90.0, abs=0.3)
