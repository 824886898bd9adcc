"""Spoken digits: takes or speakers apart, from Parquet or from a folder of WAV files."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet as pq

from releases import write_wav
from selfpretrain.data.spec import SPLITS
from selfpretrain.errors import DataError
from selfpretrain.tasks.inspect.baselines import baseline_scores
from selfpretrain.tasks.spoken_digits import ARCHIVE, SpokenDigits

SPEAKERS = ("ann", "bob", "cleo")


def takes(digits: int = 10, each: int = 12) -> list[tuple[int, str, int, np.ndarray]]:
    """Three speakers say ten digits, a dozen times each."""
    random = np.random.RandomState(0)
    keys = [(d, s, t) for d in range(digits) for s in SPEAKERS for t in range(each)]
    return [(*key, random.randint(-999, 999, random.randint(300, 900)).astype(np.int16)) for key in keys]


def write_parquet(folder: Path, rows) -> None:
    (folder / "fsdd").mkdir(parents=True)
    columns = zip(*rows, strict=True)
    table = pa.table(dict(zip(("label", "speaker", "take", "audio"), map(list, columns), strict=True)))
    pq.write_table(table, folder / "fsdd" / "fsdd.parquet")


def write_folder(folder: Path, rows) -> Path:
    place = folder / "raw" / ARCHIVE / "recordings"
    place.mkdir(parents=True)
    for digit, speaker, take, samples in rows:
        write_wav(place / f"{digit}_{speaker}_{take}.wav", samples, rate=8000)
    return place


@pytest.fixture
def data(tmp_path, monkeypatch):
    monkeypatch.setenv("SELFPRETRAIN_DATA", str(tmp_path / "a"))
    return tmp_path


def test_takes_are_held_out_for_everybody_and_long_ones_are_cut(data):
    rows = takes()
    write_parquet(data / "a", rows)
    splits = {split: SpokenDigits().load(split) for split in SPLITS}
    assert [len(e) for e in splits.values()] == [60, 150, 150]
    test = [samples for _, _, take, samples in rows if take < 5]
    np.testing.assert_array_equal(splits["test"].sequence(77)[:, 0], test[77])
    assert splits["test"].targets.bincount().tolist() == [15] * 10
    assert splits["train"].groups is None
    task = SpokenDigits(longest=400)
    assert task.form.length == 400
    whole, cut = splits["val"], task.load("val")
    assert all((cut.sequence(i) == whole.sequence(i)[:400]).all() for i in range(len(cut)))
    assert SpokenDigits(longest=400, features="mfcc").form.length == 5


def test_speakers_are_held_out_whole(data):
    write_parquet(data / "a", takes())
    splits = [SpokenDigits(split="speakers").load(split) for split in SPLITS]
    assert [len(e.groups.unique()) for e in splits] == [1, 1, 1]
    assert [len(e) for e in splits] == [120, 120, 120]


def test_a_folder_and_a_table_hold_the_same(data, monkeypatch):
    rows = takes()
    write_parquet(data / "a", rows)
    write_folder(data / "b", rows[::-1])
    theirs = [SpokenDigits().load(split).digests() for split in SPLITS]
    monkeypatch.setenv("SELFPRETRAIN_DATA", str(data / "b"))
    assert [SpokenDigits().load(split).digests() for split in SPLITS] == theirs


def test_foreign_files_are_refused(data, monkeypatch):
    place = write_folder(data / "a", takes(each=1))
    (place / "hello.wav").touch()
    with pytest.raises(DataError, match="files such as 7_jackson_32"):
        SpokenDigits().load("train")
    monkeypatch.setenv("SELFPRETRAIN_DATA", str(data / "b"))
    (data / "b" / "fsdd").mkdir(parents=True)
    pq.write_table(pa.table({"label": [1]}), data / "b" / "fsdd" / "fsdd.parquet")
    with pytest.raises(DataError, match="has no column speaker"):
        SpokenDigits().load("train")


@pytest.mark.needs_data("fsdd")
def test_the_whole_set(real_data):
    splits = {split: SpokenDigits().load(split) for split in SPLITS}
    assert [len(e) for e in splits.values()] == [2400, 300, 300]
    assert all(e.targets.bincount().tolist() == [len(e) // 10] * 10 for e in splits.values())
    assert SpokenDigits().form.length == 8000
    assert sum(int((e.lengths == 8000).sum()) for e in splits.values()) / 3000 == pytest.approx(
        0.007, abs=1e-3
    )


@pytest.mark.slow
@pytest.mark.needs_data("fsdd")
def test_new_speakers_are_harder(real_data):
    """The figures of the card."""
    name = "logistic regression on mean, sd, min, max"
    assert baseline_scores(SpokenDigits(features="mfcc"))[name] == pytest.approx(0.97, abs=0.02)
    assert baseline_scores(SpokenDigits(features="mfcc", split="speakers"))[name] == pytest.approx(
        0.64, abs=0.05
    )
