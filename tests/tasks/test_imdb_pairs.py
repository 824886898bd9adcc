"""Pairs of reviews: what is said of them holds, and nothing else tells the answer."""

import os

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import parquet

from selfpretrain.data.spec import SPLITS
from selfpretrain.errors import DataError
from selfpretrain.tasks import imdb_pairs
from selfpretrain.tasks.common.text_imdb import Reviews
from selfpretrain.tasks.imdb_pairs import ImdbPairs

LISTS = {"train": 60_000, "val": 6_000, "test": 12_000}


@pytest.fixture(scope="module")
def real(tmp_path_factory, needs_data):
    """The real reviews, with a folder of our own to write to."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SELFPRETRAIN_DATA", f"{tmp_path_factory.mktemp('data')}{os.pathsep}{needs_data}")
        yield needs_data


@pytest.mark.needs_data("imdb", "imdb_pairs")
def test_listed_pairs_are_those_of_the_lists(real):
    task = ImdbPairs(source="files", length=50)
    symbols = task.symbols()
    for split, number in LISTS.items():
        examples = task.load(split)
        listed = parquet.read_table(real / "imdb_pairs" / f"{split}.parquet").to_pydict()
        part = "test" if split == "test" else "train"
        texts = parquet.read_table(real / "imdb" / f"{part}.parquet")["text"].to_pylist()
        assert len(examples) == number
        assert examples.targets.tolist() == listed["label"]
        for row in range(0, number, number // 50):
            for view, column in enumerate("ab"):
                said = [symbols[i] for i in examples.sequence(row, view).tolist()]
                wanted = texts[listed[column][row]][:50]
                assert all(a in (b, "\ufffd") for a, b in zip(said, wanted, strict=True))


@pytest.mark.needs_data("imdb")
def test_drawn_pairs_are_many_balanced_and_of_movies_apart(real):
    task = ImdbPairs(length=50)
    assert {split: len(task.load(split)) for split in SPLITS} == LISTS
    seen = [set(task.load(split).starts.flatten().tolist()) for split in SPLITS]
    assert not (seen[0] & seen[1] or seen[0] & seen[2] or seen[1] & seen[2])
    for split in SPLITS:
        assert task.load(split).targets.bincount().tolist() == [LISTS[split] // 2] * 2


@given(st.integers(4, 12), st.integers(2, 6), st.integers(2, 60), st.integers(0, 99))
def test_neither_one_review_nor_the_sentiments_tell(movies, each, wanted, seed):
    groups = np.repeat(np.arange(movies), each)
    labels = np.arange(len(groups)) % 2
    reviews = Reviews([""] * len(groups), labels, groups, by_movie=True)
    rows = np.arange(len(groups))
    pairs, same = imdb_pairs._draw_pairs(reviews, rows, wanted, np.random.RandomState(seed))
    assert ((groups[pairs[0]] == groups[pairs[1]]) == same).all()
    assert (pairs[0] != pairs[1]).all()
    positive = pairs[:, same == 1]
    assert len(np.unique(np.sort(positive, axis=0), axis=1).T) == positive.shape[1] <= wanted // 2
    if (same == 0).sum() == (same == 1).sum():
        for view in range(2):
            counts = [np.bincount(pairs[view, same == y], minlength=len(groups)) for y in (0, 1)]
            assert (counts[0] == counts[1]).all()
        tones = [np.bincount(2 * labels[pairs[0]][same == y] + labels[pairs[1]][same == y]) for y in (0, 1)]
        assert tones[0].tolist() == tones[1].tolist()


def test_made_up_pairs_are_balanced():
    for split in SPLITS:
        counts = ImdbPairs(made_up=True).load(split).targets.bincount()
        assert counts[1] >= 5
        assert counts[0] >= counts[1] / 2


@pytest.mark.parametrize(
    ("columns", "said"),
    [({}, "do not name the movies"), ({"movie": [1, 2, 3]}, "no movie has two reviews")],
    ids=["no movies", "movies apart"],
)
def test_reviews_without_pairs_are_refused(home, columns, said):
    (home / "imdb").mkdir(parents=True)
    for part in ("train", "test"):
        reviews = pa.table({"text": ["a", "b", "c"], "label": [0, 1, 0]} | columns)
        parquet.write_table(reviews, home / "imdb" / f"{part}.parquet")
    with pytest.raises(DataError, match=said):
        ImdbPairs().load("train")


@pytest.mark.needs_data("imdb")
def test_lists_that_do_not_fit_are_refused(tmp_path, monkeypatch, needs_data):
    monkeypatch.setenv("SELFPRETRAIN_DATA", f"{tmp_path}{os.pathsep}{tmp_path / 'more'}")
    (tmp_path / "imdb").symlink_to(needs_data / "imdb")
    with pytest.raises(DataError, match="place it in"):
        ImdbPairs(source="files").load("train")
    (tmp_path / "imdb_pairs").mkdir()
    beyond = pa.table({"a": [0], "b": [25_000], "label": [0]})
    parquet.write_table(beyond, tmp_path / "imdb_pairs" / "train.parquet")
    with pytest.raises(DataError, match=r"beyond 0\.\.24999"):
        ImdbPairs(source="files").load("train")


@pytest.mark.parametrize("pairs", [[(0, 1, -1)], [(0, 1, 2)], [(None, 1, 0)], [(0, 3, 1)], []], ids=str)
def test_pairs_that_say_nothing_are_refused(tmp_path, monkeypatch, pairs):
    monkeypatch.setenv("SELFPRETRAIN_DATA", str(tmp_path))
    (tmp_path / "imdb_pairs").mkdir()
    columns = dict(zip("ab", zip(*[pair[:2] for pair in pairs], strict=True), strict=False))
    table = pa.table(
        {
            "a": pa.array(columns.get("a", ()), pa.int64()),
            "b": pa.array(columns.get("b", ()), pa.int64()),
            "label": pa.array([pair[2] for pair in pairs], pa.int64()),
        }
    )
    parquet.write_table(table, tmp_path / "imdb_pairs" / "train.parquet")
    with pytest.raises(DataError, match=r"must hold 0 \(different\) or 1|names reviews beyond 0\.\.2"):
        imdb_pairs._read_pairs("train", 3)
