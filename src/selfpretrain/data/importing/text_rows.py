"""Rows of text files, with their lines: CSV with any separator, columns of spaces, and ARFF."""

import codecs
import csv
import re
from array import array
from collections import Counter
from collections.abc import Callable, Iterator, MutableSequence
from dataclasses import dataclass, field
from io import TextIOWrapper
from itertools import dropwhile, islice
from pathlib import Path
from typing import Literal, NamedTuple

from ...errors import DataError
from .numerals import DECIMAL, NUMBER
from .source import ending, lines, opened

SEPARATORS = {"\t": "tabs", ",": "commas", ";": "semicolons", "|": "bars", " ": "spaces"}
"""Separators of cells, and how they are shown to the user; the first wins if several fit equally."""
MAX_CELL = 1 << 22
"""Maximum length of a cell in characters; a quote that is not closed would else take the rest of the file."""
CSV_ERRORS = {
    "unexpected end": "a quote that is not closed",
    "field limit": f"a cell of more than {MAX_CELL >> 20} MB, or a quote that is not closed",
    "expected after": "a cell in quotes goes on after its closing quote; within quotes, a quote is written "
    "twice",
}
"""Part of what Python says of a file with a separator -> what is said here."""
FIRST = 20  # rows by which a comment is told from a header
HEAD = 1 << 20  # characters by which the separator is found; at most 100 lines
ARFF_CELL = re.compile(r"""\s*(?:'((?:[^'\\]|\\.)*+)'|"((?:[^"\\]|\\.)*+)"|([^,'"%{][^,%]*)?)\s*(,|$)""")
"""A cell of ARFF with the comma after it: quoted in one of two ways, or not."""
EXCEL = re.compile(r'"?sep=.?"?')  # regular expression of a first line that tells Excel the separator
ESCAPES = {"n": "\n", "r": "\r", "t": "\t"}  # letters that mean another one after a backslash in ARFF

csv.field_size_limit(max(csv.field_size_limit(), MAX_CELL))


class TextRow(NamedTuple):
    """A row of a text file."""

    line: int  # in which it begins, from 1
    last: int  # line in which it ends
    cells: list[str]

    @property
    def size(self) -> int:
        """Return the number of letters and separators."""
        return sum(map(len, self.cells)) + len(self.cells)


@dataclass
class RowPlaces:
    """Lines of a file in which its rows begin, as far as it has been read."""

    file: str
    lines: MutableSequence[int] = field(default_factory=lambda: array("q"))
    last: int = 0  # last line of the last row
    longest: tuple[int, int] = (0, 0)  # lines of the row with most lines, and the negative of its first line

    def add(self, rows: list[TextRow]) -> None:
        """Record further rows."""
        self.lines.extend(row.line for row in rows)
        self.last = rows[-1].last
        self.longest = max(self.longest, *((row.last - row.line + 1, -row.line) for row in rows))

    def clear(self) -> None:
        """Forget all rows, before the file is read again."""
        del self.lines[:]
        self.longest = (0, 0)

    def name(self, row: int) -> str:
        """Return how messages name a row."""
        return f"{self.file}, line {self.lines[row]}"

    def notes(self) -> list[str]:
        """Return a note if there are not as many rows as lines."""
        count = self.last - self.lines[0] + 1 if self.lines else 0
        if count == len(self.lines):
            return []
        size, line = self.longest
        long = f"the row in line {-line} has {size:,} lines"
        why = long if size > 1 else "the others are empty or comments"
        return [f"{self.file}: {count:,} lines hold {len(self.lines):,} rows; {why}"]


@dataclass(frozen=True)
class TextRows:
    """A text file with one row of cells per line, or per several lines where a cell is quoted."""

    names: list[str]  # of the columns
    separator: str
    code: str  # encoding
    how: str  # how the file is read, shown to the user
    read: Callable[[], Iterator[TextRow]]  # yields all rows but the header


def csv_rows(path: Path, encoding: str, header: bool) -> TextRows:
    """Open a text file with a separator.

    Raises:
        DataError: if it is empty, begins with a comment, or two columns have one name.
    """
    code = encoding or _encoding(path)
    separator = "\t" if ending(path) == ".tsv" else _separator(path, code)
    quoted = separator != "\t" or _is_quoted(path, code)

    def read() -> Iterator[TextRow]:
        return islice(_rows(path, code, separator, quoted), int(header), None)

    first = [row.cells for row in islice(_rows(path, code, separator, quoted), FIRST)]
    if not first:
        raise DataError(f"{path.name} is empty; its first row must name the columns")
    names, *others = first
    names = [name.strip() for name in names]
    widths = {len(cells) for cells in others if not cells[0].startswith("#")}
    if names[0].startswith("#") and widths and len(names) not in widths:
        raise DataError(
            f"{path.name}: the first line, {names[0][:40]!r}, looks like a comment: it has other cells than "
            f"the rows; remove it and those like it"
        )
    if not header:
        names = [f"c{i}" for i in range(1, len(names) + 1)]
    # Spreadsheets add columns without a name and without content.
    held = [name for i, name in enumerate(names) if name or any("".join(row[i : i + 1]) for row in others)]
    name, count = Counter(held or names).most_common(1)[0]
    if count > 1:
        raise DataError(
            f"{path.name} has two columns called {name[:40]!r}; rename one, or give --no-header if the first "
            f"row is data"
        )
    return TextRows(names, separator, code, f"{SEPARATORS[separator]}, {code}", read)


def _rows(path: Path, code: str, separator: str, quoted: bool) -> Iterator[TextRow]:
    """Yield the rows that are not empty; in a file of one column, an empty line is an empty cell."""
    taken: list[str] = []  # lines of the row
    quoting: Literal[0, 3] = csv.QUOTE_MINIMAL if quoted else csv.QUOTE_NONE
    with open_text(path, code) as file:
        each = _lines(file, path.name, separator, taken)
        rows = csv.reader(each, delimiter=separator, quoting=quoting, strict=True)
        empty: list[TextRow] = []
        while True:
            begin = rows.line_num + 1
            taken.clear()
            try:
                row = next(rows, None)
            except csv.Error as error:
                complaint = str(error)
                reasons = (said for part, said in CSV_ERRORS.items() if part in complaint)
                reason = next(reasons, f"it cannot be read ({complaint})")
                raise DataError(f"{path.name}, line {begin}: {reason}") from error
            if row is None:
                return
            if len(row) < 2 and not "".join(row).strip() and '"' not in taken[0]:
                empty.append(TextRow(begin, begin, [""]))
                continue
            if len(row) == 1:
                yield from empty
            empty.clear()
            if (
                separator == "\t"
                and len(taken) > 1
                and {line.count("\t") for line in taken} == {len(row) - 1}
            ):
                raise DataError(
                    f"{path.name}, line {begin}: a quote that opens here is closed {len(taken) - 1} lines "
                    f"below, and each of these lines could be a row; remove the quotes, or save it as .jsonl"
                )
            yield TextRow(begin, rows.line_num, row)


def _lines(file: TextIOWrapper, name: str, separator: str, taken: list[str]) -> Iterator[str]:
    """Yield the lines of a file, and record them; spaces that separate columns become one."""
    for number, line in lines(file, name):
        said = "\n" if number == 1 and EXCEL.fullmatch(line.strip()) else line
        taken.append(" ".join(said.split()) if separator == " " else said)
        yield taken[-1]


def _is_quoted(path: Path, code: str) -> bool:
    """Return whether all quotes that begin a cell enclose it; if not, quotes of the file are letters."""
    with opened(path) as file:
        if not any(b'"' in piece for piece in iter(lambda: file.read(HEAD), b"")):
            return False
    with open_text(path, code) as file:
        try:
            for _ in csv.reader((line for _, line in lines(file, path.name)), delimiter="\t", strict=True):
                pass
        except csv.Error:
            return False
    return True


def _separator(path: Path, code: str) -> str:
    """Return the separator by which most of the first rows, after comments, have as many cells as one."""
    head: list[str] = []
    size = 0
    with open_text(path, code) as file:
        for _, line in lines(file, path.name):
            head += [line] if line.strip() and (head or not EXCEL.fullmatch(line.strip())) else []
            size += len(line)
            if len(head) == 100 or size > HEAD:
                break
    head = list(dropwhile(lambda line: line.startswith("#"), head)) or head
    fits = {separator: _fit(head, separator) for separator in SEPARATORS if separator != " "}
    if not fits["\t"] and _in_columns([line.split() for line in head]):
        return " "
    if fits[","] == fits[";"] > 0:
        cells = [cell for row in csv.reader(head, delimiter=";") for cell in row if "," in cell]
        if all(re.fullmatch(DECIMAL, cell.strip()) for cell in cells):  # commas of numbers between semicolons
            return ";"
    best = max(fits, key=lambda separator: fits[separator])
    return best if fits[best] else ","


def _fit(head: list[str], separator: str) -> float:
    """Return the share of rows that have as many cells as the first; 0 if that has one."""
    try:
        widths = [len(row) for row in csv.reader(head, delimiter=separator)]
    except csv.Error:
        return 0.0
    return widths.count(widths[0]) / len(widths) if widths and widths[0] > 1 else 0.0


def _in_columns(rows: list[list[str]]) -> bool:
    """Return whether rows split at spaces are equally long and, but for names and one label, numbers."""
    if len({len(row) for row in rows}) != 1:
        return False
    is_number = re.compile(f"{NUMBER}|{DECIMAL}|[-+]?nan|[-+]?inf|\\?", re.IGNORECASE).fullmatch
    counts = [sum(map(bool, map(is_number, row))) for row in rows[1:] or rows]
    commas = min(sum("," in cell for cell in row) for row in rows[1:] or rows)
    return min(counts) >= max(2, len(rows[0]) - 1) and (
        commas > 1 or not any("," in cell for cell in rows[-1])
    )


def arff_rows(path: Path, encoding: str) -> TextRows:
    """Open an ARFF file of Weka: @attribute lines name the columns, rows follow @data.

    Raises:
        DataError: if there are no attributes or no data, or attributes that hold tables.
    """
    code = encoding or _encoding(path)
    names: list[str] = []
    with open_text(path, code) as file:
        for number, line in lines(file, path.name):
            word, rest = (*line.split(None, 1), "")[:2] if line.strip() else ("", "")
            if word.lower() == "@data" and names:
                break
            if word.lower() != "@attribute":
                continue
            if rest.strip().lower().endswith("relational"):
                raise DataError(
                    f"{path.name}, line {number}: relational attributes are not read; most such data come as "
                    f".ts files, too"
                )
            quoted = re.match(r"""'((?:[^'\\]|\\.)*)'|"((?:[^"\\]|\\.)*)"|(\S+)""", rest)
            names.append(_unescaped(next(filter(None, quoted.groups()), "")) if quoted else "")
        else:
            raise DataError(f"{path.name} has no @attribute or no @data line; is it an ARFF file?")
    name, count = Counter(names).most_common(1)[0]
    if count > 1:
        raise DataError(f"{path.name} has two attributes called {name[:40]!r}; rename one")

    def read() -> Iterator[TextRow]:
        with open_text(path, code) as file:
            for at, line in islice(lines(file, path.name), number, None):
                if line.strip() and not line.lstrip().startswith("%"):
                    yield TextRow(at, at, _arff_cells(line.strip(), f"{path.name}, line {at}"))

    return TextRows(names, "", code, "ARFF", read)


def _arff_cells(line: str, where: str) -> list[str]:
    """Return the cells of a line of ARFF."""
    if line.startswith("{"):
        raise DataError(
            f"{where}: sparse ARFF is not read; save it with all values (Weka: SparseToNonSparse)"
        )
    cells: list[str] = []
    at = 0
    while cell := ARFF_CELL.match(line, at):
        single, double, bare, comma = cell.groups()
        escaped = single if single is not None else double
        cells.append((bare or "").strip() if escaped is None else _unescaped(escaped))
        at = cell.end()
        if not comma:
            return cells
    raise DataError(
        f"{where}: a quote that is not closed, or a quote, brace or % in a cell without quotes; put the cell "
        f"in quotes, and a backslash before each quote in it"
    )


def _unescaped(text: str) -> str:
    return re.sub(r"\\(.)", lambda found: ESCAPES.get(found[1], found[1]), text)


def open_text(path: Path, code: str = "") -> TextIOWrapper:
    """Open a text file; bytes that are not of the encoding become surrogates, which no column can hold.

    Args:
        code: the encoding; empty: that of its first letters.
    """
    return TextIOWrapper(opened(path), code or _encoding(path), "surrogateescape", newline="")


def _encoding(path: Path) -> str:
    """Return the encoding of a text file, by its first letters."""
    with opened(path) as file:
        return encoding_of(file.read(HEAD))


def encoding_of(start: bytes) -> str:
    """Return the encoding of the start of a text: UTF-16 by its mark, UTF-8 if it can be, else Windows-1252.

    UTF-16 without a mark is known by its zeros, which are the same one of the two bytes of most letters.
    """
    if start.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return "utf-16"
    zeros = [start[side::2].count(0) for side in (0, 1)]
    if max(zeros) > max(len(start) // 4, 8 * min(zeros)):
        return "utf-16-be" if zeros[0] > zeros[1] else "utf-16-le"
    try:
        codecs.getincrementaldecoder("utf-8")().decode(start)
    except UnicodeDecodeError:
        return "windows-1252"  # which is Latin-1 with quotes, dashes and the euro sign
    return "utf-8"
