"""What all readers of user data share: bounds, errors in one line, and labels and names as strings."""

import gzip
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from io import BufferedReader, TextIOWrapper
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ...errors import DataError, SelfPretrainError, join_names, nearest
from .. import paths
from ..sequences import SequenceKind, Sequences, T

MISSING = (
    "",
    "NA",
    "N/A",
    "n/a",
    "#N/A",
    "<NA>",
    "NaN",
    "nan",
    "null",
    "NULL",
    "?",
)  # text that means a missing label or number
TEXTS = (".txt",)  # endings of files that hold a text each
MAX_LINE = 1 << 26  # maximum length of a line in characters; a longer one is an error
MAX_BYTES = 16 << 30
"""Maximum size in memory of the sequences of an import, as they are read; more is an error."""
# Unpacked, a file may take 256 MB, or 200 times its packed size if that is more; beyond, it is an attack.
MAX_UNPACKED = 1 << 28
MAX_RATIO = 200
MAX_CHANGES = 1000  # number of changed labels or names after which no further batch is recorded


def ending(path: Path) -> str:
    """Return the ending of a name in small letters; that of a text table may be followed by .gz."""
    name = Path(path.name.lower())
    inner = Path(name.stem).suffix
    return inner if name.suffix == ".gz" and inner in (".csv", ".tsv", ".jsonl", ".ndjson") else name.suffix


class UnpackedFile(gzip.GzipFile):
    """The content of a .gz file; it is an error if it becomes far larger than the file."""

    def read(self, size: int | None = -1) -> bytes:
        """Return as many bytes, or those that are left."""
        return self._checked(super().read(size))

    def read1(self, size: int = -1) -> bytes:
        """Return at most as many bytes; lines of text are read by these."""
        return self._checked(super().read1(size))

    def _checked(self, found: bytes) -> bytes:
        check_unpacked(Path(self.name), self.tell(), "pandas and compression=None")
        return found


def opened(path: Path) -> UnpackedFile | BufferedReader:
    """Open the bytes of a file, unpacked if it is a .gz."""
    return UnpackedFile(path) if path.suffix.lower() == ".gz" else path.open("rb")


def check_memory(size: int, name: str) -> None:
    """Check that an import may hold so many bytes of sequences in memory.

    Raises:
        DataError: if these are more than ``MAX_BYTES``.
    """
    if size > MAX_BYTES:
        raise DataError(
            f"{name} holds more than {MAX_BYTES:,} bytes of sequences, the most that an import reads into "
            f"memory; import a part of it"
        )


def check_unpacked(file: Path, size: int, advice: str) -> None:
    """Check that a packed file does not become far larger than it is.

    Args:
        size: bytes that it becomes.
        advice: how it can be saved so that it is read nevertheless.

    Raises:
        DataError: if it does.
    """
    if size <= MAX_UNPACKED:
        return
    packed = file.stat().st_size
    if size > MAX_RATIO * packed:
        raise DataError(
            f"{file.name}: its {packed:,} bytes would become {size:,} or more; if that is right, save it "
            f"with {advice}"
        )


def joined(parts: Sequence[Sequences], kind: SequenceKind, name: Callable[[int], str]) -> Sequences:
    """Return several parts of a file as one, empty and of this kind if there is none.

    Raises:
        DataError: naming the first sequence of another format than those before.
    """
    if len(parts) == 1:
        return parts[0]
    if not parts:
        return Sequences(kind, np.zeros(0), np.zeros(0, np.int64), np.zeros(0, np.int64))
    held = [part for part in parts if len(part.flat)] or parts[:1]  # the others say nothing of the format
    first = held[0].flat
    for part in held:
        other = part.flat
        if other.shape[1:] != first.shape[1:]:
            channels = f"it has {other.shape[-1]} channels, those before {first.shape[-1]}"
            raise DataError(f"{name(int(part.rows[0]))}: {channels}; leave it out")
        # What 8 or 16 bits stand for is said by their type; wider numbers are what they are, and so are whole
        # numbers of which some are missing.
        small = other.dtype != first.dtype and min(other.dtype.itemsize, first.dtype.itemsize) < 4
        if small and not (_lack_some(first) or _lack_some(other)):
            kinds = f"values are {other.dtype}, those before {first.dtype}"
            raise DataError(f"{name(int(part.rows[0]))}: {kinds}; convert them")
    columns = {}
    for role in parts[0].columns:
        arrays = [part.columns[role] for part in parts]
        # A column in which all is missing has no type of its own: it gets that of the others.
        held_type = next((each.type for each in arrays if each.null_count < len(each)), arrays[0].type)
        same = [pa.nulls(len(each), held_type) if each.null_count == len(each) else each for each in arrays]
        columns[role] = pa.concat_arrays(same)
    flat = np.concatenate([part.flat for part in held])
    lengths, rows = (np.concatenate([getattr(part, name) for part in parts]) for name in ("lengths", "rows"))
    return Sequences(kind, flat, lengths, rows, columns=columns)


def _lack_some(flat: np.ndarray) -> bool:
    """Return whether these are whole numbers, of which some are missing: Arrow makes them float64."""
    missing = np.isnan(flat) if flat.dtype == np.float64 else np.zeros(0)
    return bool(missing.any() and (missing | (flat % 1 == 0)).all())


def halved(read: Callable[[int, int], T], first: int, last: int, wrong: dict[int, str] | None) -> Iterator[T]:
    """Yield what is read of rows to before the last, in halves if need be; ``wrong``: rows that cannot be."""
    try:
        found = read(first, last)
    except DataError as error:
        if wrong is None:
            raise
        middle = (first + last) // 2
        if middle == first:
            wrong[first] = str(error)
            return
        yield from halved(read, first, middle, wrong)
        yield from halved(read, middle, last, wrong)
    else:
        yield found


@contextmanager
def readable(name: str, explain: Callable[[str], str] = " cannot be read: {}".format) -> Iterator[None]:
    """Convert any exception raised while reading a file into a one-line ``DataError``.

    Args:
        name: of the file.
        explain: returns what follows the name, given the text of the exception.

    Raises:
        DataError: instead of any other error.
    """
    try:
        yield
    except DataError as error:
        if str(error).isprintable():
            raise
        raise DataError(join_names([str(error)])) from error
    except SelfPretrainError:
        raise
    except MemoryError as error:
        raise DataError(f"{name} needs more memory than there is, or is damaged and claims to") from error
    except RecursionError as error:
        raise DataError(f"{name} is nested too deeply to be read") from error
    except Exception as error:
        if isinstance(error, OSError) and error.errno:
            with paths.explain_errors(Path(name), "read"):
                raise
        complaint = " ".join(str(error).split())[:300] or type(error).__name__
        if isinstance(error, UnicodeDecodeError):
            complaint = f"it holds bytes that are not {error.encoding}; save it as UTF-8"
        raise DataError(name + explain(complaint)) from error


def lines(file: TextIOWrapper, name: str) -> Iterator[tuple[int, str]]:
    """Yield the lines of a text file with their numbers, from 1, without a byte order mark.

    Raises:
        DataError: if a line is longer than ``MAX_LINE``.
    """
    for number, line in enumerate(iter(lambda: file.readline(MAX_LINE + 1), ""), 1):
        if len(line) > MAX_LINE:
            raise DataError(f"{name}, line {number}: it has more than {MAX_LINE:,} characters")
        yield number, line if number > 1 else line.removeprefix("\ufeff")


def words(array: pa.Array, changed: dict[str, str] | None = None, column: str = "labels") -> pa.Array:
    """Return labels or names as strings without surrounding spaces; missing ones are null.

    Args:
        changed: records changed strings, from before to after; "" if it counts as missing.
    """
    try:
        text = array.cast(pa.large_string())
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise DataError(
            f"{column} must be words or numbers, not {array.type}; use one of its parts"
        ) from error
    if pa.types.is_floating(array.type):  # whole numbers by their digits, "1" rather than "1.0" or "1e15"
        values = array.cast(pa.float64())
        whole = pc.and_(pc.equal(pc.floor(values), values), pc.less(pc.abs(values), 2.0**53))
        whole = pc.fill_null(whole, False)
        digits = pc.if_else(whole, values, 0.0).cast(pa.int64()).cast(pa.large_string())
        text = pc.if_else(whole, digits, text)
    bare = pc.utf8_trim_whitespace(text)
    bare = pc.if_else(pc.is_in(bare, pa.array(MISSING, pa.large_string())), None, bare)
    if changed is not None and len(changed) < MAX_CHANGES:
        other = pc.fill_null(pc.not_equal(text, pc.fill_null(bare, "")), False)
        pairs = zip(text.filter(other).to_pylist(), bare.filter(other).to_pylist(), strict=True)
        changed |= {before: after or "" for before, after in pairs}
    return bare


def notes_on(changed: dict[str, str]) -> list[str]:
    """Return notes on labels and names that ``words`` changed."""
    trimmed = [(before, after) for before, after in changed.items() if after]
    missing = {before.strip() for before, after in changed.items() if not after and before.strip()}
    notes = []
    if trimmed:
        before, after = trimmed[0]
        notes.append(f"spaces around {len(trimmed):,} labels or names are dropped: {before!r} is {after!r}")
    if missing:
        verb = "counts" if len(missing) == 1 else "count"
        notes.append(f"{', '.join(map(repr, sorted(missing)))} {verb} as a missing label or name")
    return notes


def word_lists(array: pa.Array, changed: dict[str, str] | None = None) -> pa.Array:
    """Return lists of labels as lists of strings; see ``words``."""
    array = array.cast(pa.large_list(array.type.value_type))
    lengths = pc.list_value_length(array).fill_null(0).to_numpy()
    return lists_of(words(array.flatten(), changed), lengths, array.is_valid().to_numpy(zero_copy_only=False))


def first_true(marked: pa.Array) -> int:
    """Return the number of the first cell that is true."""
    return int(marked.fill_null(False).to_numpy(zero_copy_only=False).argmax())


def is_list(kind: pa.DataType) -> bool:
    """Return whether cells hold lists, of any Arrow list type."""
    return pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind)


def lists_of(values: pa.Array, lengths: np.ndarray, known: np.ndarray | None = None) -> pa.Array:
    """Return (n,) lists of the given lengths, cut from values end to end; null where not ``known``."""
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    mask = None if known is None else pa.array(~known)
    return pa.LargeListArray.from_arrays(pa.array(offsets, pa.int64()), values, mask=mask)


def check_column(column: str, columns: Sequence[str], where: str = "") -> str:
    """Return the column, after checking that it exists.

    Args:
        where: beginning of the message.

    Raises:
        DataError: if it does not; the message suggests the nearest.
    """
    if column not in columns:
        raise DataError(f"{where}there is no column {column!r}{nearest(column, columns)}")
    return column
