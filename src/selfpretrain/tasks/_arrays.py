"""Reading, checking and writing the arrays of a file; every mistake in them ends in one clear message."""

import hashlib
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ..batch import SPLITS
from ..errors import DataError
from ..shelf import nearest

KEYS = ("x", "y", "lengths", "offsets", "groups", "split")


@dataclass(frozen=True)
class Sequences:
    """All sequences end to end, where each starts and how long it is; positions between them are padding."""

    flat: np.ndarray  # (T,) or (T, C)
    starts: np.ndarray  # (n,)
    lengths: np.ndarray  # (n,)

    def __len__(self) -> int:
        return len(self.starts)

    def real(self) -> np.ndarray:
        """(T,) which positions belong to a sequence."""
        if int(self.lengths.sum()) == len(self.flat):
            return np.ones(len(self.flat), dtype=bool)
        step = np.zeros(len(self.flat) + 1, dtype=np.int64)
        np.add.at(step, self.starts, 1)
        np.add.at(step, self.starts + self.lengths, -1)
        return step[:-1].cumsum() > 0

    def owner(self, position: int) -> tuple[int, int]:
        """The sequence a position belongs to, and where in it."""
        row = int(np.searchsorted(self.starts, position, side="right")) - 1
        return row, position - int(self.starts[row])

    def firsts(self) -> tuple[np.ndarray, np.ndarray]:
        """(m,) the first row of every distinct sequence; (n,) which of these each row equals."""
        spans = zip(self.starts.tolist(), self.lengths.tolist(), strict=True)
        digests = [hashlib.sha256(self.flat[a : a + n].tobytes()).digest()[:16] for a, n in spans]
        number = {digest: i for i, digest in enumerate(dict.fromkeys(digests))}
        which = np.array([number[digest] for digest in digests])
        return np.unique(which, return_index=True)[1], which


def paths(path: str) -> dict[str, Path]:
    """The files that hold the data: one ``.npz``, or ``name.npy`` with ``name.y.npy`` and so on beside it."""
    file = Path(path).expanduser()
    if not file.is_file():
        others = sorted(p.name for p in file.parent.glob("*.np[yz]"))
        raise DataError(f"no file {path!r}{nearest(file.name, others) if others else ''}")
    if file.suffix == ".npz":
        return {"npz": file}
    if file.suffix != ".npy":
        raise DataError(f"{path} is not .npz or .npy; write it with selfpretrain.tasks.arrays.save_arrays")
    beside = {key: file.with_suffix(f".{key}.npy") for key in KEYS[1:]}
    return {"x": file} | {key: other for key, other in beside.items() if other.is_file()}


def read(path: str) -> dict[str, np.ndarray]:
    """All arrays of a file by name; ``x`` of a ``.npy`` stays on disk until it is used.

    Raises:
        DataError: if the file is missing, damaged, holds Python objects, or lacks ``x`` or ``y``.
    """
    files = paths(path)
    zipped = "npz" in files
    arrays = _unzip(files["npz"]) if zipped else {key: _open(file, key) for key, file in files.items()}
    for key in ("x", "y"):
        if key not in arrays and zipped:
            raise DataError(f"{path} has no array {key!r}{_nearest_key(key, arrays)}")
        if key not in arrays:
            name = files["x"].with_suffix(f".{key}.npy").name
            raise DataError(f"{path} has no labels beside it; save the array {key!r} as {name}")
    unknown = sorted(set(arrays) - set(KEYS))
    if unknown:
        raise DataError(f"{path} holds an array {unknown[0]!r} nobody asked for{nearest(unknown[0], KEYS)}")
    return arrays


def _nearest_key(key: str, arrays: Mapping[str, np.ndarray]) -> str:
    alike = [name for name in arrays if name.lower().startswith(key)]  # X, y_train ...: too short for nearest
    return f"; did you mean {alike[0]!r}? Call it {key!r}" if alike else nearest(key, arrays)


def _unzip(file: Path) -> dict[str, np.ndarray]:
    try:
        with np.load(file, allow_pickle=False) as arrays:
            return {key: arrays[key] for key in arrays.files}
    except (zipfile.BadZipFile, ValueError, EOFError, OSError, AttributeError, TypeError) as error:
        raise DataError(_unreadable(file, error)) from error


def _open(file: Path, key: str) -> np.ndarray:
    try:
        return np.load(file, mmap_mode="c" if key == "x" else None, allow_pickle=False)
    except (ValueError, EOFError, OSError) as error:
        raise DataError(_unreadable(file, error)) from error


def _unreadable(file: Path, error: Exception) -> str:
    if "allow_pickle" in str(error) or "Object arrays" in str(error) or "Python objects" in str(error):
        return (
            f"{file} holds an array of Python objects, which can run code when read; "
            f"sequences of unequal length go through selfpretrain.tasks.arrays.save_arrays"
        )
    return f"{file} cannot be read as a NumPy file: {error}"


def sequences(arrays: Mapping[str, np.ndarray]) -> Sequences:
    """Where the sequences are: equally long rows, rows with ``lengths``, or end to end with ``offsets``.

    Raises:
        DataError: if shapes contradict each other or a sequence is empty.
    """
    x = arrays["x"]
    if "lengths" in arrays and "offsets" in arrays:
        raise DataError("`lengths` belongs to padded rows, `offsets` to a flat x; give one of them")
    if x.dtype.kind not in "biuf":
        raise DataError(f"x is {x.dtype}; it must hold integers (tokens) or floats (values)")
    found = _ragged(x, arrays["offsets"]) if "offsets" in arrays else _padded(x, arrays.get("lengths"))
    if not len(found):
        raise DataError("x holds no sequence")
    empty = np.flatnonzero(found.lengths < 1)
    if len(empty):
        raise DataError(f"{len(empty)} sequences are empty, the first is number {empty[0]}; leave them out")
    return found


def _padded(x: np.ndarray, lengths: np.ndarray | None) -> Sequences:
    if x.ndim not in (2, 3):
        raise DataError(f"x has shape {x.shape}; it must be (n, L) or (n, L, C), or flat with `offsets`")
    n, width = x.shape[:2]
    lengths = np.full(n, width) if lengths is None else _whole("lengths", lengths)
    if len(lengths) != n:
        raise DataError(f"{len(lengths)} lengths for {n} sequences")
    wrong = np.flatnonzero((lengths < 0) | (lengths > width))
    if len(wrong):
        raise DataError(f"lengths[{wrong[0]}] is {lengths[wrong[0]]}, but rows of x have {width} positions")
    return Sequences(x.reshape(n * width, *x.shape[2:]), np.arange(n) * width, lengths)


def _ragged(x: np.ndarray, offsets: np.ndarray) -> Sequences:
    offsets = _whole("offsets", offsets)
    if x.ndim not in (1, 2):
        raise DataError(f"x has shape {x.shape}; with `offsets` it must be (T,) or (T, C)")
    if len(offsets) < 1 or offsets[0] != 0 or offsets[-1] != len(x) or (np.diff(offsets) < 0).any():
        raise DataError(f"offsets must rise from 0 to {len(x)}; sequence i is x[offsets[i] : offsets[i + 1]]")
    return Sequences(x, offsets[:-1], np.diff(offsets))


def _whole(name: str, array: np.ndarray) -> np.ndarray:
    if array.ndim != 1 or array.dtype.kind not in "iu":
        raise DataError(f"`{name}` must be one row of integers, it is {array.dtype} {array.shape}")
    return array.astype(np.int64)


def column(arrays: Mapping[str, np.ndarray], name: str, n: int) -> np.ndarray:
    """One entry per sequence."""
    array = arrays[name]
    if array.shape != (n,):
        raise DataError(f"`{name}` has shape {array.shape}, but there are {n} sequences")
    return array


def check_tokens(data: Sequences) -> int:
    """The vocabulary: one more than the greatest symbol.

    Raises:
        DataError: if a symbol is negative or absurdly large.
    """
    flat, low, high = data.flat, 0, 0
    real = data.real()
    for start in range(0, len(flat), 1 << 24):
        part = flat[start : start + (1 << 24)][real[start : start + (1 << 24)]]
        low, high = min(low, int(part.min(initial=0))), max(high, int(part.max(initial=0)))
    if low < 0:
        at = data.owner(int(np.flatnonzero((flat < 0) & real)[0]))
        raise DataError(f"token {low} is negative (sequence {at[0]}, position {at[1]}); tokens count from 0")
    if high >= 1 << 24:
        raise DataError(f"token {high:,} is too large; number the symbols from 0, or use kind='values'")
    return high + 1


def check_values(data: Sequences) -> None:
    """Refuse what is not a finite float32.

    Raises:
        DataError: saying how many values are NaN or infinite, and where the first is.
    """
    real, count, first = data.real(), 0, -1
    for start in range(0, len(data.flat), 1 << 22):
        some = slice(start, start + (1 << 22))
        with np.errstate(over="ignore"):
            part = data.flat[some].astype(np.float32)
        bad = ~np.isfinite(part.reshape(len(part), -1)) & real[some, None]
        if bad.any() and first < 0:
            first = start + int(np.flatnonzero(bad.any(1))[0])
        count += int(bad.sum())
    if count:
        row, position = data.owner(first)
        raise DataError(
            f"{count:,} values are NaN, infinite or beyond float32, the first in sequence {row} at position "
            f"{position}; fill or cut them, e.g. np.nan_to_num(x), or end the sequence there with `lengths`"
        )


def splits(array: np.ndarray) -> np.ndarray:
    """0 1 2 from the numbers or the names of splits.

    Raises:
        DataError: if something else is in the array.
    """
    if array.dtype.kind in "iu":
        wrong = array[(array < 0) | (array > 2)]
        if len(wrong):
            raise DataError(f"`split` holds {wrong[0]}; 0 is train, 1 val, 2 test")
        return array.astype(np.int64)
    words = array.astype(str)
    wrong = words[~np.isin(words, SPLITS)]
    if len(wrong):
        raise DataError(f"`split` holds {str(wrong[0])!r}{nearest(str(wrong[0]), SPLITS)}")
    return np.array([SPLITS.index(word) for word in words.tolist()], dtype=np.int64)


def check_groups(groups: np.ndarray, split: np.ndarray) -> None:
    """Refuse a group that is in two splits.

    Raises:
        DataError: naming the group.
    """
    names, group = np.unique(groups, return_inverse=True)
    inside = np.zeros((len(names), 3), dtype=bool)
    inside[group, split] = True
    torn = np.flatnonzero(inside.sum(1) > 1)
    if len(torn):
        where = " and ".join(np.array(SPLITS)[inside[torn[0]]])
        raise DataError(
            f"group {names[torn[0]].item()!r} is in {where} ({len(torn)} such groups); keep groups whole"
        )


def join(x: np.ndarray | Sequence[np.ndarray]) -> tuple[np.ndarray, np.ndarray | None]:
    """A list of arrays end to end, with offsets; one array stays as it is.

    Raises:
        DataError: if the arrays of a list differ in kind or channels.
    """
    if isinstance(x, np.ndarray):
        return x, None
    parts = [np.asarray(part) for part in x]
    shapes, kinds = {part.shape[1:] for part in parts}, {part.dtype.kind for part in parts if len(part)}
    if not parts or len(shapes) > 1 or len(kinds) > 1 or any(part.ndim not in (1, 2) for part in parts):
        raise DataError("x must be an array, or a list of arrays (length,) or (length, channels) of one kind")
    return np.concatenate(parts), np.cumsum([0, *map(len, parts)])
