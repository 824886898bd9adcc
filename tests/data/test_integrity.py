"""Damaged data are named or made again, never trained on, and never read out of bounds."""

import errno
import json
import os

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from imports import add_sequences, bring
from selfpretrain.config import spec
from selfpretrain.data import rows, store
from selfpretrain.data.dataset import SequenceDataset
from selfpretrain.data.importing.importer import import_arrays
from selfpretrain.data.paths import imported_datasets
from selfpretrain.data.spec import SPLITS, Classes, SequenceSpec, Tokens
from selfpretrain.data.store import DatasetWriter, open_dataset, open_writer, stored_datasets, verify
from selfpretrain.errors import DamagedData, DataError
from selfpretrain.system.files import SEAL, json_bytes
from selfpretrain.tasks.base import Card
from selfpretrain.tasks.common import stored
from selfpretrain.tasks.common.stored import Prepared
from selfpretrain.tasks.imported import Imported

pytestmark = pytest.mark.usefixtures("home")


@pytest.fixture
def tiny(home):
    """The folder of a small imported set."""
    random = np.random.RandomState(0)
    import_arrays("tiny", [random.randint(0, 9, 5 + i % 4) for i in range(60)], np.arange(60) % 3)
    return home / "own" / "tiny"


def change(folder, name, index, value):
    """One number of a column, in its file."""
    column = np.load(folder / f"{name}.npy")
    column[index] = value
    np.save(folder / f"{name}.npy", column)


def flip(file, byte, bit):
    data = bytearray(file.read_bytes())
    data[byte % len(data)] ^= 1 << bit
    file.write_bytes(data)


def say(folder, **changes):
    """The set claims other things, and that they were always so."""
    meta = json.loads((folder / "meta.json").read_text()) | changes
    for name in meta["sha256"]:
        meta["sha256"][name] = store.file_hash(store.file_of(folder, name))
    (folder / "meta.json").write_bytes(json_bytes(meta))


HARM = {
    "highest bit of a start": lambda f: flip(f / "starts.npy", 128 + 7, 7),
    "start far away": lambda f: change(f, "starts", (0, 3), 1 << 24),
    "start below zero": lambda f: change(f, "starts", (0, 3), -1),
    "start and length overflow": lambda f: change(f, "lengths", (0, 3), (1 << 63) - 1),
    "length beyond the end": lambda f: change(f, "lengths", (0, 59), 24),
    "length below zero": lambda f: change(f, "lengths", (0, 3), -5),
    "longer than the form says": lambda f: change(f, "lengths", (0, 3), 16),
    "a fourth split": lambda f: change(f, "split", 3, 9),
    "split below zero": lambda f: change(f, "split", 3, -1),
    "a class that is none": lambda f: change(f, "targets", 3, 4096),
    "short sequences": lambda f: os.truncate(f / "flat.bin", 50),
    "short targets": lambda f: np.save(f / "targets.npy", np.zeros(5, np.int64)),
    "wide targets": lambda f: np.save(f / "targets.npy", np.zeros((60, 2), np.int64)),
    "real targets": lambda f: np.save(f / "targets.npy", np.zeros(60)),
    "short header": lambda f: (f / "split.npy").write_bytes((f / "split.npy").read_bytes()[:40]),
    "odd header": lambda f: (f / "split.npy").write_bytes((f / "split.npy").read_bytes().replace(b")", b" ")),
    "claims 8 TB": lambda f: (f / "split.npy").write_bytes(
        (f / "split.npy").read_bytes().replace(b"(60,), }", b"(8000000000000,), }"[:19])
    ),
}
CLAIMS = {
    "objects": {"dtype": "|O"},
    "no dtype": {"dtype": "spam"},
    "wider": {"dtype": "<i8"},
    "channels": {"channels": 7},
    "one channel": {"channels": 1},
    "packed": {"packed": "yes"},
    "fewer rows": {"rows": 5},
    "no form": {"form": {}},
    "other files": {"sha256": {"../../x": ""}},
    "no files": {"sha256": {}},
}


@pytest.mark.parametrize("harm", HARM)
def test_harm_is_found_by_hashes(tiny, harm):
    HARM[harm](tiny)
    with pytest.raises(DamagedData, match="not as written") as caught:
        Imported("tiny").load("train")
    assert "delete" not in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("harm", HARM)
def test_harm_is_found_by_bounds_where_hashes_agree(tiny, harm):
    HARM[harm](tiny)
    say(tiny)
    with pytest.raises(DamagedData, match="is damaged") as caught:
        Imported("tiny").load("train")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("claim", CLAIMS)
def test_what_a_set_claims_is_not_believed(tiny, claim):
    meta = json.loads((tiny / "meta.json").read_text())
    (tiny / "meta.json").write_text(json.dumps(meta | CLAIMS[claim]))
    with pytest.raises(DamagedData, match="its content is not what was written"):
        open_dataset(tiny)
    unsealed = meta | CLAIMS[claim]
    unsealed.pop(SEAL)
    (tiny / "meta.json").write_text(json.dumps(unsealed))
    with pytest.raises(DamagedData, match="is damaged"):
        open_dataset(tiny)


@pytest.mark.parametrize("text", ["", "{", "[]", "null", '{"format": 1}', "[" * 99_999], ids=str.__len__)
def test_what_is_no_description_is_refused(tiny, text):
    (tiny / "meta.json").write_text(text)
    with pytest.raises(DamagedData, match="is damaged"):
        open_dataset(tiny)


def test_no_description_another_version_and_symbols_outside_of_the_vocabulary(tiny):
    flip(tiny / "flat.bin", 7, 7)
    say(tiny)
    with pytest.raises(DamagedData, match="outside of the vocabulary"):
        verify(tiny)
    (tiny / "meta.json").unlink()
    with pytest.raises(DamagedData, match="json is not there; put the files back"):
        open_dataset(tiny)
    (tiny / "meta.json").write_text('{"format": 99}')
    with pytest.raises(DataError, match=r"format 99.*set SELFPRETRAIN_DATA to another folder") as caught:
        open_dataset(tiny)
    assert not isinstance(caught.value, DamagedData)


def test_no_bit_passes(tiny):
    random, before = np.random.RandomState(1), open_dataset(tiny).digest
    files = sorted(tiny.iterdir())
    for _ in range(200):
        file = files[random.randint(len(files))]
        kept = file.read_bytes()
        flip(file, random.randint(len(kept)), random.randint(8))
        try:
            assert open_dataset(tiny).digest == before
            assert file.name == "meta.json"  # between the words
        except DataError as error:
            assert "\n" not in str(error)
        file.write_bytes(kept)


def test_unreadable_is_not_damaged(tiny, monkeypatch):
    def refuse(*_):
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(store.hashlib, "file_digest", refuse)
    with pytest.raises(DataError, match="no right to read") as caught:
        open_dataset(tiny)
    assert not isinstance(caught.value, DamagedData)
    assert "delete" not in str(caught.value)


def test_a_damaged_import_names_the_file_to_import_again(tmp_path, home):
    rows = "".join(f'"some words {i} {"good" * (i % 2)}",{"ab"[i % 2]}\n' for i in range(60))
    (tmp_path / "my file.csv").write_text("text,stars\n" + rows)
    bring(tmp_path / "my file.csv", label="stars", split_seed=7)
    verify(home / "own" / "mine")
    flip(home / "own" / "mine" / "flat.bin", 3, 1)
    with pytest.raises(DamagedData, match=r"flat.bin not as written; .*import .*my file.csv again") as caught:
        verify(home / "own" / "mine")
    assert "\n" not in str(caught.value)


@spec
class Counted(Prepared):
    """A task that counts how often it is prepared."""

    card = Card(source="made here", licence="none needed")

    def write(self, out: DatasetWriter) -> SequenceSpec:
        """Some sequences."""
        WRITTEN.append(1)
        for i in range(60):
            sequence = np.arange(i, i + 5).astype(np.uint8) % 9
            add_sequences(out, [sequence], np.array([i % 2]), np.array([i % 3]))
        return SequenceSpec(Tokens(9), 5, Classes(("a", "b")))


WRITTEN: list[int] = []


@pytest.mark.parametrize("harm", [*HARM, "no description", "other description"])
def test_what_can_be_made_again_is(home, harm):
    task = Counted()
    digest = task.version()
    WRITTEN.clear()
    if harm in HARM:
        HARM[harm](task.folder)
    elif harm == "no description":
        (task.folder / "meta.json").unlink()
    else:
        (task.folder / "meta.json").write_text("[]")
    stored._load_or_write.cache_clear()
    assert task.version() == digest
    assert [len(task.load(split)) for split in SPLITS] == [20, 20, 20]
    assert WRITTEN == [1]
    assert stored_datasets("counted") == [task.folder]


def test_an_old_set_outlives_every_way_in_which_its_successor_may_fail(tiny, monkeypatch):
    before, moves = open_dataset(tiny).digest, []
    real = os.replace

    class Killed(BaseException):
        """As if the process ended here."""

    for last in range(9):
        moves.clear()

        def move(a, b, last=last):
            if len(moves) == last:
                raise Killed
            moves.append(b)
            real(a, b)

        monkeypatch.setattr(store.os, "replace", move)
        try:
            import_arrays("tiny", np.arange(300).reshape(60, 5) % 7, np.arange(60) % 2)
        except Killed:
            monkeypatch.setattr(store.os, "replace", real)
            assert open_dataset(imported_datasets()["tiny"]).digest == before or moves[-1] == tiny
        else:
            break
    monkeypatch.setattr(store.os, "replace", real)
    assert last >= 2
    assert open_dataset(imported_datasets()["tiny"]).digest != before
    assert sorted(p.name for p in tiny.parent.iterdir() if not p.name.startswith(".")) == ["tiny"]


def test_a_damaged_checkpoint_is_begun_again(tmp_path):
    place = tmp_path / "sets" / "one"
    with pytest.raises(KeyboardInterrupt), open_writer(place, resume=True) as out:
        Counted().write(out)
        out.checkpoint()
        raise KeyboardInterrupt
    state = place.with_name("one.part") / "state.npz"
    state.write_bytes(state.read_bytes()[:100])
    with open_writer(place, resume=True) as out:
        assert out.rows == 0
        out.finish(Counted().write(out))
    assert len(open_dataset(place).examples("train")) == 20


@pytest.mark.parametrize("kind", ["tokens", "values", "packed"])
@pytest.mark.parametrize(
    ("start", "length"), [(-1, 3), (1 << 62, 3), (-(1 << 62), 3), (8, 3), (0, 11), (0, -2)]
)
def test_compiled_code_refuses_what_is_out_of_bounds(kind, start, length):
    flat = torch.ones((10, 2) if kind == "values" else 10, dtype=torch.uint8)
    starts, lengths = torch.tensor([[0, start]]), torch.tensor([[3, length]])
    some = SequenceDataset(flat, starts, lengths, torch.zeros(2, dtype=torch.int64), packed=kind == "packed")
    with pytest.raises(DataError, match="not inside of the 10"):
        some.batch(torch.tensor([0, 1]))


@settings(max_examples=300, deadline=None)
@given(st.binary(max_size=60), st.integers(-5, 70), st.integers(-3, 300))
def test_any_bytes_are_unpacked_or_refused(data, start, length):
    """Beyond what is there lie guards, which nothing may reach."""
    guarded = np.frombuffer(b"\xff" * 64 + data + b"\xff" * 64, np.uint8)
    flat, out = guarded[64 : 64 + len(data)], np.zeros((3, max(length, 1) + 8, 1), np.float32)
    inner = out[1:2, : max(length, 1)]
    wrong = rows.unpack_rows(flat, np.array([start]), np.array([length]), inner)
    assert wrong in (-1, 0)
    assert wrong == 0 or start >= 0
    assert not out[0].any()
    assert not out[2].any()
    assert not out[1, max(length, 1) :].any()
