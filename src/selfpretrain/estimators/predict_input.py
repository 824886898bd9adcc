"""Read files to predict (tables, arrays, recordings, texts) in the layout of the model's training file."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from ..data.importing.columns import TableSource
from ..data.importing.csv_files import Piece, TableFile
from ..data.importing.long_tables import LongSource, long_source
from ..data.importing.media_files import SOUNDS, TEXTS, MediaSource, media_in
from ..data.importing.options import ImportOptions
from ..data.importing.source import Source, chosen, readable
from ..data.importing.table_files import open_table
from ..data.spec import Tokens
from ..errors import DataError
from ..system.files import Json
from .base import SequenceEstimator
from .inputs import BYTES

Rows = list[Any]


@dataclass(frozen=True)
class Asked:
    """Contents of a file to predict: one sequence per row, and the other columns."""

    rows: Rows
    kind: Any  # "text", "tokens" or "values"
    columns: dict[str, list[Any]] = field(default_factory=dict)  # all columns but those of the sequences
    wrong: dict[int, str] = field(default_factory=dict)  # row number -> why it cannot be read


def reading_of(source: Source, options: ImportOptions) -> Json | None:
    """Return the file layout to reuse at prediction time, or None if it cannot be inferred."""
    if isinstance(source, TableSource):
        known: Json = {"form": source.form, "sequence": source.sequence}
    elif isinstance(source, LongSource) and not source.vocab:  # names of events get other numbers
        known = {"form": "long", "sequence": source.values, "id": options.id, "time": options.time}
    elif isinstance(source, MediaSource):
        known = {
            "form": "texts" if source.vocab else "recordings",
            "sequence": [],
            "features": options.features,
        }
        known |= {"rate": source.rate, "asked": options.rate, "dtype": source.dtype}
    else:
        return None
    return known | {"kind": source.kind, "encoding": options.encoding}


def open_file(path: Path, estimator: SequenceEstimator) -> Asked:
    """Read the sequences of a file in the layout of training, recording the rows that cannot be read.

    Raises:
        DataError: if the file cannot be read at all, or lacks a column.
    """
    if not path.exists():
        raise DataError(f"there is no {path}")
    signal, reading = estimator.predictor_.form.signal, estimator.reading_
    if path.suffix in (".npy", ".npz"):
        return Asked(_of_arrays(path), "tokens" if isinstance(signal, Tokens) else "values")
    if reading is None and isinstance(signal, Tokens) and signal.vocab == BYTES:
        reading = {"form": "texts", "kind": "tokens"}
    if reading is None:
        raise DataError(
            "this model does not know how such a file is to be read: spt fit did not make it from one; give "
            "an .npy file, or ask it in Python"
        )
    if reading["form"] in ("texts", "recordings"):
        return _of_media(path, reading)
    table = open_table(path, reading["encoding"])
    for column in (*reading["sequence"], *(reading[key] for key in ("id", "time") if key in reading)):
        chosen(column, table.columns)
    if reading["form"] == "long":
        return _of_long(table, reading)
    source = TableSource(
        reading["kind"],
        table=table,
        options=ImportOptions(),
        sequence=list(reading["sequence"]),
        form=reading["form"],
    )
    return _of_table(table, source)


def _of_arrays(path: Path) -> Rows:
    """Return the rows of x without padding, if the file has "offsets" or "lengths"."""
    with readable(path.name):
        found = np.load(path, allow_pickle=False)
        held = {name: found[name] for name in found.files} if path.suffix == ".npz" else {"x": found}
    if "x" not in held:
        raise DataError(f"{path.name} has no array 'x'")
    if "offsets" in held:
        return np.split(held["x"], held["offsets"][1:-1])
    if "lengths" not in held:
        return list(held["x"])
    return [row[:length] for row, length in zip(held["x"], held["lengths"], strict=True)]


def _of_long(table: TableFile, reading: Json) -> Asked:
    told = ImportOptions(
        id=reading["id"],
        time=reading["time"],
        value=",".join(reading["sequence"]),
        kind=reading["kind"],
        label=reading["id"],  # any column that every row has
    )
    source = long_source(table, told)
    names = source.rows["id"].take(source.starts).to_pylist()
    return Asked(np.split(source.flat, source.starts[1:]), source.kind, {reading["id"]: names})


def _of_media(path: Path, reading: Json) -> Asked:
    texts = reading["form"] == "texts"
    folder, files = (path, media_in(path)) if path.is_dir() else (path.parent, [path])
    odd = [file for file in files if file.suffix.lower() not in (TEXTS if texts else SOUNDS)]
    if odd:
        wanted = f"texts ({', '.join(TEXTS)})" if texts else f"recordings ({', '.join(SOUNDS)})"
        raise DataError(f"{odd[0]}: the model takes {wanted}")
    options = ImportOptions(rate=reading.get("asked"), features=reading.get("features", "raw"))
    source = MediaSource(reading["kind"], folder=folder, files=files, named={}, options=options)
    asked = Asked([], "text" if texts else reading["kind"])
    asked.columns["file"] = [str(file.relative_to(folder)) for file in files]
    for i, file in enumerate(files):
        row, why = _of_medium(source, file, reading)
        asked.rows.append(row.tobytes() if texts and row is not None else row)
        if why:
            asked.wrong[i] = why
    return asked


def _of_medium(source: MediaSource, file: Path, reading: Json) -> tuple[np.ndarray | None, str]:
    """Return the sequence of a file and "", or None and what is wrong with it."""
    try:
        rate, row = source.opened(file)
    except DataError as error:
        return None, str(error)
    if rate != reading.get("rate", 0):
        return None, f"it has {rate} samples per second, those of training {reading['rate']}; resample it"
    if rate and str(row.dtype) != reading["dtype"]:
        return None, f"its samples are {row.dtype}, those of training {reading['dtype']}; convert it"
    return row, ""


def _of_table(table: TableFile, source: TableSource) -> Asked:
    others = [column for column in table.columns if column not in source.sequence]
    asked = Asked([], "text" if source.form == "text" else source.kind, {name: [] for name in others})
    for piece in table.pieces(table.columns):
        for i, (row, why) in enumerate(_rows(source, piece), start=len(asked.rows)):
            asked.rows.append(row)
            if why:
                asked.wrong[i] = why
        for name in others:
            asked.columns[name] += piece[name].to_pylist()
    return asked


def _rows(source: TableSource, piece: Piece) -> Iterator[tuple[Any, str]]:
    """Yield each sequence of a piece and "", or None and what is wrong with the row."""
    held = {column: piece[column] for column in source.sequence}
    n = len(held[source.sequence[0]])
    try:
        flat, lengths = source.sequences(held, lambda i: "")
    except DataError as error:
        if n == 1:
            yield None, str(error).removeprefix(": ")
        for i in range(n if n > 1 else 0):
            yield from _rows(source, {column: cells.slice(i, 1) for column, cells in held.items()})
        return
    for end, length in zip(lengths.cumsum().tolist(), lengths.tolist(), strict=True):
        row = flat[end - length : end]
        yield (row.tobytes() if source.form == "text" else row) if length else None, ""
