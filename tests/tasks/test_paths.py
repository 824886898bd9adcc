"""The task of paths: positions of cells and patches, cues, subsets, and what it refuses."""

import numpy as np
import pydantic
import pytest
import torch
from scipy import ndimage

from selfpretrain.data.spec import SPLITS
from selfpretrain.errors import SpecError
from selfpretrain.tasks.common.images import cells_to_patches, patches_to_cells
from selfpretrain.tasks.inspect.baselines import baseline_scores
from selfpretrain.tasks.inspect.preview import preview
from selfpretrain.tasks.paths import Paths

SMALL = {"train": 300, "val": 100, "test": 100}


def pictures(task, split):
    examples = task.load(split)
    rows = np.stack([examples.sequence(i) for i in range(len(examples))])
    return patches_to_cells(rows, task.patch, 3).reshape(-1, task.size, task.size)


@pytest.mark.parametrize("fields", [{}, {"patch": 1}, {"size": 24}])
def test_labels_hold_for_the_pictures_that_positions_show(fields):
    task = Paths(**fields, **SMALL)
    for split in SPLITS:
        for image, label in zip(pictures(task, split), task.load(split).targets, strict=True):
            piece, _ = ndimage.label(image > 0)
            a, b = piece[image == 2]
            assert (a == b) == (label == 1)


def test_patches_are_read_row_by_row_and_lose_nothing(random):
    cells = np.zeros((1, 4, 4), np.uint8)
    cells[0, 0] = [1, 2, 0, 1]
    cells[0, 1] = [0, 1, 2, 0]
    found = cells_to_patches(cells.reshape(1, 16), 2, 3)
    assert found.tolist() == [[1 + 2 * 3 + 0 * 9 + 1 * 27, 0 + 1 * 3 + 2 * 9 + 0 * 27, 0, 0]]
    assert np.array_equal(patches_to_cells(found, 2, 3), cells.reshape(1, 16))
    assert Paths().symbols()[found[0, 0]] == "#O/.# "
    cells = random.randint(0, 3, (50, 64)).astype(np.uint8)
    for patch in (1, 2):
        assert np.array_equal(patches_to_cells(cells_to_patches(cells, patch, 3), patch, 3), cells)
    for split in SPLITS:
        single, double = (pictures(Paths(patch=patch, **SMALL), split) for patch in (1, 2))
        assert np.array_equal(single, double)


@pytest.mark.parametrize(
    ("size", "patch", "length"), [(8, 2, 16), (12, 2, 36), (12, 1, 144), (64, 2, 1024), (64, 1, 4096)]
)
def test_lengths(size, patch, length):
    task = Paths(size=size, patch=patch, train=20, val=10, test=10)
    assert task.form.length == length == task.load("val").sequence(0).size
    assert task.form.signal.vocab == len(task.symbols())


def test_cues_are_found_in_the_pictures_of_a_split_or_of_a_part():
    task = Paths(**SMALL)
    cue, val = task.shortcuts()["distance of the ends"], task.load("val")
    apart, rows = cue(val), torch.tensor([7, 3, 90])
    for image, number in zip(pictures(task, "val"), apart, strict=True):
        (r, s), (c, d) = np.nonzero(image == 2)
        assert number == abs(r - s) * 8 + abs(c - d)
    assert torch.equal(cue(val.take(rows)), apart[rows])


@pytest.mark.slow
def test_simple_methods():
    found = baseline_scores(Paths(train=8000, val=1000, test=4000))
    assert found["commonest class"] == 0.5
    assert found["distance of the ends"] == pytest.approx(0.5, abs=0.03)
    assert found["logistic regression on symbols at their places"] == pytest.approx(0.52, abs=0.03)
    assert 0.7 < found["gradient boosting on statistics"] < 0.9


def test_images_are_shown_as_images():
    task = Paths(**SMALL)
    view = preview(task, "val", 4)
    assert view.kind == "image"
    shown = np.stack([view.image(one.sequence) for one in view.shown])
    assert shown.shape == (4, 8, 8)
    assert ((shown == 1).sum((1, 2)) == 2).all()
    wanted = {image.tobytes() for image in pictures(task, "val") / 2}
    assert {image.tobytes() for image in shown} <= wanted


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"size": 9}, "multiple of patch"),
        ({"shortest": 20}, "raise longest"),
        ({"labels": 400, "train": 300}, "lower it"),
        ({"size": 65}, "size"),
        ({"gap": 0}, "gap"),
        ({"size": 8, "shortest": 30, "longest": 30}, "lower longest=30"),
    ],
)
def test_mistakes_are_refused(fields, said):
    with pytest.raises((pydantic.ValidationError, SpecError), match=said):
        Paths(**fields).load("val")
