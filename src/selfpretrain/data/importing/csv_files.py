"""CSV, TSV and ARFF files, read in blocks; and ``TableFile``, the interface of all tables."""

import abc
import codecs
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from csv import reader
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import ClassVar, TextIO

import pyarrow as pa
from pyarrow import csv

from ...errors import DataError
from .source import lines, readable

PIECE = 4 << 20
"""Bytes read at a time; also the maximum length of a row."""
Piece = dict[str, pa.Array]


@dataclass(frozen=True)
class TableFile(abc.ABC):
    """A file with named columns."""

    path: Path

    @property
    @abc.abstractmethod
    def columns(self) -> list[str]:
        """Names of the columns."""

    @abc.abstractmethod
    def pieces(self, columns: Sequence[str]) -> Iterator[Piece]:
        """Yield all rows of the given columns, a few at a time."""

    @property
    def rows(self) -> int:
        """Number of rows; 0 if unknown."""
        return 0

    @property
    def divided(self) -> bool:
        """Whether a column ``split`` is derived from the names of files or folders."""
        return False

    @property
    def manner(self) -> str:
        """How the file is read, shown to the user."""
        return self.path.suffix[1:]

    def names(self, column: str) -> list[str]:
        """Return class names by label number, if the file has them."""
        return []


@dataclass(frozen=True)
class CsvTable(TableFile):
    """A text file with a separator; cells are read as strings, so that errors can quote them."""

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
        """Separator and encoding."""
        separator = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "bars"}[self._separator]
        return f"{separator}, {self._code}"

    @cached_property
    def columns(self) -> list[str]:
        """The cells of the first row, or c1, c2, ... without a header."""
        with named(self.path), self._text() as file:
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
        """Yield lines, in pieces of at most ``PIECE`` characters."""
        return iter(lambda: file.readline(PIECE), "")

    def pieces(self, columns: Sequence[str]) -> Iterator[Piece]:
        """Yield rows, with all cells as strings."""
        types = {name: pa.large_string() for name in columns}
        options = csv.ConvertOptions(
            column_types=types, include_columns=list(columns), strings_can_be_null=False
        )
        with named(self.path):
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
    """An ARFF file of Weka: @attribute lines name the columns, rows follow @data."""

    _quote: ClassVar[str] = "'"

    @property
    def manner(self) -> str:
        """Name of the format."""
        return "ARFF"

    @property
    def _separator(self) -> str:
        return ","

    @cached_property
    def _head(self) -> tuple[list[str], int]:
        """Names of the columns, and the number of lines before the first row."""
        names: list[str] = []
        with named(self.path), self._text() as file:
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
        """Names of the attributes."""
        return self._head[0]

    def _read_options(self) -> csv.ReadOptions:
        names, before = self._head
        return csv.ReadOptions(
            use_threads=False, block_size=PIECE, encoding=self._code, column_names=names, skip_rows=before
        )


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


def named(path: Path) -> AbstractContextManager[None]:
    """Convert errors of Arrow into one-line errors that name the file."""
    return readable(path.name, _plain)


def _plain(complaint: str) -> str:
    """Rewrite an error message of Arrow, which counts the header as row 1."""
    row = re.search(r"Row #(\d+)", complaint)
    where = f", row {int(row[1]) - 1}: " if row else ": "
    if "invalid UTF8" in complaint:
        return f"{where}this is not UTF-8; give --encoding, e.g. latin-1"
    if counts := re.search(r"Expected (\d+) columns, got (\d+)", complaint):
        return f"{where}{counts[2]} cells where the header has {counts[1]}; is a quote or separator missing?"
    if "straddling" in complaint:
        return f"{where}a row of more than {PIECE >> 20} MB, or a quote that is not closed"
    return f"{where}it cannot be read ({complaint})"
