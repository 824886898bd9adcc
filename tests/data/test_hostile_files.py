"""Whatever a file holds: it is imported, or refused in one line, in bounded memory and time."""

import gzip
import io
import json
import os
import resource
import struct
import sys
import time
import zipfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from hostile import good, harmed
from imports import bring
from selfpretrain.cli import app
from selfpretrain.data.paths import hold_lock, imported_datasets
from selfpretrain.errors import DataError

pytestmark = pytest.mark.usefixtures("home")
GIGABYTE = 1 << 20
"""In the unit of ru_maxrss on Linux."""


def refused(path, said="", **options):
    """What is said of a file that cannot be used, quickly and in one line; nothing is left behind."""
    begin = time.process_time()
    with pytest.raises(DataError, match=said or None) as caught:
        bring(path, **options)
    assert str(caught.value).isprintable()
    assert len(str(caught.value)) < 1500
    assert time.process_time() - begin < 20
    assert imported_datasets() == {}
    return str(caught.value)


def npy(header: bytes, data: bytes = bytes(480)) -> bytes:
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + data


NPY = {
    "bracket is not closed": b"{'descr': '<i8', 'fortran_order': False, 'shape': (60, }\n",
    "8 TB": b"{'descr': '<i8', 'fortran_order': False, 'shape': (1000000000000,), }\n",
    "too many": b"{'descr': '<i8', 'fortran_order': False, 'shape': (9223372036854775807, 8), }\n",
    "negative": b"{'descr': '<i8', 'fortran_order': False, 'shape': (-60,), }\n",
    "objects": b"{'descr': '|O', 'fortran_order': False, 'shape': (60,), }\n",
    "no dtype": b"{'descr': 'spam', 'fortran_order': False, 'shape': (60,), }\n",
    "fields": b"{'descr': [('a', '<i4'), ('b', '<i4')], 'fortran_order': False, 'shape': (60,), }\n",
    "code": b"__import__('os').system('touch /tmp/owned')\n",
    "nested": b"(" * 60_000,
    "nothing": b"",
}


@pytest.mark.parametrize("name", NPY)
@pytest.mark.parametrize("role", ["t.npy", "t.y.npy"])
def test_headers_of_arrays_are_not_believed(tmp_path, name, role):
    good("npy", tmp_path)
    (tmp_path / role).write_bytes(npy(NPY[name]))
    refused(tmp_path / "t.npy")


def test_a_compressed_file_that_becomes_huge_is_refused(tmp_path):
    member = io.BytesIO()
    np.lib.format.write_array_header_1_0(
        member, {"descr": "|u1", "fortran_order": False, "shape": (40, 80_000_000)}
    )
    with zipfile.ZipFile(tmp_path / "t.npz", "w", zipfile.ZIP_DEFLATED) as out:
        with out.open("x.npy", "w", force_zip64=True) as file:
            file.write(member.getvalue())
            for _ in range(320):
                file.write(bytes(1_000_000))
        y = io.BytesIO()
        np.save(y, np.arange(40) % 2)
        out.writestr("y.npy", y.getvalue())
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    refused(tmp_path / "t.npz", "would become .* numpy.savez")
    if sys.platform == "linux":
        assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss < before + GIGABYTE // 4


BOMBS = {
    "equal texts": lambda: {"text": equal(20_000, "a" * 1000), "label": ["a", "b"] * 10_000},
    "few long texts": lambda: {"text": equal(20, "a" * 1_000_000), "label": ["a", "b"] * 10},
    "a row of zeros": lambda: {"x": [np.zeros(2_000_000, np.int64)], "label": ["a"]},
    "lists of equal words": lambda: {"x": [["a" * 9] * 1000] * 1000, "label": ["a", "b"] * 500},
}


def equal(count, text):
    return pa.DictionaryArray.from_arrays(pa.array(np.zeros(count, np.int32)), pa.array([text]))


@pytest.mark.parametrize("name", BOMBS)
def test_packed_tables_that_become_huge_are_refused(tmp_path, monkeypatch, name):
    monkeypatch.setattr("selfpretrain.data.importing.source.MAX_UNPACKED", 1 << 22)
    parquet.write_table(pa.table(BOMBS[name]()), tmp_path / "t.parquet", compression="zstd")
    refused(tmp_path / "t.parquet", "would become .* use_dictionary=False")


def test_packed_tables_are_read_if_saved_without_packing(tmp_path, monkeypatch):
    monkeypatch.setattr("selfpretrain.data.importing.source.MAX_UNPACKED", 1 << 20)
    texts = ["a" * 1000 + str(i % 50) for i in range(4000)]
    table = pa.table({"text": texts, "label": ["a", "b"] * 2000})
    parquet.write_table(table, tmp_path / "t.parquet", compression="zstd")
    refused(tmp_path / "t.parquet", "would become")
    parquet.write_table(table, tmp_path / "t.parquet", compression=None, use_dictionary=False)
    assert len(bring(tmp_path / "t.parquet").split) == 4000


def test_packed_text_that_becomes_huge_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("selfpretrain.data.importing.source.MAX_UNPACKED", 1 << 20)
    for name, row in (("t.csv", b"1,2,x\n"), ("t.tsv", b"1\t2\tx\n"), ("t.jsonl", b'{"label": "x"}\n')):
        head = b"" if name == "t.jsonl" else row.replace(b"x", b"label")
        (tmp_path / f"{name}.gz").write_bytes(gzip.compress(head + row * 200_000))
        refused(tmp_path / f"{name}.gz", "would become .* compression=None")


def test_very_many_dimensions_are_read_or_refused_quickly(tmp_path):
    lines = [f"{i}:" * 100_000 + "ab"[i % 2] for i in range(2)]
    (tmp_path / "t.ts").write_text("\n".join(["@classLabel true a b", "@data", *lines]))
    refused(tmp_path / "t.ts", "2 different sequences")


@pytest.mark.parametrize("name", ["t.csv", "t.npz", "t.ts", "t.parquet", "t.jsonl"])
def test_pipes_and_devices_are_not_waited_for(tmp_path, name):
    os.mkfifo(tmp_path / name)
    refused(tmp_path / name, "is a pipe, a socket or a device, but files are read more than once")
    (tmp_path / f"link-{name}").symlink_to("/dev/zero")
    refused(tmp_path / f"link-{name}", "is a pipe, a socket or a device")


def test_what_a_killed_import_leaves_is_removed_by_the_next_one(tmp_path, home):
    good("csv", tmp_path)
    for name in ("killed", "running"):
        (home / "own" / f"{name}.part").mkdir(parents=True)
    with hold_lock(home / "own" / "running"):
        bring(tmp_path / "t.csv")
    assert sorted(path.name for path in (home / "own").glob("[a-z]*")) == ["mine", "running.part"]


def riff(*chunks: tuple[bytes, bytes], size: int | None = None) -> bytes:
    body = b"WAVE" + b"".join(name + struct.pack("<I", len(data)) + data for name, data in chunks)
    return b"RIFF" + struct.pack("<I", len(body) if size is None else size) + body


def form(kind: int = 1, channels: int = 1, bits: int = 16, rate: int = 8000) -> tuple[bytes, bytes]:
    block = channels * bits // 8 % 65536
    return b"fmt ", struct.pack("<HHIIHH", kind, channels, rate, rate * block % (1 << 32), block, bits)


DATA = (b"data", bytes(40))
WAVES = {
    "no samples at all": riff(form(), (b"dxta", bytes(40))),
    "no form": riff(DATA),
    "no samples in it": riff(form(), (b"data", b"")),
    "empty": b"",
    "nothing but a name": b"RIFF",
    "65,535 channels": riff(form(channels=65535), DATA),
    "no channels": riff(form(channels=0), DATA),
    "no bits": riff(form(bits=0), DATA),
    "7 bits": riff(form(bits=7), DATA),
    "unknown kind": riff(form(kind=77), DATA),
    "claims 4 GB": riff(form())[: -0 or None] + b"data\xff\xff\xff\xff" + bytes(40),
    "chunk claims 4 GB": riff(form()) + b"LIST\xff\xff\xff\xff" + bytes(40),
    "64-bit size": b"RF64\xff\xff\xff\xffWAVEds64\x1c\x00\x00\x00" + b"\xff" * 28 + riff(form(), DATA)[12:],
}


@pytest.mark.parametrize("name", WAVES)
def test_headers_of_recordings_are_not_believed(tmp_path, name):
    path = good("wav", tmp_path)
    harmed(path).write_bytes(WAVES[name])
    try:
        made = bring(path)  # where the samples that are there can be read
        assert len(made.split) == 40
    except DataError as error:
        assert str(error).isprintable()
        assert "spam/00.wav" in str(error)
        assert len(bring(path, skip_bad=True).split) == 39


JSON = {
    "nested": '{"x": ' + "[" * 100_000,
    "nested and closed": '{"x": ' + "[" * 50_000 + "]" * 50_000 + ', "label": "a"}',
    "nested objects": '{"x": ' * 100_000,
    "long number": '{"x": [' + "9" * 100_000 + '], "label": "a"}',
    "infinite": '{"x": [1e999, 2], "label": "a"}',
    "surrogates": '{"x": [1, 2], "label": "\\ud800"}',
    "same key twice": '{"x": [1], "x": "a", "label": "a"}',
    "no object": "[" * 10,
    "object for a label": '{"x": [1, 2], "label": {"a": 1}}',
    "list for a label": '{"x": [1, 2], "label": ["a"]}',
    "number of 65 bits": '{"x": [18446744073709551617], "label": "a"}',
}


@pytest.mark.parametrize("name", JSON)
def test_json_lines_from_anybody(tmp_path, name):
    rows = [json.dumps({"x": [i, i + 1], "label": "ab"[i % 2]}) for i in range(40)]
    (tmp_path / "t.jsonl").write_text("\n".join([*rows, JSON[name]]))
    refused(tmp_path / "t.jsonl", "line 41" if name == "same key twice" else "")


def test_lines_that_do_not_end(tmp_path, monkeypatch):
    monkeypatch.setattr("selfpretrain.data.importing.source.MAX_LINE", 1 << 20)
    for name, start in (("t.jsonl", '{"x": ['), ("t.ts", "@classLabel true a b\n@data\n")):
        (tmp_path / name).write_text(start + "1," * (1 << 20))
        refused(tmp_path / name, r"line \d: it has more than 1,048,576 characters")


@pytest.mark.parametrize(
    "first", ['"' + "x" * (6 << 20), "x" * (6 << 20), "x," * (1 << 20), '"\n' * (1 << 20)]
)
def test_headers_of_tables_that_do_not_end(tmp_path, first):
    (tmp_path / "t.csv").write_text(first + "\n1,2\n")
    refused(tmp_path / "t.csv")


def test_very_many_columns_take_no_age(tmp_path):
    names = ",".join(f"t{i}" for i in range(50_000))
    row = ",".join("1" for _ in range(50_000))
    (tmp_path / "t.csv").write_text("\n".join([names, *[row] * 10]))
    refused(tmp_path / "t.csv", r"which column holds the labels\? Give --label; columns: t0, t1, .*in all")
    refused(tmp_path / "t.csv", "no column 'stars'", label="stars")


def test_names_with_control_characters_are_said_in_one_line(tmp_path):
    rows = "".join(f'{i},"b\x1b[2J{i}"\n' for i in range(40))
    (tmp_path / "t.csv").write_text('"a\nb\x1b]0;owned\x07","c\x1b[31m"\n' + rows)
    assert "columns: a?b?]0;owned?, c?[31m" in refused(tmp_path / "t.csv")


@pytest.mark.parametrize(
    "said",
    [
        b"[" * 100_000,
        b"{",
        b"[]",
        b'{"info": []}',
        b'{"info": {"features": {"label": {"names": 3}}}}',
        b"\xff",
    ],
    ids=len,
)
def test_what_a_table_says_of_itself_is_not_believed(tmp_path, said):
    table = pa.table({"x": [[i, 1] for i in range(40)], "label": [i % 2 for i in range(40)]})
    parquet.write_table(table.replace_schema_metadata({b"huggingface": said}), tmp_path / "t.parquet")
    try:
        assert bring(tmp_path / "t.parquet").form.target.names == ("0", "1")
    except DataError as error:
        assert str(error).isprintable()


def test_offsets_beyond_the_end_of_a_file_are_refused(tmp_path):
    path = good("feather", tmp_path)
    data = bytearray(path.read_bytes())
    lengths = np.cumsum([0, *(3 + i % 4 for i in range(40))]).astype(np.int32)
    for width in (np.int32, np.int64):
        at = data.find(lengths.astype(width).tobytes()[: 8 * np.dtype(width).itemsize])
        if at >= 0:
            break
    assert at >= 0
    size = np.dtype(width).itemsize
    data[at + 9 * size : at + 10 * size] = np.array([1 << 30], dtype=width).tobytes()
    path.write_bytes(data)
    refused(path)


@pytest.mark.parametrize("name", ["nowhere\0.csv", "x" * 5000, "t.csv/inside.csv", " ", "hf:", "~nobody/x"])
def test_names_of_files_that_can_be_none(tmp_path, monkeypatch, capsys, name):
    monkeypatch.chdir(tmp_path)
    good("csv", tmp_path)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    assert app.run(["data", "import", name, "--name", "mine", "--yes"]) == 2
    err = capsys.readouterr().err
    assert "Traceback" not in err
    assert err.startswith("error: ")


def test_files_that_nobody_may_read_are_not_called_damaged(tmp_path, monkeypatch):
    path, opened = good("csv", tmp_path), Path.open

    def refuse(self, *arguments, **more):
        if self == path:
            raise PermissionError(13, "Permission denied")
        return opened(self, *arguments, **more)

    monkeypatch.setattr(Path, "open", refuse)
    assert "damaged" not in refused(path, r"cannot read t\.csv: no right to read")


def test_labels_that_command_a_terminal_stay_labels(tmp_path, capsys):
    names = ["\x1b]0;owned\x07\x1b[2J", "$\\frac{$", "<script>", "=cmd|x", "\N{RIGHT-TO-LEFT OVERRIDE}abc"]
    rows = "".join(f'text {i},"{names[i % 5]}"\n' for i in range(200))
    (tmp_path / "t.csv").write_text("text,label\n" + rows)
    assert app.run(["data", "import", str(tmp_path / "t.csv"), "--name", "mine"]) == 0
    for command in (["show", "mine"], ["check", "mine", "--no-simple"], ["list"]):
        assert app.run(["data", *command]) in (0, 1)
    out = capsys.readouterr().out
    assert all(c.isprintable() or c == "\n" for c in out)
