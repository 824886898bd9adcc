"""IMDb reviews: the same ones wherever they come from, letter by letter, movies apart."""

import os
import shutil

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import parquet

from selfpretrain.data.spec import SPLITS
from selfpretrain.data.store import DatasetWriter
from selfpretrain.errors import DataError
from selfpretrain.tasks.common import tokenizer
from selfpretrain.tasks.text import Text

GOOD = "Good & <br /> good, n°"


def written(task, examples, row):
    symbols = task.symbols()
    return "".join(symbols[token] for token in examples.sequence(row).tolist())


def table(folder, part, texts, labels, movies=None):
    folder.mkdir(parents=True, exist_ok=True)
    columns = {"text": texts, "label": labels} | ({} if movies is None else {"movie": movies})
    parquet.write_table(pa.table(columns), folder / f"{part}.parquet")


def release(folder, part, texts, labels, movies):
    """The same reviews in the layout of aclImdb."""
    for label, name in enumerate(("neg", "pos")):
        (folder / part / name).mkdir(parents=True)
        rows = [i for i, y in enumerate(labels) if y == label]
        for number, i in enumerate(rows):
            (folder / part / name / f"{number}_{1 + 7 * label}.txt").write_bytes(texts[i].encode())
        lines = [f"http://www.imdb.com/title/tt{movies[i]:07d}/usercomments" for i in rows]
        (folder / part / f"urls_{name}.txt").write_text("\n".join(lines) + "\n")


def some(part):
    """Sixty reviews, negative ones first, about twelve movies."""
    labels = np.repeat([0, 1], 30)
    movies = np.arange(60) % 12 + (100 if part == "test" else 0)
    return [f"{GOOD} {part} {'x' * i}" for i in range(60)], labels, movies


@pytest.fixture(scope="module")
def imdb(tmp_path_factory, needs_data):
    """The real reviews, with a folder of our own to write to."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SELFPRETRAIN_DATA", f"{tmp_path_factory.mktemp('data')}{os.pathsep}{needs_data}")
        yield Text()


@pytest.mark.needs_data("imdb")
def test_the_real_reviews_are_split_by_movie(imdb):
    splits = [imdb.load(split) for split in SPLITS]
    assert [len(s) for s in splits] == [22_500, 2_500, 25_000]
    for s in splits:
        assert s.targets.bincount().tolist() == [len(s) // 2] * 2
    train, val = (set(s.groups.tolist()) for s in splits[:2])
    assert len(train | val) == 3456
    assert not train & val
    assert imdb.form.length == 4096
    assert 120 < imdb.form.signal.vocab < 132


@pytest.mark.needs_data("imdb")
def test_the_real_reviews_are_what_was_written(imdb, needs_data):
    texts = parquet.read_table(needs_data / "imdb" / "test.parquet")["text"].to_pylist()
    test, rare = imdb.load("test"), 0
    for row in range(0, 25_000, 97):
        pairs = list(zip(written(imdb, test, row), texts[row][:4096], strict=True))
        rare += sum(a != b for a, b in pairs)
        assert all(a in (b, "\ufffd") for a, b in pairs)
    assert rare < 30


@pytest.mark.needs_data("imdb")
def test_the_alphabet_of_the_official_training_part_is_the_published_one(needs_data):
    """131 characters that occur 15 times and more, and one for all others."""
    texts = parquet.read_table(needs_data / "imdb" / "train.parquet")["text"].to_pylist()
    assert tokenizer.build_tokenizer(texts, "characters", 4096, 15).vocab == 132


def test_every_layout_gives_the_same_set(home, monkeypatch):
    for part in ("train", "test"):
        table(home / "one" / "imdb", part, *some(part))
        release(home / "two" / "raw" / "aclImdb", part, *some(part))
    digests = []
    for folder in ("one", "two"):
        monkeypatch.setenv("SELFPRETRAIN_DATA", str(home / folder))
        digests.append(Text().version())
    assert digests[0] == digests[1]
    assert written(Text(), Text().load("test"), 0).startswith(GOOD)


def test_without_movies_equal_texts_stay_together(home):
    for part in ("train", "test"):
        texts, labels, _ = some(part)
        twice = [text.upper() if i % 2 else f"{text}!" for i, text in enumerate(np.repeat(texts, 2))]
        table(home / "imdb", part, twice, np.repeat(labels, 2))
    train, val = (Text().load(split) for split in ("train", "val"))
    assert len(val) == 12
    assert not set(train.groups.tolist()) & set(val.groups.tolist())
    assert np.unique(val.groups.numpy(), return_counts=True)[1].tolist() == [2] * 6


def test_half_a_release_or_another_table_is_refused(home):
    def refused(said):
        with pytest.raises(DataError, match=said):
            Text().load("train")

    for part in ("train", "test"):
        release(home / "aclImdb", part, *some(part))
    (home / "aclImdb" / "train" / "neg" / "3_1.txt").unlink()
    refused(r"29 reviews and urls_neg\.txt 30 addresses")
    shutil.rmtree(home / "aclImdb")
    table(home / "imdb", "train", *some("train"))
    (home / "imdb" / "test.parquet").write_bytes(b"PAR1")
    refused(r"test\.parquet cannot be read")
    parquet.write_table(pa.table({"text": ["a"]}), home / "imdb" / "test.parquet")
    refused("has no column label")


def test_rare_characters_are_not_known_and_another_seed_holds_other_movies_out(home):
    for part in ("train", "test"):
        texts, labels, movies = some(part)
        texts = [f"{text}ß" if i < 5 else text for i, text in enumerate(texts)]
        table(home / "imdb", part, texts, labels, movies)
    assert "ß" not in Text().symbols()
    assert "&" in Text().symbols()
    assert not any("ß" in written(Text(), Text().load("test"), row) for row in range(5))
    held = [set(Text(split_seed=seed).load("val").groups.tolist()) for seed in (0, 1)]
    assert held[0] != held[1]


@given(st.lists(st.text(max_size=30), min_size=1, max_size=8), st.integers(1, 12), st.integers(1, 3))
def test_characters_and_bytes_come_back(texts, length, least):
    alphabet = tokenizer.build_tokenizer(texts, "characters", length, least)
    out = DatasetWriter(None)
    starts, lengths = alphabet.append(out, texts)
    flat, symbols = np.concatenate(out._parts), alphabet.symbols
    whole = "".join(text[:length] for text in texts)
    for text, start, size in zip(texts, starts, lengths, strict=True):
        said = "".join(symbols[i] for i in flat[start : start + size])
        known = (c if c != "\0" and whole.count(c) >= least else "\ufffd" for c in text[:length])
        assert said == ("".join(known) or "\ufffd")
    assert len(symbols) == alphabet.vocab > int(flat.max())
    texts, out = [text or "empty" for text in texts], DatasetWriter(None)
    starts, lengths = tokenizer.build_tokenizer(texts, "bytes", length).append(out, texts)
    flat = np.concatenate(out._parts)
    for text, start, size in zip(texts, starts, lengths, strict=True):
        assert flat[start : start + size].tobytes() == text.encode()[:length]


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 2)), min_size=1, max_size=80), st.integers(0, 9))
def test_whole_groups_are_held_out_and_no_class_too_often(rows, seed):
    groups, classes = np.array(rows).T
    held = tokenizer.hold_out_groups(classes, groups, 0.3, seed)
    assert not set(groups[held]) & set(groups[~held])
    assert (np.bincount(classes[held], minlength=3) <= 0.3 * np.bincount(classes, minlength=3)).all()
