"""Tables read in batches of rows: CSV, ARFF, JSON lines, Parquet, Arrow, Feather, folders, and the hub.

Datasets of the Hugging Face hub are read through the library ``datasets`` (extra ``hf``).
"""

import json
import os
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from io import TextIOWrapper
from itertools import islice
from operator import attrgetter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import parquet

from ...errors import DataError, install, join_names
from ..download import connection_problem
from ..sequences import SURROGATE, grouped
from ..splits import UNLABELLED
from .divisions import describes, divide, roles_of, visible_files
from .source import check_column, check_unpacked, ending, halved, lines, opened, readable
from .text_rows import RowPlaces, TextRow, TextRows, arff_rows, csv_rows

BATCH = 4 << 20  # bytes or letters read at a time
ROWS = 1024  # rows read at a time if their size is unknown
MAX_NOTES = 3  # most notes on files of a folder
MAX_ROWS = 1 << 16  # most rows of a batch
WIDTHS = {"INT64": 8, "DOUBLE": 8, "INT32": 4, "FLOAT": 4, "INT96": 8}  # bytes of a value in Parquet
TEXTS = (pa.string(), pa.large_string(), pa.binary(), pa.large_binary())
VIEWS = {pa.string_view(): pa.large_string(), pa.binary_view(): pa.large_binary()}
"""Types of text as polars writes it to Arrow files, and those as which it is read."""
UNCOMPRESSED = "pandas or pyarrow with compression=None, and Parquet also with use_dictionary=False"
SUFFIXES = (".csv", ".tsv", ".txt", ".jsonl", ".ndjson", ".parquet", ".arrow", ".feather", ".arff")
PACKED = (".gz", ".bz2", ".xz", ".zst", ".zip", ".tar", ".tgz", ".7z")

EXPLAIN = ": it cannot be read ({})".format
Read = Callable[[Sequence[str]], Iterator[pa.RecordBatch]]
"""Yields all rows of the given columns, some at a time."""
HUB_TIMEOUT = 3.0  # seconds to wait for the hub before falling back to the local cache


@dataclass(frozen=True)
class Table:
    """A table in a file or folder, or from the hub."""

    path: Path
    columns: list[str]
    read: Read
    how: str  # how the file is read, shown to the user
    n_rows: int = 0  # 0: unknown
    metadata: Mapping[bytes, bytes] = field(default_factory=dict)  # of the Arrow schema
    has_split: bool = False  # whether the column ``split`` is derived from the names of files or folders
    undecided: str = ""  # why the division that these names give cannot be kept
    separator: str = ""  # of the columns of a text file
    places: "RowPlaces | PartPlaces | None" = None  # of the rows of a text file, or of a folder

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Yield all rows of some columns, in batches."""
        with readable(self.path.name, EXPLAIN):
            yield from self.read(list(dict.fromkeys(columns)))

    def name(self, row: int) -> str:
        """Return how messages name a row that has been read: by its line, if it has one."""
        return self.places.name(row) if self.places else f"row {row + 1}"

    def notes(self) -> list[str]:
        """Return a note if a text file has not as many rows as lines."""
        return self.places.notes() if self.places else []

    def index(self) -> list[str]:
        """Return the columns that were the index of a frame of pandas, by its metadata or their names."""
        about: Any = json.loads(self.metadata.get(b"pandas", b"{}"))
        noted = about.get("index_columns", []) if isinstance(about, dict) else []
        return [name for name in self.columns if name in noted or name.startswith("__index_level_")]

    def class_names(self, column: str) -> list[str]:
        """Return the class names of a column, or of its lists, from the metadata of Hugging Face, or []."""
        inside: Any = json.loads(self.metadata.get(b"huggingface", b"{}"))
        for key in ("info", "features", column):
            inside = inside.get(key, {}) if isinstance(inside, dict) else {}
        inside = inside.get("feature", inside) if isinstance(inside, dict) else {}  # of lists
        inside = inside.get("names", {}) if isinstance(inside, dict) else {}
        return [str(name) for name in inside] if isinstance(inside, list) else []


@dataclass(frozen=True)
class PartPlaces:
    """Files of a folder in which its rows are, as far as these have been read."""

    folder: Path
    parts: list[Table] = field(default_factory=list)
    starts: list[int] = field(default_factory=list)  # their first rows

    def name(self, row: int) -> str:
        """Return how messages name a row."""
        number = bisect_right(self.starts, row) - 1
        part = self.parts[number]
        name = part.name(row - self.starts[number])
        return self._within(part, name if part.places else f"{part.path.name}, {name}")

    def file_row(self, row: int) -> tuple[str, int]:
        """Return the file of a row, by its path in the folder, and the number of the row in it, from 0."""
        number = bisect_right(self.starts, row) - 1
        return self.parts[number].path.relative_to(self.folder).as_posix(), row - self.starts[number]

    def notes(self) -> list[str]:
        """Return notes on columns that the first file lacks, and on files with not as many rows as lines."""
        notes = [self._within(part, note) for part in self.parts for note in part.notes()][:MAX_NOTES]
        known = [name for part in self.parts[:1] for name in part.columns]
        others = {name for part in self.parts for name in part.columns}.difference(known)
        if others:
            shown = join_names(sorted(others), MAX_NOTES)
            notes.append(f"columns that {self.parts[0].path.name} lacks are not read in other files: {shown}")
        return notes

    def _within(self, part: Table, said: str) -> str:
        """Return what begins with the name of a file, with its path in the folder."""
        return part.path.relative_to(self.folder).as_posix() + said.removeprefix(part.path.name)


def check_regular(path: Path) -> None:
    """Check that an existing path can be read more than once, and to an end.

    Raises:
        DataError: if it is a pipe, a socket or a device.
    """
    if not path.is_file() and not path.is_dir():
        raise DataError(
            f"{path} is a pipe, a socket or a device, but files are read more than once; save its content to "
            f"a file first, with an ending such as .csv"
        )


def open_table(path: Path, encoding: str = "", header: bool = True, apart: bool = False) -> Table:
    """Open the table in a file, or the tables in a folder.

    Args:
        apart: whether rows of JSON lines with values of another type than others are read in batches of
            their own; else the first one is an error.

    Raises:
        DataError: if there is no table.
    """
    if path.is_dir():
        found = visible_files(path)
        files = [file for file in found if ending(file) in SUFFIXES and not describes(file)]
        if not files:
            raise DataError(f"{path} holds no table; known: {', '.join(SUFFIXES)}")
        unread = [file.relative_to(path).as_posix() for file in found if file not in files]
        return _folder(path, [open_table(file, encoding, header, apart) for file in files], unread)
    suffix = ending(path)
    if suffix not in SUFFIXES:
        known = f"{', '.join(SUFFIXES)}, .ts, .npy or .npz"
        packed = path.suffix.lower() in PACKED
        advice = "unpack it first" if packed else "save it as one of these, e.g. with pandas"
        raise DataError(f"{path.name} ends in none of {known}; {advice}")
    with readable(path.name, EXPLAIN):
        if suffix in (".jsonl", ".ndjson"):
            return _json_lines(path, apart)
        if suffix == ".parquet":
            return _parquet(path)
        if suffix in (".arrow", ".feather"):
            return _arrow(path)
        is_arff = suffix == ".arff"
        return _of_text(path, arff_rows(path, encoding) if is_arff else csv_rows(path, encoding, header))


def _of_text(path: Path, rows: TextRows) -> Table:
    """Return the table in a text file; cells are strings, so that errors can quote them."""
    places = RowPlaces(path.name)
    order = {name: i for i, name in enumerate(rows.names)}

    def read(columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        places.clear()
        for some in grouped(rows.read(), attrgetter("size"), BATCH):
            first = len(places.lines)
            places.add(some)
            for i, row in enumerate(some):
                if len(row.cells) != len(rows.names):
                    raise DataError(
                        f"{places.name(first + i)}: {len(row.cells)} cells where the header has "
                        f"{len(rows.names)}; is a quote or separator missing?"
                    )
            cells = {name: [row.cells[order[name]] for row in some] for name in columns}
            code = "UTF-8" if rows.code == "utf-8" else rows.code
            advice = f"which is not {code}; give --encoding, e.g. latin-1"
            yield _batch(cells, pa.large_string(), first, places, advice)

    return Table(path, list(order), read, rows.how, separator=rows.separator, places=places)


def _json_lines(path: Path, apart: bool) -> Table:
    """Open a file with one JSON object per line; the columns are the keys of all lines."""
    places = RowPlaces(path.name)

    def objects() -> Iterator[tuple[int, dict[str, object]]]:
        with TextIOWrapper(opened(path), "utf-8") as file:
            for number, line in lines(file, path.name):
                if not line.strip():
                    continue
                try:
                    row = json.loads(line)
                except (ValueError, RecursionError) as error:
                    raise DataError(f"{path.name}, line {number}: this is not JSON ({error})") from error
                if not isinstance(row, dict):
                    raise DataError(f"{path.name}, line {number}: this is not an object with named columns")
                yield number, row

    def read(columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        places.clear()
        rest = objects()
        while some := list(islice(rest, ROWS)):
            first = len(places.lines)
            places.add([TextRow(number, number, []) for number, _ in some])
            values = {name: [row.get(name) for _, row in some] for name in columns}
            yield from _of_any_type(values, len(some), first, places, apart)

    columns = list(dict.fromkeys(key for _, row in objects() for key in row))
    return Table(path, columns, read, ending(path)[1:], places=places)


def _of_any_type(
    columns: Mapping[str, Sequence[object]], count: int, first: int, places: RowPlaces, apart: bool
) -> Iterator[pa.RecordBatch]:
    """Yield cells of the rows from ``first`` on, in one batch or in several of unlike types."""
    advice = "half of a letter of UTF-16; write U+FFFD instead, or the whole letter"

    def read(begin: int, end: int) -> pa.RecordBatch:
        some = {name: cells[begin:end] for name, cells in columns.items()}
        return _batch(some, None, first + begin, places, advice)

    wrong: dict[int, str] = {}
    yield from halved(read, 0, count, wrong if apart else None)
    if wrong:
        raise DataError(min(wrong.items())[1])


def _batch(
    columns: Mapping[str, Sequence[object]],
    kind: pa.DataType | None,
    first: int,
    places: RowPlaces,
    advice: str,
) -> pa.RecordBatch:
    """Return cells of the rows from ``first`` on, all of a kind or, if it is None, as Arrow infers."""
    arrays = []
    for name, cells in columns.items():
        try:
            arrays.append(pa.array(cells, kind))
        except UnicodeEncodeError as error:
            found = (SURROGATE.search(json.dumps(cell, ensure_ascii=False)) for cell in cells)
            row, odd = next((i, match[0]) for i, match in enumerate(found) if match)
            said = f"column {name!r} holds {odd!r}, {advice}"
            raise DataError(f"{places.name(first + row)}: {said}") from error
        except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError) as error:
            typical = next(cell for cell in cells if cell is not None)
            row = next((i for i, cell in enumerate(cells) if not _fit(typical, cell)), 0)
            said = f"column {name!r} holds {str(cells[row])[:40]!r}, other than rows before; write all alike"
            raise DataError(f"{places.name(first + row)}: {said}") from error
    return pa.RecordBatch.from_arrays(arrays, list(columns))


def _fit(first: object, value: object) -> bool:
    try:
        pa.array([first, value])
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError):
        return False
    return True


def _parquet(path: Path) -> Table:
    """Open a Parquet file; text is read by its dictionary, and unpacked in batches of bounded size."""
    plain = parquet.ParquetFile(path)
    n_rows = plain.metadata.num_rows
    schema = plain.schema_arrow
    texts = [
        field.name for field in schema if pa.types.is_string(field.type) or pa.types.is_binary(field.type)
    ]
    file = parquet.ParquetFile(path, read_dictionary=texts)
    groups = [plain.metadata.row_group(i) for i in range(plain.metadata.num_row_groups)]
    chunks = [group.column(i) for group in groups for i in range(group.num_columns)]
    # Numbers take at least this much, however well they are packed; of text only the packed size is known.
    size = sum(
        max(chunk.total_uncompressed_size, chunk.num_values * WIDTHS.get(chunk.physical_type, 0))
        for chunk in chunks
    )
    at_once = max(min(BATCH * n_rows // max(size, 1), MAX_ROWS), 1)

    def read(columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        batches = file.iter_batches(at_once, columns=columns)
        return _bounded(path, (piece for batch in batches for piece in _unpacked(batch)))

    check_unpacked(path, size, UNCOMPRESSED)
    return Table(path, schema.names, read, path.suffix[1:], n_rows, schema.metadata or {})


def _bounded(path: Path, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the batches of a packed file as long as it does not become too large."""
    total = 0
    for batch in batches:
        total += batch.nbytes
        check_unpacked(path, total, UNCOMPRESSED)
        yield batch


def _unpacked(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Yield a batch without dictionaries and views, in batches of about ``BATCH`` bytes."""
    sizes = np.zeros(batch.num_rows, dtype=np.int64)
    for column in batch.columns:
        if pa.types.is_dictionary(column.type) and column.type.value_type in TEXTS:
            lengths = pc.binary_length(column.dictionary).take(column.indices)
            sizes += lengths.fill_null(0).to_numpy().astype(np.int64)
    piece = (sizes.cumsum() - sizes) // BATCH
    for at in np.unique(piece, return_index=True)[1].tolist():
        rows = batch.slice(at, int((piece == piece[at]).sum()))
        packed = [pa.types.is_dictionary(column.type) for column in rows.columns]
        both = zip(rows.columns, packed, strict=True)
        columns = [column.dictionary_decode() if is_packed else column for column, is_packed in both]
        columns = [column.cast(VIEWS[column.type]) if column.type in VIEWS else column for column in columns]
        yield pa.RecordBatch.from_arrays(columns, rows.schema.names)


def _arrow(path: Path) -> Table:
    """Open an Arrow or Feather file, or a stream of Arrow batches."""

    def reader() -> pa.RecordBatchFileReader | pa.RecordBatchStreamReader:
        mapped = pa.memory_map(str(path))
        try:
            return pa.ipc.open_file(mapped)
        except pa.ArrowInvalid:
            mapped.seek(0)
            return pa.ipc.open_stream(mapped)

    def read(columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        with reader() as opened:
            streamed = isinstance(opened, pa.RecordBatchStreamReader)
            batches = opened if streamed else map(opened.get_batch, range(opened.num_record_batches))
            for batch in _bounded(path, iter(batches)):
                batch.validate(full=True)  # Arrow does not check by itself that offsets are within the file
                step = max(min(BATCH * len(batch) // max(batch.nbytes, 1), MAX_ROWS), 1)
                chosen = batch.select(columns)
                pieces = (
                    piece for at in range(0, len(batch), step) for piece in _unpacked(chosen.slice(at, step))
                )
                yield from _bounded(path, pieces)

    with reader() as opened:
        schema = opened.schema
    return Table(path, schema.names, read, path.suffix[1:], metadata=schema.metadata or {})


def _folder(path: Path, tables: list[Table], unread: list[str]) -> Table:
    """Join files with equal columns; a column ``split`` is added if the names of the files divide them."""
    files = [table.path for table in tables]
    names = [file.relative_to(path).as_posix() for file in files]
    splits = [""] * len(tables)
    undecided = ""
    try:
        splits = divide(names, roles_of(files))
    except DataError as error:
        undecided = str(error)
    order = sorted(range(len(tables)), key=lambda i: splits[i] in UNLABELLED)  # may lack columns: last
    first = tables[order[0]]
    if any(splits) and "split" in first.columns:
        undecided = f"the names of the files in {path.name} divide them, and so may the column 'split'; "
        undecided += "--split split takes the column, else rename it"
    has_split = any(splits) and not undecided
    counts = [table.n_rows for table in tables]
    places = PartPlaces(path)

    def read(columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        places.parts.clear()
        places.starts.clear()
        n_rows = 0
        for i in order:
            table = tables[i]
            places.parts.append(table)
            places.starts.append(n_rows)
            split = splits[i]
            own = [name for name in columns if name != "split" or not has_split]
            lacking = [name for name in own if split in UNLABELLED and name not in table.columns]
            for name in own:
                check_column(name, [*table.columns, *lacking], f"{names[i]}: ")
            known = [name for name in own if name not in lacking]
            for batch in table.batches(known or table.columns[:1]):  # one at least, which counts the rows
                rows = batch
                for name in lacking:
                    rows = with_column(rows, name, None)
                rows = with_column(rows, "split", split) if has_split and "split" in columns else rows
                yield rows.select(list(columns))
                n_rows += batch.num_rows

    columns = [*first.columns, "split"] if has_split else first.columns
    how = f"{len(tables)} files, {first.how}" + (f"; not read: {join_names(unread, 3)}" if unread else "")
    number = sum(counts) if all(counts) else 0
    return Table(
        path,
        columns,
        read,
        how,
        number,
        first.metadata,
        has_split=has_split,
        undecided=undecided,
        separator=first.separator,
        places=places,
    )


def with_column(batch: pa.RecordBatch, name: str, value: str | None) -> pa.RecordBatch:
    """Return a batch with one more column, which holds the same text in every row; None: it is empty."""
    arrays = [*batch.columns, pa.repeat(pa.scalar(value, pa.string()), batch.num_rows)]
    return pa.RecordBatch.from_arrays(arrays, [*batch.schema.names, name])


def hub_table(name: str) -> Table:
    """Load all splits of the dataset ``owner/name``, from the hub or the local cache.

    Raises:
        DataError: if it is not available; offline, this takes seconds.
    """
    offline = os.environ.get("HF_HUB_OFFLINE", "0").upper() in ("1", "TRUE", "ON", "YES")
    hub = os.environ.get("HF_ENDPOINT") or "https://huggingface.co"
    online = not offline and not connection_problem(hub, HUB_TIMEOUT)
    if not online:  # read when the library is imported; without it, requests time out after 30 s
        os.environ["HF_HUB_OFFLINE"] = "1"
    try:
        import datasets
    except ImportError as error:
        raise DataError(f"hf:owner/name needs the library datasets: {install('hf')}") from error
    datasets.disable_progress_bars()
    try:
        found = datasets.load_dataset(name)
    except Exception as error:  # the library raises many kinds of errors
        offline_why = "not downloaded yet, and the hub cannot be reached"
        why = " ".join(str(error).split()) if online else offline_why
        raise DataError(
            f"hf:{name}: {why[:200]}; download it where there is a network, and name its folder"
        ) from error
    splits = {split: part for split, part in found.items() if split in ("train", "validation", "test")}
    if "train" not in splits:
        raise DataError(f"hf:{name} has no split called train, only {', '.join(found)}; save one as a file")

    def read(columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        for split, part in splits.items():
            for rows in part.with_format("arrow").iter(ROWS):
                known = [column for column in columns if column != "split"] or part.column_names[:1]
                batch = rows.select(known).combine_chunks().to_batches()[0]
                yield with_column(batch, "split", split).select(list(columns))

    first = next(iter(splits.values()))
    columns = [*first.column_names, "split"]
    unread = [split for split in found if split not in splits]
    how = f"Hugging Face, {', '.join(splits)}" + (f"; not read: {join_names(unread, 3)}" if unread else "")
    metadata = first.features.arrow_schema.metadata or {}
    number = sum(map(len, splits.values()))
    return Table(Path(name.replace("/", "-")), columns, read, how, number, metadata, has_split=True)
