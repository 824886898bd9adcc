"""Files that somebody made by mistake or on purpose: small good ones, and what may be done to them."""

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import torch
from pyarrow import feather, parquet
from scipy.io import wavfile

N = 40
TENSOR_HARMS: dict[str, Callable[[torch.Tensor], torch.Tensor | None]] = {
    "short": lambda x: x[:-1],
    "empty": lambda x: x[:0],
    "long": lambda x: torch.cat([x, x[:1]]),
    "gone": lambda x: None,
    "one dimension more": lambda x: x[..., None],
    "one dimension less": lambda x: x.flatten()[0] if x.ndim == 1 else x.flatten(),
    "NaN": lambda x: torch.full_like(x, float("nan")) if x.is_floating_point() else None,
    "infinite at one place": lambda x: (
        torch.cat([x[:-1], torch.full_like(x[-1:], torch.inf)]) if x.is_floating_point() else None
    ),
    "half precision": lambda x: x.half(),
    "other numbers": lambda x: x.float() if x.dtype == torch.float64 else x.double(),
    "negative": lambda x: -1 - x,
    "huge": lambda x: torch.full_like(x, 1e300 if x.dtype == torch.float64 else 1 << 30),
}
"""What may be done to one tensor of a file; None: it is left out."""
WORDS = ["spam", "eggs"]


def good(kind: str, folder: Path) -> Path:
    """A small file or folder of a kind; it can be imported as it is."""
    path = folder / f"t.{kind}"
    return TABLES[kind](path) if kind in TABLES else OTHERS[kind](path)


ROWS = [[(7 * i + 3 * j) % 99 for j in range(3 + i % 4)] for i in range(N)]
LABELS = [WORDS[i % 2] for i in range(N)]
TABLE = pa.table({"x": ROWS, "note": [f"row {i}" for i in range(N)], "label": LABELS})


def _text(path: Path, sep: str) -> Path:
    lines = [f'"text {i}, or so"{sep}{i / 3}{sep}{LABELS[i]}' for i in range(N)]
    path.write_text("\n".join([sep.join(["x", "note", "label"]), *lines]) + "\n")
    return path


def _json(path: Path) -> Path:
    path.write_text("\n".join(json.dumps(row) for row in TABLE.to_pylist()))
    return path


def _parquet(path: Path) -> Path:
    parquet.write_table(TABLE, path, row_group_size=15)
    return path


def _feather(path: Path) -> Path:
    feather.write_feather(TABLE, path, compression="uncompressed")
    return path


def _arrow(path: Path) -> Path:
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_stream(sink, TABLE.schema) as out:
        out.write_table(TABLE, max_chunksize=15)
    return path


def _npz(path: Path) -> Path:
    np.savez(path, x=np.random.RandomState(0).rand(N, 6), y=np.array(LABELS))
    return path


def _npy(path: Path) -> Path:
    np.save(path, np.random.RandomState(0).randint(0, 9, (N, 6)))
    np.save(path.with_suffix(".y.npy"), np.arange(N) % 2)
    return path


def _ts(path: Path) -> Path:
    pairs = [(",".join(map(str, row)), ",".join(map(str, row[::-1]))) for row in ROWS]
    cases = [f"{first}:{second}:{label}" for (first, second), label in zip(pairs, LABELS, strict=True)]
    path.write_text("\n".join(["@timeStamps false", "@classLabel true spam eggs", "@data", *cases]) + "\n")
    return path


def _wav(path: Path) -> Path:
    random, folder = np.random.RandomState(0), path.with_suffix("")
    for i, label in enumerate(LABELS):
        (folder / label).mkdir(parents=True, exist_ok=True)
        wavfile.write(folder / label / f"{i:02d}.wav", 8000, random.randint(-99, 99, 20).astype(np.int16))
    return folder


TABLES = {
    "csv": partial(_text, sep=","),
    "tsv": partial(_text, sep="\t"),
    "jsonl": _json,
    "parquet": _parquet,
    "feather": _feather,
    "arrow": _arrow,
}


def _arff(path: Path) -> Path:
    head = [
        "@relation r",
        "@attribute x string",
        "@attribute note numeric",
        "@attribute label {spam, eggs}",
        "@data",
    ]
    lines = [f"'text \\'{i}\\', or so',{i / 3},{LABELS[i]}" for i in range(N)]
    path.write_text("\n".join([*head, "% a comment", *lines]) + "\n")
    return path


def _commas(path: Path) -> Path:
    """Decimal commas between semicolons."""
    lines = [
        ";".join(f"{i / 7 + j:.3f}".replace(".", ",") for j in range(5)) + f";{LABELS[i]}" for i in range(N)
    ]
    path = path.with_suffix(".txt")
    path.write_text("\n".join(["t0;t1;t2;t3;t4;label", *lines]) + "\n")
    return path


OTHERS = {"npz": _npz, "npy": _npy, "ts": _ts, "wav": _wav, "arff": _arff, "commas": _commas}
KINDS = (*TABLES, *OTHERS)


def harmed(path: Path) -> Path:
    """The file of ``good`` that is to be harmed."""
    return path / "spam" / "00.wav" if path.is_dir() else path


PIECES = [b"\xff" * 4, b"\xff\xff\xff\x7f", b"\x00" * 8, b"9" * 20, b"[" * 3000, b"@data\n", b'{"a":1}']
PIECES += [b'"', b"\n", b"\r", b",", b"\t", b"{", b"-", b"?", b"(", b")", b"'", b":"]
PIECES += [b'\t"', b'"\n', b"\\'", b'""', b";", b"0,5", b"1.234,5", b"% ", b" ", b"{0 1}"]
PIECES += [b"nan", b"inf", b"1e999", b"true", b"null", b"\\u0000", b"\\ud800"]
PIECES += [b"\xef\xbb\xbf", b"\xc3", b"\x80", b"\xed\xa0\x80", "\N{RIGHT-TO-LEFT OVERRIDE}".encode()]
