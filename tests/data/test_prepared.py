"""A prepared set comes back as it was written, whole or not at all."""

import errno
import os

import numpy as np
import pytest

from imports import add_sequences
from selfpretrain.data.spec import Classes, SequenceSpec, Tokens
from selfpretrain.data.store import DatasetWriter, open_dataset, open_writer, verify
from selfpretrain.errors import DataError

FORM = SequenceSpec(Tokens(9), 5, Classes(("a", "b")))


def fill(out: DatasetWriter, first: int = 0, last: int = 6):
    for i in range(first, last):
        sequence = np.arange(i, i + 1 + i % 5).astype(np.uint8) % 9
        add_sequences(out, [sequence], np.array([i % 2]), np.array([i % 3]), np.array([i]))
        out.checkpoint()


def contents(data):
    rows = [data.examples(split) for split in ("train", "val", "test")]
    return [(e.digests(), e.targets.tolist(), e.groups.tolist()) for e in rows]


@pytest.fixture
def place(tmp_path):
    return tmp_path / "sets" / "one"


def test_disk_and_memory_hold_the_same(place):
    with open_writer(place) as out:
        fill(out)
        written = out.finish(FORM)
    memory = DatasetWriter(None)
    fill(memory)
    kept = memory.finish(FORM)
    assert contents(open_dataset(place)) == contents(written) == contents(kept)
    assert open_dataset(place).form == FORM
    verify(place)


def test_an_interrupted_writer_goes_on_from_its_checkpoint(place):
    with pytest.raises(KeyboardInterrupt), open_writer(place, resume=True) as out:
        fill(out, 0, 3)
        out.append(np.zeros(4, np.uint8))  # after the checkpoint: must be forgotten
        raise KeyboardInterrupt
    assert not place.exists()
    with open_writer(place, resume=True) as out:
        assert out.rows == 3
        fill(out, 3)
        out.finish(FORM)
    whole = DatasetWriter(None)
    fill(whole)
    assert contents(open_dataset(place)) == contents(whole.finish(FORM))


@pytest.mark.parametrize(
    ("problem", "said"),
    [(ZeroDivisionError(), ZeroDivisionError), (OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)), DataError)],
)
def test_without_resume_nothing_is_left_of_a_failure(place, problem, said):
    with pytest.raises(said, match="is full" if said is DataError else None), open_writer(place) as out:
        fill(out)
        raise problem
    assert list(place.parent.iterdir()) == []
