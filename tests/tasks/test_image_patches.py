"""Pictures made small and coarse: each symbol against a slow twin, and what is drawn of it."""

import numpy as np
import pytest
from pydantic import ValidationError

from selfpretrain.errors import SpecError
from selfpretrain.tasks import image_patches
from selfpretrain.tasks.common.images import cells_to_patches
from selfpretrain.tasks.image_patches import ImagePatches


@pytest.mark.parametrize("source", ["image-jpeg", "fashion-mnist"])
def test_symbols_are_four_shades_of_the_source(source):
    task = ImagePatches(source, made_up=True, train=40, val=10, test=20)
    train = task.load("train")
    whole = task.origin.load("train")
    pictures = np.stack([whole.sequence(row).reshape(8, 8) for row in range(len(whole))]).astype(float)
    edges = np.quantile(pictures, [0.25, 0.5, 0.75])
    slow = {tuple(_slowly(picture, edges)) for picture in pictures}
    for row in range(len(train)):
        assert tuple(train.sequence(row)) in slow
    assert np.bincount(train.targets.numpy(), minlength=10).min() >= 3  # classes in equal parts
    assert task.form.length == 16


def _slowly(picture, edges):
    for r in range(0, 8, 2):
        for c in range(0, 8, 2):
            four = [picture[r, c], picture[r, c + 1], picture[r + 1, c], picture[r + 1, c + 1]]
            yield sum(4**place * sum(value >= edge for edge in edges) for place, value in enumerate(four))


def test_pixels_undo_patches():
    random = np.random.RandomState(0)
    shades = random.randint(0, 4, (3, 16, 16))
    for image, sequence in zip(shades, cells_to_patches(shades.reshape(3, -1), 2, 4), strict=True):
        np.testing.assert_allclose(ImagePatches().pixels(sequence).reshape(16, 16), image / 3)


@pytest.mark.parametrize(("source", "patches"), [("image-jpeg", 64), ("fashion-mnist", 49)])
def test_a_plan_needs_no_pictures(source, patches, tmp_path, monkeypatch):
    monkeypatch.setenv("SELFPRETRAIN_DATA", str(tmp_path))
    planned = ImagePatches(source, labels=100).stubbed()
    assert planned.form.length == patches and planned.version() == ""
    assert int(planned.load("train").labelled.sum()) == 100
    assert not list(tmp_path.iterdir())
    made_up = ImagePatches(source, made_up=True)
    assert made_up.stubbed() is made_up


def test_more_labels_than_images_are_refused():
    with pytest.raises(ValidationError, match="labels=9 of train=8"):
        ImagePatches(train=8, labels=9)


def test_more_images_than_the_source_has_are_refused(monkeypatch):
    kept = np.zeros((12, 64), np.uint8), np.arange(12) % 10
    monkeypatch.setattr(image_patches, "_load_tokens", lambda task: {"train": kept})
    assert len(ImagePatches(train=12).load("train")) == 12
    with pytest.raises(SpecError, match="image-jpeg has 12 train images, not 13; lower train=13"):
        ImagePatches(train=13).load("train")


@pytest.mark.slow
@pytest.mark.needs_data("cifar10_jpeg")
def test_the_real_pictures(needs_data, monkeypatch):
    monkeypatch.setenv("SELFPRETRAIN_DATA", str(needs_data))
    task = ImagePatches(train=1000, val=500, test=500)
    test = task.load("test")
    assert len(test) == 500 and task.form.length == 64
    symbols = np.stack([test.sequence(row) for row in range(500)])
    assert len(np.unique(symbols)) > 200
