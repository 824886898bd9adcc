"""Pairs of papers, read from files as the release has them."""

import numpy as np
import pytest

from selfpretrain.data.spec import SPLITS
from selfpretrain.errors import DataError
from selfpretrain.tasks.retrieval import FILES, Retrieval, make_synthetic_lines

LONG = "x" * 5000


@pytest.fixture
def release(tmp_path, monkeypatch):
    """Three files of made-up papers, among them one that is too long, quoted and not English."""
    monkeypatch.setenv("SELFPRETRAIN_DATA", str(tmp_path))
    folder = tmp_path / "lra_release" / "lra_release"
    (folder / "tsv_data").mkdir(parents=True)
    for split in SPLITS:
        odd = [f'1.0\ta\tb\t"{split} says "né\u00e9"\t{LONG}\n'.encode()]
        (folder / FILES[split]).write_bytes(b"".join(make_synthetic_lines(split) + odd))
    return folder


def written(task, examples, row, view):
    symbols = task.symbols()
    return "".join(symbols[token] for token in examples.sequence(row, view).tolist())


def test_the_files_are_read_as_they_are(release):
    task, starts = Retrieval(), set()
    assert task.form.views == 2
    assert task.form.length == 4000
    for split in SPLITS:
        examples = task.load(split)
        for row, line in enumerate(make_synthetic_lines(split)):
            label, _, _, one, other = line.decode().rstrip("\n").split("\t")
            assert examples.targets[row] == float(label)
            assert written(task, examples, row, 0) == one
            assert written(task, examples, row, 1) == other
        assert examples.lengths[1, -1] == 4000
        assert examples.targets[-1] == 1
        assert written(task, examples, len(examples) - 1, 0).endswith(' says "néé"')
        starts.add(int(examples.starts[1, -1]))
    assert len(starts) == 1, "a text is kept once"


def test_characters_that_training_texts_lack_and_empty_texts_are_unknown(release):
    with (release / FILES["test"]).open("ab") as file:
        file.write("0.0\ta\tb\tplain ß\tother\n0.0\ta\tb\t\tother\n".encode())
    test = Retrieval().load("test")
    assert written(Retrieval(), test, len(test) - 2, 0) == "plain \ufffd"
    assert test.sequence(-1, 0).tolist() == [0] and "ß" not in Retrieval().symbols()


def test_made_up_pairs_are_those_of_made_up_files(release):
    for split in SPLITS:
        (release / FILES[split]).write_bytes(b"".join(make_synthetic_lines(split)))
    for split in SPLITS:
        assert Retrieval().load(split).digests() == Retrieval(made_up=True).load(split).digests()
    assert np.bincount(Retrieval(made_up=True).load("train").targets).tolist() == [60, 60]


@pytest.mark.parametrize(
    "line", [b"1.0\ta\tb\tone text\n", b"yes\ta\tb\tone\tother\n", b"\n", b"0.5\ta\tb\tone\tother\n"]
)
def test_another_line_is_refused(release, line):
    with (release / FILES["val"]).open("ab") as file:
        file.write(line)
    with pytest.raises(DataError, match=r"line 42 of .*eval.tsv"):
        Retrieval().load("train")


def test_a_missing_file_is_asked_for(release):
    (release / FILES["test"]).unlink()
    with pytest.raises(DataError, match=r"new_aan_pairs.test.tsv: run `selfpretrain data get retrieval`"):
        Retrieval().load("train")
