"""Import of NumPy arrays: equal or padded rows, or flat sequences with offsets.

x        (n, L) integers: tokens; (n, L) or (n, L, C) floats: values; or flat, (T,) or (T, C), with offsets
y        (n,) or (n, 1) classes or real numbers; "", NaN and masked: unlabelled, while -1 is a class or number
         like any other; with target="sets" (n, K) 0 and 1; with target="positions" (n, L) the class of every
         position
lengths  (n,) length of each row without padding; optional
offsets  (n + 1,) where sequences start in a flat x; optional
split    (n,) "train", "val", "test" or 0, 1, 2; optional
groups   (n,) patient, machine, speaker ...; optional

In an ``.npz`` file, X and Y may be capital, and there may be such arrays for every split: X_train, y_train,
X_test, y_test. An ``.npy`` file holds ``x`` only; the other arrays are files next to it: ``waves.y.npy`` for
``waves.npy``.
"""

import re
import zipfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from ...errors import DataError, nearest
from ..containers import is_missing, plain_labels, rows_of
from ..labels import doubts
from ..sequences import Sequences, many_channels, positions
from ..splits import SPLIT_NAMES
from . import Kind
from .cells import labels_of_table
from .options import ImportOptions
from .plan import ImportPlan, at_position
from .source import check_memory, check_unpacked, lists_of, notes_on, readable, words

NAME = "sequence {}".format  # how messages name a sequence: from 0, as in NumPy
KEYS = ("x", "y", "lengths", "offsets", "groups", "split")
ROLES = {"y": "label", "groups": "group", "split": "split"}
"""Arrays that describe whole sequences, and their roles."""
OF_SPLIT = re.compile(rf"(x|y|groups|lengths)_({'|'.join(SPLIT_NAMES)})", re.IGNORECASE)
"""Names of the arrays of one split, e.g. X_train."""


def plan_of_arrays(arrays: Mapping[str, np.ndarray], options: ImportOptions) -> ImportPlan:
    """Check arrays, infer their kind, and return their sequences and labels.

    Raises:
        DataError: if they contradict each other; the message says what to change.
    """
    found = read_sequences(arrays, options.kind)
    changed: dict[str, str] = {}
    several = options.target in ("sets", "positions")
    n = len(found.rows)
    described = {key: _described(key, arrays[key], n, several) for key in ROLES if key in arrays}
    columns = {
        ROLES[key]: words(pa.array(np.ma.getdata(array), mask=np.ma.getmaskarray(array)), changed)
        for key, array in described.items()
        if array.ndim == 1
    }
    if "y" in described and described["y"].ndim > 1:
        columns["label"] = _several(described["y"], found.lengths, options, changed)
    x = arrays["x"]
    if found.kind == "tokens" and (found.flat.dtype.kind == "f" or found.flat.ndim == 2):
        raise DataError(f"x is {x.dtype} {x.shape}; tokens are integers without channels, use --kind values")
    facts = {"x": f"{x.dtype} {x.shape}", "groups": "given" if "groups" in arrays else "none"}
    facts["split"] = "given" if "split" in arrays else "made"
    notes = _hints(found, None if options.target == "reals" else described.get("y")) + notes_on(changed)
    found = replace(found, columns=columns)
    options = replace(options, label="y")
    sets = options.target == "sets" and "y" in described and described["y"].ndim > 1
    classes = tuple(_columns(described["y"])) if sets else ()
    return ImportPlan(found, options, NAME, at_position, found=facts, notes=notes, classes=classes)


def read_sequences(arrays: Mapping[str, np.ndarray], kind: Kind) -> Sequences:
    """Return the sequences of ``x``, without padding.

    Raises:
        DataError: if there are none, or they contradict ``lengths`` or ``offsets``.
    """
    x = _native(arrays["x"])
    if x.dtype.kind not in "biuf":
        raise DataError(f"x is {x.dtype}; it must hold integers (tokens) or floats (values)")
    if "lengths" in arrays and "offsets" in arrays:
        raise DataError("`lengths` belongs to padded rows, `offsets` to a flat x; give one of them")
    if "offsets" in arrays:
        flat, starts, lengths = _ragged(x, arrays["offsets"])
    else:
        flat, starts, lengths = _padded(x, arrays.get("lengths"))
    if not len(starts):
        raise DataError("x holds no sequence")
    check_memory(int(lengths.sum()) * flat[:1].nbytes, "x")
    if (starts != lengths.cumsum() - lengths).any() or lengths.sum() != len(flat):
        owner, place = positions(lengths)
        flat = flat[starts[owner] + place]
    numbers = flat.dtype.kind == "f" or flat.ndim == 2
    if kind != "values" and not (kind == "auto" and numbers):
        return Sequences("tokens", flat, lengths, np.arange(len(lengths)))
    flat = flat if flat.ndim == 2 else flat[:, None]
    return Sequences("values", flat, lengths, np.arange(len(lengths)))


def _hints(found: Sequences, y: np.ndarray | None) -> list[str]:
    """Return notes on arrays that may have been meant otherwise."""
    longest = int(found.lengths.max())
    hints = many_channels(found.flat.shape[1], longest) if found.flat.ndim == 2 else []
    if y is None:
        return hints
    if y.ndim == 2 and y.shape[1] >= longest:  # padding is not a label
        y = y[np.arange(y.shape[1]) < found.lengths[:, None]]
    return hints + doubts(np.unique(np.ma.compressed(y)))


def read_arrays(path: Path) -> dict[str, np.ndarray]:
    """Read all arrays of a file by name; ``x`` of a ``.npy`` is memory-mapped."""
    if path.suffix.lower() == ".npz":
        with readable(path.name, _plain):
            with zipfile.ZipFile(path) as archive:
                total = sum(member.file_size for member in archive.infolist())
            check_unpacked(path, total, "numpy.savez, which does not compress")
            with np.load(path, allow_pickle=False) as zipped:
                return _named({key: zipped[key] for key in zipped.files})
    others = {key: path.with_suffix(f".{key}.npy") for key in KEYS[1:]}
    files = {"x": path} | {key: file for key, file in others.items() if file.is_file()}
    arrays: dict[str, np.ndarray] = {}
    for key, file in files.items():
        with readable(file.name, _plain):
            arrays[key] = np.load(file, mmap_mode="c", allow_pickle=False)
    return arrays


def read_labelled_arrays(path: Path) -> dict[str, np.ndarray]:
    """Read the arrays of a file, and check that they can be imported; see ``read_arrays``.

    Raises:
        DataError: if the file lacks ``x`` or ``y``, or holds an array of another name.
    """
    arrays = read_arrays(path)
    for key in ("x", "y"):
        if key in arrays:
            continue
        if path.suffix.lower() == ".npz":
            raise DataError(f"{path.name} has no array {key!r}{nearest(key, arrays)}")
        raise DataError(f"{path.name} has no labels; save the array {key!r} as {path.stem}.{key}.npy")
    unknown = sorted(set(arrays) - set(KEYS))
    if unknown:
        raise DataError(f"{path.name} holds an unknown array {unknown[0]!r}{nearest(unknown[0], KEYS)}")
    return arrays


def join_arrays(x: Any) -> dict[str, np.ndarray]:
    """Return ``x``, with ``offsets`` if it is a list of arrays (length,) or (length, channels).

    Raises:
        DataError: if the arrays of a list differ in kind or channels, or are texts.
    """
    for part in x if isinstance(x, list) else [x]:
        if np.ma.isMaskedArray(part) and part.dtype.kind != "f" and np.ma.getmaskarray(part).any():
            raise DataError("x holds masked integers, and tokens are never missing; make them floats")
    rows = rows_of(x)[0]
    if not isinstance(rows, list):
        return {"x": np.asarray(rows)}
    if any(isinstance(part, str) for part in rows):
        raise DataError(
            "x holds text; import texts from a table: CSV or JSON lines with a column of texts (import_data)"
        )
    parts = [np.asarray(part) for part in rows]
    shapes = {part.shape[1:] for part in parts}
    kinds = {part.dtype.kind for part in parts if part.size}
    if not parts or len(shapes) > 1 or len(kinds) > 1 or any(part.ndim not in (1, 2) for part in parts):
        raise DataError("x must be an array, or a list of arrays (length,) or (length, channels) of one kind")
    full = [part for part in parts if part.size] or parts  # an empty list has no type
    return {"x": np.concatenate(full), "offsets": np.cumsum([0, *map(len, parts)])}


def of_one_type(values: Any, name: str) -> np.ndarray:
    """Return labels or names as an array of numbers or strings, in which None and NaN are masked.

    Raises:
        DataError: if the values are of several types, or lists of unequal lengths.
    """
    values = plain_labels(values)
    try:
        array = np.asarray(values)
    except ValueError as error:
        raise DataError(f"{name} holds lists of unequal lengths; make it an array") from error
    # NumPy turns a list of booleans and NaN into numbers, and one of words and NaN into words.
    mixed = isinstance(values, list) and any(isinstance(value, bool) for value in values)
    if array.dtype.kind not in "OU" and not mixed:
        return array
    objects = np.empty(array.shape, dtype=object)
    objects[:] = values if array.ndim > 1 else list(values)
    missing = np.vectorize(is_missing, otypes=[bool])(objects)
    if array.dtype.kind != "O" and not missing.any():
        return array
    known = np.array(objects[~missing].tolist())
    words_only = all(isinstance(value, str) for value in objects[~missing])
    if known.ndim != 1 or known.dtype.kind not in "biufU" or (known.dtype.kind == "U" and not words_only):
        raise DataError(f"{name} mixes kinds of things; make it an array of numbers or of strings")
    filled = np.zeros(array.shape, dtype=known.dtype)
    filled[~missing] = known
    return np.ma.masked_array(filled, missing)


def _plain(complaint: str) -> str:
    if "allow_pickle" in complaint or "Object arrays" in complaint or "Python objects" in complaint:
        return (
            " holds an array of Python objects, which can run code when read; sequences of unequal length "
            "go through selfpretrain.data.importing.importer.import_arrays"
        )
    return f" cannot be read as a NumPy file: {complaint}"


def _padded(x: np.ndarray, lengths: np.ndarray | None) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    if x.ndim not in (2, 3):
        raise DataError(f"x has shape {x.shape}; it must be (n, L) or (n, L, C), or flat with `offsets`")
    n, width = x.shape[:2]
    lengths = np.full(n, width) if lengths is None else _whole("lengths", lengths)
    if len(lengths) != n:
        raise DataError(f"{len(lengths)} lengths for {n} sequences")
    wrong = np.flatnonzero((lengths < 0) | (lengths > width))
    if len(wrong):
        raise DataError(f"lengths[{wrong[0]}] is {lengths[wrong[0]]}, but rows of x have {width} positions")
    return x.reshape(n * width, *x.shape[2:]), np.arange(n) * width, lengths


def _ragged(x: np.ndarray, offsets: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    offsets = _whole("offsets", offsets)
    if x.ndim not in (1, 2):
        raise DataError(f"x has shape {x.shape}; with `offsets` it must be (T,) or (T, C)")
    if len(offsets) < 1 or offsets[0] != 0 or offsets[-1] != len(x) or (np.diff(offsets) < 0).any():
        raise DataError(f"offsets must rise from 0 to {len(x)}; sequence i is x[offsets[i] : offsets[i + 1]]")
    return x, offsets[:-1], np.diff(offsets)


def _whole(name: str, array: np.ndarray) -> np.ndarray:
    if array.ndim != 1 or array.dtype.kind not in "iu":
        raise DataError(f"`{name}` must be one row of integers, it is {array.dtype} {array.shape}")
    return array.astype(np.int64)


def _native(array: np.ndarray) -> np.ndarray:
    """Return the array in the byte order of this machine, which Arrow and torch need."""
    return array.astype(array.dtype.newbyteorder("="), copy=False)


def _named(arrays: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Return arrays by the names that an import knows; those of several splits are put end to end."""
    found = {key.lower() if key in ("X", "Y") else key: array for key, array in arrays.items()}
    if len(found) < len(arrays):  # both X and x
        return arrays
    parts: dict[str, dict[str, np.ndarray]] = {}
    for name, array in found.items():
        match = OF_SPLIT.fullmatch(name)
        if match is None:
            return found
        parts.setdefault(match[1].lower(), {})[match[2].lower()] = array
    if "x" not in parts:
        return found
    splits = list(parts["x"])
    for key, of_key in parts.items():
        if odd := set(splits) ^ set(of_key):
            raise DataError(f"the arrays of split {odd.pop()!r} are incomplete: each needs x and {key}")
    xs = list(parts.pop("x").values())
    ys = [parts["y"][split] for split in splits] if "y" in parts else []
    if ys and all(y.ndim == 2 and y.shape[1:] == x.shape[1:2] for x, y in zip(xs, ys, strict=True)):
        parts["y"] = dict(zip(splits, _padded_alike(ys), strict=True))  # labels of positions
    joined = {key: np.concatenate([of_key[split] for split in splits]) for key, of_key in parts.items()}
    joined["split"] = np.repeat(splits, [len(x) for x in xs])
    if len({x.shape[1:] for x in xs}) > 1 and "lengths" not in joined:  # equal lengths within a split only
        return joined | join_arrays([row for x in xs for row in x])
    padded = "lengths" in joined and all(x.ndim > 1 for x in xs)
    return joined | {"x": np.concatenate(_padded_alike(xs) if padded else xs)}


def _padded_alike(parts: list[np.ndarray]) -> list[np.ndarray]:
    """Return arrays (n, L, ...) padded to one L."""
    longest = max(part.shape[1] for part in parts)
    extra = [np.zeros((len(part), longest - part.shape[1], *part.shape[2:]), part.dtype) for part in parts]
    return [np.concatenate(both, axis=1) for both in zip(parts, extra, strict=True)]


def _described(name: str, array: np.ndarray, n: int, several: bool) -> np.ndarray:
    """Return labels, groups or splits (n,), or if there may be several labels (n, ...), checked."""
    array = _native(array)
    if array.shape == (n, 1) and not (several and name == "y"):
        array = array[:, 0]
    wide = array.ndim == 2 and len(array) == n and name == "y"
    if array.shape != (n,) and not wide:
        raise DataError(f"`{name}` has shape {array.shape}, but there are {n} sequences")
    if array.dtype.kind not in "biufUS":
        raise DataError(f"{name} is {array.dtype}; it must hold integers, floats or strings")
    return array.astype(str) if array.dtype.kind == "S" else array


def _several(y: np.ndarray, lengths: np.ndarray, options: ImportOptions, changed: dict[str, str]) -> pa.Array:
    """Return lists of labels from (n, K) 0 and 1, or (n, L) classes of positions; NaN is unknown."""
    if options.target == "sets":
        table = np.ma.filled(y.astype(np.float64), np.nan)
        return labels_of_table(table, _columns(y), NAME)
    if options.target != "positions":
        raise DataError(
            f"`y` has shape {y.shape}; say --target sets for a table of 0 and 1, or --target positions"
        )
    inside = np.arange(y.shape[1]) < lengths[:, None]
    known = words(pa.array(np.ma.getdata(y)[inside], mask=np.ma.getmaskarray(y)[inside]), changed)
    return lists_of(known, inside.sum(1))


def _columns(table: np.ndarray) -> list[str]:
    """Return the names of the columns of a table of 0 and 1: their numbers."""
    return [str(k) for k in range(table.shape[1])]
