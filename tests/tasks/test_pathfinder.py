"""Pathfinder, PathX and PathX-256: generated or released, whole or interrupted, always the same images."""

import io
import os

import numpy as np
import pytest
import torch
from PIL import Image
from pydantic import ValidationError

from selfpretrain.data.dataset import SequenceDataset
from selfpretrain.data.spec import SPLITS
from selfpretrain.errors import DataError
from selfpretrain.system import events
from selfpretrain.tasks.common import pathfinder
from selfpretrain.tasks.generators import pathfinder as generator
from selfpretrain.tasks.pathfinder import Pathfinder
from selfpretrain.tasks.pathx import PathX
from selfpretrain.tasks.pathx256 import PathX256

SMALL = {"train": 300, "val": 60, "test": 60}


def images(examples, side=32):
    return np.stack([examples.sequence(row).reshape(side, side) for row in range(len(examples))])


def contents(task):
    return [(task.load(split).digests(), task.load(split).targets.tolist()) for split in SPLITS]


def released(home, form, number=60):
    """A release of easy images in two folders, its tables as texts or as arrays; one file is empty."""
    folder = home / "lra_release" / "lra_release" / "pathfinder32" / "curv_baseline"
    pixels, labels, _ = generator.images(
        generator.seeds(5, np.arange(number)), generator.Settings(32, 6, "lra")
    )
    (folder / "metadata").mkdir(parents=True)
    for batch in range(2):
        (folder / "imgs" / str(batch)).mkdir(parents=True)
        lines = []
        for row in range(batch, number, 2):
            name = "sample_172.png" if row == 10 else f"sample_{row}.png"
            lines.append([f"imgs/{batch}", name, str(row), str(labels[row]), "0.5"])
            Image.fromarray(pixels[row]).save(folder / "imgs" / str(batch) / name)
        table = folder / "metadata" / f"{batch}.npy"
        if form == "text":
            table.write_text("".join(f"{' '.join(line)}\n" for line in lines))
        else:
            np.save(table, np.array(lines))
    (folder / "imgs" / "0" / "sample_172.png").write_bytes(b"")
    return folder, np.delete(pixels, 10, axis=0), np.delete(labels, 10)


def test_generated_images_are_those_of_the_generator(home):
    task = Pathfinder(**SMALL)
    pixels, labels, _ = generator.images(
        generator.seeds(0, np.arange(300)), generator.Settings(32, 14, "lra")
    )
    np.testing.assert_array_equal(images(task.load("train")), pixels)
    np.testing.assert_array_equal(task.load("train").targets, labels)
    assert [len(task.load(split)) for split in SPLITS] == [300, 60, 60]
    assert task.form.length == 1024


def test_fewer_images_are_a_part_of_more(home):
    few, more = Pathfinder(train=40, val=30, test=20), Pathfinder(train=90, val=60, test=60)
    for split in SPLITS:
        a, b = few.load(split), more.load(split)
        assert a.digests() == b.digests()[: len(a)]
        assert torch.equal(a.targets, b.targets[: len(a)])


def test_fields_give_other_images(home):
    tasks = [Pathfinder(**SMALL), Pathfinder(**SMALL, seed=1), Pathfinder(**SMALL, difficulty="easy")]
    seen = [set(task.load("val").digests()) for task in tasks]
    assert not (seen[0] & seen[1] or seen[0] & seen[2])
    assert len({task.folder for task in tasks}) == 3
    assert [task().side for task in (Pathfinder, PathX, PathX256)] == [32, 128, 256]
    assert Pathfinder(resolution=64).side == 64


@pytest.mark.parametrize("wrong", [{"resolution": 48}, {"difficulty": "odd"}, {"quirks": "some"}])
def test_what_is_not_known_is_refused(wrong):
    with pytest.raises(ValidationError, match="Input should be"):
        Pathfinder(**wrong)


def test_an_interrupted_set_is_taken_up_again(home, monkeypatch):
    whole = contents(Pathfinder(**SMALL))
    monkeypatch.setenv("SELFPRETRAIN_DATA", str(home / "other"))
    monkeypatch.setattr(pathfinder, "CHUNK", 50)
    told = []

    def stop(event):
        told.append((event.done, event.total))
        if event.done == 150:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), events.listen(stop):
        Pathfinder(**SMALL).data()
    assert told == [(50, 420), (100, 420), (150, 420)]
    told.clear()
    with events.listen(stop):
        assert contents(Pathfinder(**SMALL)) == whole
    assert told[0] == (200, 420)


@pytest.mark.parametrize("form", ["text", "array"])
def test_a_release_is_read(home, form):
    _, pixels, labels = released(home, form)
    task = Pathfinder(source="lra", difficulty="easy")
    splits = [task.load(split) for split in SPLITS]
    assert [len(s) for s in splits] == [49, 5, 5]
    found = np.concatenate([images(s) for s in splits])
    answers = np.concatenate([s.targets for s in splits])
    wanted = {image.tobytes(): label for image, label in zip(pixels, labels, strict=True)}
    assert len(wanted) == 59
    assert {image.tobytes(): answer for image, answer in zip(found, answers, strict=True)} == wanted
    few = Pathfinder(source="lra", difficulty="easy", train=20, val=2, test=2)
    for split, whole in zip(SPLITS, splits, strict=True):
        assert few.load(split).digests() == whole.digests()[: len(few.load(split))]


def png(side):
    file = io.BytesIO()
    Image.fromarray(np.zeros((side, side), np.uint8)).save(file, "png")
    return file.getvalue()


@pytest.mark.parametrize(
    ("place", "content", "message"),
    [
        ("imgs/1/sample_3.png", b"", r"sample_3.png is not an image"),
        ("imgs/1/sample_3.png", b"\x89PNG and no more", r"sample_3.png is not an image"),
        ("imgs/1/sample_3.png", png(16), "not 32 by 32"),
        ("metadata/1.npy", b"imgs/1 sample_1.png\n", r"1.npy does not say"),
        ("metadata/1.npy", b"\x93NUMPY and no more", r"1.npy cannot be read"),
    ],
)
def test_a_damaged_release_is_refused(home, place, content, message):
    folder, _, _ = released(home, "text")
    (folder / place).write_bytes(content)
    with pytest.raises(DataError, match=message):
        Pathfinder(source="lra", difficulty="easy").load("train")


@pytest.mark.parametrize(
    ("kind", "side", "number", "share"), [(Pathfinder, 32, 400, 0.97), (PathX256, 256, 40, 1)]
)
def test_markers_are_found(kind, side, number, share):
    seeds = generator.seeds(3, np.arange(number))
    pixels, labels, facts = generator.images(seeds, generator.Settings(side, 14, "lra"))
    marked = facts.marked[:, :, None].astype(np.int64)
    ends = np.take_along_axis(facts.dashes, marked, axis=1)[:, :, :2].astype(float)
    apart = np.hypot(*(ends[:, 0] - ends[:, 1]).T)
    found = pathfinder.marker_distance(SequenceDataset.from_array(pixels.reshape(number, -1, 1), labels))
    close = abs(found.numpy() - apart * 32 / side) < 1 + 32 / side
    assert close.mean() >= share


@pytest.mark.needs_data("reference_fixtures")
@pytest.mark.parametrize("side", [32, 128, 256])
def test_markers_are_found_in_images_of_the_original_program(needs_data, side):
    """They lie on the start of a contour, and on the end of the same or the other one; some overlap."""
    with np.load(needs_data / "reference_fixtures" / f"pathfinder{side}_reference.npz") as arrays:
        pixels, labels, tips = arrays["images"], arrays["labels"].astype(int), arrays["tips"].astype(float)
    n, rows = len(labels), np.arange(len(labels))
    found = pathfinder.marker_distance(SequenceDataset.from_array(pixels.reshape(n, -1, 1), labels)).numpy()
    close = np.zeros(n, dtype=bool)
    for contour in range(2):
        other = np.where(labels == 1, contour, 1 - contour)
        apart = np.hypot(*(tips[rows, 0, contour] - tips[rows, 1, other]).T)
        close |= abs(found - apart * 32 / side) < 1 + 32 / side
    assert close.mean() > 0.97


def test_made_up_images_show_what_they_are_said_to():
    """Connected: both markers are in the same row."""
    task = Pathfinder(made_up=True)
    for split in SPLITS:
        for image, label in zip(images(task.load(split), 16), task.load(split).targets, strict=True):
            rows, columns = np.nonzero(image == 255)
            left, right = set(rows[columns < 8]), set(rows[columns > 8])
            assert (left == right) == bool(label)


@pytest.mark.slow
def test_memory_stays_small(home):
    """6,000 images of 256 by 256 pixels take 400 MB unpacked; not all are held at once."""
    import subprocess
    import sys

    code = (
        "import resource; from selfpretrain.tasks.pathx256 import PathX256; "
        "PathX256(train=5000, val=500, test=500).data(); "
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=os.environ
    )
    assert int(done.stdout) / 2**20 < 2
