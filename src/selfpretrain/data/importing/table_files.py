"""Tables in files, read a piece at a time: CSV, TSV, JSON lines, Parquet, Arrow, or a folder of them."""

import abc
import codecs
import json
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from csv import reader
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any, ClassVar, TextIO

import pyarrow as pa
from pyarrow import csv, parquet

from ...errors import DataError
from ..splits import SPLIT_NAMES
from .source import chosen, lines, readable

PIECE = 4 << 20
"""Bytes that are read at a time; a row of a CSV file must not be longer."""
ROWS = 1024
"""Rows that are read at a time where their size is not known before."""
SUFFIXES = (".csv", ".tsv", ".txt", ".jsonl", ".ndjson", ".parquet", ".arrow", ".feather", ".arff")
Piece = dict[str, pa.Array]


@dataclass(frozen=True)
class TableFile(abc.ABC):
    """Columns of a file."""

    path: Path

    @property
    @abc.abstractmethod
    def columns(self) -> list[str]:
        """Their names."""

    @abc.abstractmethod
    def pieces(self, columns: Sequence[str]) -> Iterator[Piece]:
        """All rows of some columns, a few at a time."""

    @property
    def rows(self) -> int:
        """How many there are; 0: not known."""
        return 0

    @property
    def divided(self) -> bool:
        """Whether its column ``split`` comes from how the files are laid out."""
        return False

    @property
    def manner(self) -> str:
        """How the file is read, for people."""
        return self.path.suffix[1:]

    def names(self, column: str) -> list[str]:
        """What numbers in a column stand for, where the file says it."""
        return []


@dataclass(frozen=True)
class CsvTable(TableFile):
    """Text with a separator; every cell is a string, so that a wrong one can be named."""

    encoding: str = ""
    header: bool = True

    @cached_property
    def _code(self) -> str:
        return self.encoding or _encoding(self.path)

    @cached_property
    def _separator(self) -> str:
        with self._text() as file:
            first = next((line for line in self._pieces_of(file) if line.strip()), "")
        bare = re.sub(r'"[^"]*"', "", first)
        return max(",;\t|", key=bare.count)

    def _text(self) -> TextIO:
        code = "utf-8-sig" if self._code == "utf-8" else self._code
        return self.path.open(encoding=code, errors="replace", newline="")

    @property
    def manner(self) -> str:
        """The separator and the encoding."""
        separator = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "bars"}[self._separator]
        return f"{separator}, {self._code}"

    @cached_property
    def columns(self) -> list[str]:
        """The first row."""
        with _readable(self.path), self._text() as file:
            rows = reader(self._pieces_of(file), delimiter=self._separator)
            names = next((row for row in rows if row), [])
        if not names:
            raise DataError(f"{self.path.name} is empty; its first row must name the columns")
        if not self.header:
            return [f"c{i}" for i in range(1, len(names) + 1)]
        name, count = Counter(names).most_common(1)[0]
        if count > 1:
            raise DataError(
                f"{self.path.name} has two columns called {name[:40]!r}; rename one, or give "
                f"--no-header if the first row is data"
            )
        return names

    def _pieces_of(self, file: TextIO) -> Iterator[str]:
        """Lines, or of long ones pieces: a header is no longer than a row may be."""
        return iter(lambda: file.readline(PIECE), "")

    def pieces(self, columns: Sequence[str]) -> Iterator[Piece]:
        """Cells as strings."""
        types = {name: pa.large_string() for name in columns}
        options = csv.ConvertOptions(
            column_types=types, include_columns=list(columns), strings_can_be_null=False
        )
        with _readable(self.path):
            for batch in self._open(options):
                yield dict(zip(batch.schema.names, batch.columns, strict=True))

    def _open(self, options: csv.ConvertOptions) -> csv.CSVStreamingReader:
        return csv.open_csv(
            self.path,
            self._read_options(),
            csv.ParseOptions(delimiter=self._separator, newlines_in_values=True, quote_char=self._quote),
            options,
        )

    _quote: ClassVar[str] = '"'

    def _read_options(self) -> csv.ReadOptions:
        names = None if self.header else self.columns
        return csv.ReadOptions(use_threads=False, block_size=PIECE, encoding=self._code, column_names=names)


@dataclass(frozen=True)
class ArffTable(CsvTable):
    """A file of Weka: @attribute lines that name the columns, then rows after @data."""

    _quote: ClassVar[str] = "'"

    @property
    def manner(self) -> str:
        """As the format is called."""
        return "ARFF"

    @property
    def _separator(self) -> str:
        return ","

    @cached_property
    def _head(self) -> tuple[list[str], int]:
        """Names of the columns, and how many lines come before the first row."""
        names: list[str] = []
        with _readable(self.path), self._text() as file:
            for number, line in lines(file, self.path.name):
                word, _, rest = line.strip().partition(" ")
                if word.lower() == "@data" and names:
                    return names, number
                if word.lower() == "@attribute":
                    if rest.strip().lower().endswith("relational"):
                        raise DataError(
                            f"{self.path.name}, line {number}: relational attributes are not read; most such "
                            f"data come as .ts files, too"
                        )
                    quoted = re.match(r"""\s*(?:'([^']*)'|"([^"]*)"|(\S+))""", rest)
                    names.append(next(filter(None, quoted.groups()), "") if quoted else "")
        raise DataError(f"{self.path.name} has no @attribute or no @data line; is it an ARFF file?")

    @cached_property
    def columns(self) -> list[str]:
        """The attributes."""
        return self._head[0]

    def _read_options(self) -> csv.ReadOptions:
        names, before = self._head
        return csv.ReadOptions(
            use_threads=False, block_size=PIECE, encoding=self._code, column_names=names, skip_rows=before
        )


@dataclass(frozen=True)
class JsonLinesTable(TableFile):
    """One JSON object per line."""

    @cached_property
    def columns(self) -> list[str]:
        """Keys of the first objects."""
        return list(dict.fromkeys(key for row in islice(self._lines(), 100) for key in row))

    def pieces(self, columns: Sequence[str]) -> Iterator[Piece]:
        """Columns in whatever type Arrow finds for them; a missing key is null."""
        lines, at = self._lines(), 0
        while rows := list(islice(lines, ROWS)):
            yield {name: _column([row.get(name) for row in rows], name, at) for name in columns}
            at += len(rows)

    def _lines(self) -> Iterator[dict[str, object]]:
        with _readable(self.path), self.path.open(encoding="utf-8-sig") as file:
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
        with _readable(self.path):
            return parquet.ParquetFile(self.path)

    @property
    def columns(self) -> list[str]:
        """Names of the columns."""
        return self._file.schema_arrow.names

    @property
    def rows(self) -> int:
        """As the file says."""
        return self._file.metadata.num_rows

    def pieces(self, columns: Sequence[str]) -> Iterator[Piece]:
        """As many rows at a time as make up about 4 MB."""
        meta = self._file.metadata
        size = sum(meta.row_group(i).total_byte_size for i in range(meta.num_row_groups))
        rows = max(min(PIECE * self.rows // max(size, 1), 1 << 16), 1)
        with _readable(self.path):
            for batch in self._file.iter_batches(rows, columns=list(columns)):
                yield dict(zip(batch.schema.names, batch.columns, strict=True))

    def names(self, column: str) -> list[str]:
        """Names of classes, as the Hugging Face library leaves them in the schema."""
        return class_names(self._file.schema_arrow, column)


@dataclass(frozen=True)
class ArrowTable(TableFile):
    """An Arrow or Feather file, or a stream of Arrow batches."""

    @cached_property
    def _schema(self) -> pa.Schema:
        with _readable(self.path), self._reader() as reader:
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
        """The batches of the file, in pieces."""
        with _readable(self.path), self._reader() as reader:
            streamed = isinstance(reader, pa.RecordBatchStreamReader)
            batches = reader if streamed else map(reader.get_batch, range(reader.num_record_batches))
            for batch in batches:
                batch.validate(full=True)  # nothing else looks whether offsets lie inside of the file
                step = max(min(PIECE * len(batch) // max(batch.nbytes, 1), 1 << 16), 1)
                for at in range(0, len(batch), step):
                    yield {name: batch.column(name).slice(at, step) for name in columns}

    def names(self, column: str) -> list[str]:
        """Names of classes, as the Hugging Face library leaves them in the schema."""
        return class_names(self._schema, column)


@dataclass(frozen=True)
class TableFolder(TableFile):
    """Files with the same columns; where their names or folders are those of splits, that is a column."""

    members: tuple[TableFile, ...] = ()
    splits: tuple[str, ...] = ()

    @property
    def columns(self) -> list[str]:
        """Those of the first file, and ``split``."""
        return [*self.members[0].columns, *(["split"] if self.divided else [])]

    @property
    def divided(self) -> bool:
        """Whether all files tell of a split."""
        return all(self.splits) and "split" not in self.members[0].columns

    @property
    def rows(self) -> int:
        """Of all files, if all know."""
        counts = [member.rows for member in self.members]
        return sum(counts) if all(counts) else 0

    @property
    def manner(self) -> str:
        """How many files."""
        return f"{len(self.members)} files, {self.members[0].manner}"

    def pieces(self, columns: Sequence[str]) -> Iterator[Piece]:
        """One file after the other."""
        for member, split in zip(self.members, self.splits, strict=True):
            own = [chosen(name, member.columns) for name in columns if name != "split" or not self.divided]
            for piece in member.pieces(own):
                rows = len(next(iter(piece.values())))
                yield piece | ({"split": pa.repeat(split, rows)} if self.divided else {})

    def names(self, column: str) -> list[str]:
        """Those of the first file."""
        return self.members[0].names(column)


def open_table(path: Path, encoding: str = "", header: bool = True) -> TableFile:
    """The table in a file, or the tables in a folder.

    Raises:
        DataError: if no table can be read there.
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
    """Names of the classes that numbers in a column stand for."""
    inside: Any = json.loads((schema.metadata or {}).get(b"huggingface", b"{}"))
    for key in ("info", "features", column, "names"):
        inside = inside.get(key, {}) if isinstance(inside, dict) else {}
    return [str(name) for name in inside] if isinstance(inside, list) else []


def _told_split(file: Path, folder: Path) -> str:
    """The split that a file name such as train-00000-of-00002.parquet or a folder tells of."""
    parts = [*file.relative_to(folder).parts[:-1], re.split(r"[^a-zA-Z]", file.name)[0]]
    return next((part.lower() for part in parts if part.lower() in SPLIT_NAMES), "")


def _encoding(path: Path) -> str:
    with path.open("rb") as file:
        start = file.read(1 << 20)
    if start.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return "utf-16"
    try:
        codecs.getincrementaldecoder("utf-8")().decode(start)
    except UnicodeDecodeError:
        return "latin-1"
    return "utf-8"


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


def _readable(path: Path) -> AbstractContextManager[None]:
    return readable(path.name, _plain)


def _plain(complaint: str) -> str:
    """Arrow's words in ours; it counts the header as row 1."""
    row = re.search(r"Row #(\d+)", complaint)
    where = f", row {int(row[1]) - 1}: " if row else ": "
    if "invalid UTF8" in complaint:
        return f"{where}this is not UTF-8; give --encoding, e.g. latin-1"
    if counts := re.search(r"Expected (\d+) columns, got (\d+)", complaint):
        return f"{where}{counts[2]} cells where the header has {counts[1]}; is a quote or separator missing?"
    if "straddling" in complaint:
        return f"{where}a row of more than {PIECE >> 20} MB, or a quote that is not closed"
    return f"{where}it cannot be read ({complaint})"
