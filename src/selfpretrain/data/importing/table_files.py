"""Tables in files, read in blocks: CSV, TSV, JSON lines, Parquet, Arrow, or a folder of them."""

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import parquet

from ...errors import DataError
from ..splits import SPLIT_NAMES
from .csv_files import PIECE, ArffTable, CsvTable, Piece, TableFile, named
from .source import chosen, lines

ROWS = 1024
"""Rows read at a time if their size is unknown."""
SUFFIXES = (".csv", ".tsv", ".txt", ".jsonl", ".ndjson", ".parquet", ".arrow", ".feather", ".arff")


@dataclass(frozen=True)
class JsonLinesTable(TableFile):
    """A file with one JSON object per line."""

    @cached_property
    def columns(self) -> list[str]:
        """Keys of the first 100 objects."""
        return list(dict.fromkeys(key for row in islice(self._lines(), 100) for key in row))

    def pieces(self, columns: Sequence[str]) -> Iterator[Piece]:
        """Yield rows, with types inferred by Arrow; a missing key is null."""
        lines, at = self._lines(), 0
        while rows := list(islice(lines, ROWS)):
            yield {name: _column([row.get(name) for row in rows], name, at) for name in columns}
            at += len(rows)

    def _lines(self) -> Iterator[dict[str, object]]:
        with named(self.path), self.path.open(encoding="utf-8-sig") as file:
            for number, line in lines(file, self.path.name):
                if not line.strip():
                    continue
                try:
                    row = json.loads(line)
                except (ValueError, RecursionError) as error:
                    raise DataError(f"{self.path.name}, line {number}: this is no JSON ({error})") from error
                if not isinstance(row, dict):
                    raise DataError(f"{self.path.name}, line {number}: this is no object with named columns")
                yield row


@dataclass(frozen=True)
class ParquetTable(TableFile):
    """A Parquet file."""

    @cached_property
    def _file(self) -> parquet.ParquetFile:
        with named(self.path):
            return parquet.ParquetFile(self.path)

    @property
    def columns(self) -> list[str]:
        """Names of the columns."""
        return self._file.schema_arrow.names

    @property
    def rows(self) -> int:
        """Number of rows, from the metadata."""
        return self._file.metadata.num_rows

    def pieces(self, columns: Sequence[str]) -> Iterator[Piece]:
        """Yield rows in blocks of about 4 MB."""
        meta = self._file.metadata
        size = sum(meta.row_group(i).total_byte_size for i in range(meta.num_row_groups))
        rows = max(min(PIECE * self.rows // max(size, 1), 1 << 16), 1)
        with named(self.path):
            for batch in self._file.iter_batches(rows, columns=list(columns)):
                yield dict(zip(batch.schema.names, batch.columns, strict=True))

    def names(self, column: str) -> list[str]:
        """Return class names, from the Hugging Face metadata in the schema."""
        return class_names(self._file.schema_arrow, column)


@dataclass(frozen=True)
class ArrowTable(TableFile):
    """An Arrow or Feather file, or a stream of Arrow batches."""

    @cached_property
    def _schema(self) -> pa.Schema:
        with named(self.path), self._reader() as reader:
            return reader.schema

    def _reader(self) -> pa.RecordBatchFileReader | pa.RecordBatchStreamReader:
        mapped = pa.memory_map(str(self.path))
        try:
            return pa.ipc.open_file(mapped)
        except pa.ArrowInvalid:
            mapped.seek(0)
            return pa.ipc.open_stream(mapped)

    @property
    def columns(self) -> list[str]:
        """Names of the columns."""
        return self._schema.names

    def pieces(self, columns: Sequence[str]) -> Iterator[Piece]:
        """Yield the record batches of the file, in smaller pieces."""
        with named(self.path), self._reader() as reader:
            streamed = isinstance(reader, pa.RecordBatchStreamReader)
            batches = reader if streamed else map(reader.get_batch, range(reader.num_record_batches))
            for batch in batches:
                batch.validate(full=True)  # Arrow does not check by itself that offsets are within the file
                step = max(min(PIECE * len(batch) // max(batch.nbytes, 1), 1 << 16), 1)
                for at in range(0, len(batch), step):
                    yield {name: batch.column(name).slice(at, step) for name in columns}

    def names(self, column: str) -> list[str]:
        """Return class names, from the Hugging Face metadata in the schema."""
        return class_names(self._schema, column)


@dataclass(frozen=True)
class TableFolder(TableFile):
    """Files with equal columns; a column ``split`` is added if file or folder names are those of splits."""

    members: tuple[TableFile, ...] = ()
    splits: tuple[str, ...] = ()

    @property
    def columns(self) -> list[str]:
        """Columns of the first file, and ``split`` if derived from names."""
        return [*self.members[0].columns, *(["split"] if self.divided else [])]

    @property
    def divided(self) -> bool:
        """Whether the names of all files indicate a split."""
        return all(self.splits) and "split" not in self.members[0].columns

    @property
    def rows(self) -> int:
        """Number of rows in all files; 0 if unknown."""
        counts = [member.rows for member in self.members]
        return sum(counts) if all(counts) else 0

    @property
    def manner(self) -> str:
        """Number of files, and how they are read."""
        return f"{len(self.members)} files, {self.members[0].manner}"

    def pieces(self, columns: Sequence[str]) -> Iterator[Piece]:
        """Yield the rows of one file after the other."""
        for member, split in zip(self.members, self.splits, strict=True):
            own = [chosen(name, member.columns) for name in columns if name != "split" or not self.divided]
            for piece in member.pieces(own):
                rows = len(next(iter(piece.values())))
                yield piece | ({"split": pa.repeat(split, rows)} if self.divided else {})

    def names(self, column: str) -> list[str]:
        """Return the class names of the first file."""
        return self.members[0].names(column)


def open_table(path: Path, encoding: str = "", header: bool = True) -> TableFile:
    """Open the table in a file, or the tables in a folder.

    Raises:
        DataError: if there is no table.
    """
    if path.is_dir():
        files = sorted(f for f in path.rglob("*") if f.suffix.lower() in SUFFIXES and f.is_file())
        if not files:
            raise DataError(f"{path} holds no table; known: {', '.join(SUFFIXES)}")
        return TableFolder(
            path,
            tuple(open_table(f, encoding, header) for f in files),
            tuple(_told_split(f, path) for f in files),
        )
    kinds: dict[str, type[JsonLinesTable | ParquetTable | ArrowTable]] = {
        ".jsonl": JsonLinesTable,
        ".ndjson": JsonLinesTable,
        ".parquet": ParquetTable,
        ".arrow": ArrowTable,
        ".feather": ArrowTable,
    }
    if kind := kinds.get(path.suffix.lower()):
        return kind(path)
    if path.suffix.lower() in (".csv", ".tsv", ".txt"):
        return CsvTable(path, encoding, header)
    if path.suffix.lower() == ".arff":
        return ArffTable(path, encoding)
    raise DataError(f"{path.name} ends in none of {', '.join(SUFFIXES)}, .ts, .npy or .npz")


def class_names(schema: pa.Schema, column: str) -> list[str]:
    """Return the class names of a column from the Hugging Face metadata in a schema, or []."""
    inside: Any = json.loads((schema.metadata or {}).get(b"huggingface", b"{}"))
    for key in ("info", "features", column, "names"):
        inside = inside.get(key, {}) if isinstance(inside, dict) else {}
    return [str(name) for name in inside] if isinstance(inside, list) else []


def _told_split(file: Path, folder: Path) -> str:
    """Return the split in a file name (train-00000-of-00002.parquet) or folder name, or ""."""
    parts = [*file.relative_to(folder).parts[:-1], re.split(r"[^a-zA-Z]", file.name)[0]]
    return next((part.lower() for part in parts if part.lower() in SPLIT_NAMES), "")


def _column(values: list[object], name: str, at: int) -> pa.Array:
    try:
        return pa.array(values)
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError) as error:
        first = next(value for value in values if value is not None)
        odd = next((i for i, value in enumerate(values) if not _fit(first, value)), 0)
        raise DataError(
            f"row {at + odd + 1}: column {name!r} holds {str(values[odd])[:40]!r}, other than rows before"
        ) from error


def _fit(first: object, value: object) -> bool:
    try:
        pa.array([first, value])
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError):
        return False
    return True
