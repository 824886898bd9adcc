"""Your own sequences, from a NumPy file of tokens or values with classes or real numbers to predict.

An ``.npz`` file holds, by name,

x        (n, L) integers: tokens; (n, L) or (n, L, C) floats: values; or flat, (T,) or (T, C), with offsets
y        (n,) integers or strings: classes; floats: real numbers. -1, "" and NaN: unlabelled
lengths  (n,) how many positions of each row are real; optional
offsets  (n + 1,) where sequences start in a flat x; optional
split    (n,) "train", "val", "test" or 0, 1, 2; optional: 70/15/15 by class, equal sequences in one split
groups   (n,) patient, machine, speaker ...: none is in two splits; optional, but needed if windows overlap

An ``.npy`` file is ``x`` alone; the others lie beside it, ``waves.y.npy`` beside ``waves.npy`` and so on.
``save_arrays`` writes such a file. Without a path, the task is a small made-up example: noisy waves of two
shapes, two channels, unequal lengths.
"""

import functools
import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np

from ..batch import Examples, Form, Split
from ..data.split import Seed, budget
from ..errors import DataError
from ..shelf import Count, spec
from . import _arrays, _inferred, _waves
from .base import Card, Task


@spec
class Arrays(Task):
    """Your own sequences, from a NumPy file."""

    card = Card(source="a file of the user", licence="that of the file")

    path: str = ""  # of an .npz or .npy file; empty: a small made-up example
    labels: Count | None = None  # how many training examples keep their label, nested; None: all
    kind: Literal["auto", "tokens", "values"] = "auto"  # what x holds; auto: tokens if integers
    target: Literal["auto", "classes", "reals"] = "auto"  # what y holds; auto: reals if floats
    split_seed: Seed = 0  # another division into train, val and test, where the file holds none

    @property
    def form(self) -> Form:
        """Vocabulary, channels and classes as found in the file; centre and spread of its training split.

        Raises:
            DataError: if the file cannot be used; the message says what to change.
        """
        return self._read().form

    def load(self, split: Split) -> Examples:
        """The examples of one split, as the file orders them; train: classes in turn, unlabelled ones last.

        Raises:
            DataError: if the file cannot be used; the message says what to change.
            SpecError: if ``labels`` does not fit.
        """
        examples = self._read().splits[split]
        return budget(examples, self.labels) if split == "train" else examples

    def tiny(self) -> "Arrays":
        """The made-up example."""
        return Arrays()

    def version(self) -> str:
        """SHA-256 of the file; empty for the made-up example."""
        if not self.path:
            return ""
        return _sha256(self.path, _stamp(self.path))

    def _read(self) -> _inferred.Data:
        return _data(self.path, _inferred.Reading(self.kind, self.target, self.split_seed), _stamp(self.path))


def save_arrays(
    path: str | Path,
    x: np.ndarray | Sequence[np.ndarray],
    y: Any,
    lengths: Any = None,
    groups: Any = None,
    split: Any = None,
) -> Path:
    """Write an ``.npz`` file that ``Arrays(path)`` reads, after the same checks.

    Args:
        x: (n, L) or (n, L, C) array, or a list of n arrays (length,) or (length, C).
        y: n classes or real numbers.
        lengths: n numbers of real positions, where rows of ``x`` are padded.
        groups: n names or numbers of what must stay in one split.
        split: n times "train", "val" or "test".

    Raises:
        DataError: if the task could not use the arrays; nothing is written then.
    """
    file = Path(path).expanduser()
    if file.suffix != ".npz" or not file.parent.is_dir():
        raise DataError(f"{path} must end in .npz and lie in an existing folder")
    flat, offsets = _arrays.join(x)
    given = {"x": flat, "offsets": offsets, "y": y, "lengths": lengths, "groups": groups, "split": split}
    arrays = {key: np.asarray(value) for key, value in given.items() if value is not None}
    for key, array in arrays.items():
        if array.dtype.kind == "O":
            raise DataError(f"{key} mixes kinds of things; make it an array of numbers or of strings")
    _inferred.data(arrays, _inferred.Reading())
    np.savez_compressed(file, allow_pickle=False, **arrays)
    return file


def _stamp(path: str) -> tuple[tuple[str, int, int], ...]:
    """What changes when a file is written anew."""
    files = _arrays.paths(path).values() if path else ()
    return tuple((str(f), f.stat().st_mtime_ns, f.stat().st_size) for f in files)


@functools.lru_cache(maxsize=4)
def _sha256(path: str, stamp: tuple[tuple[str, int, int], ...]) -> str:
    hasher = hashlib.sha256()
    for key, file in sorted(_arrays.paths(path).items()):
        hasher.update(b"" if key == "npz" else key.encode())
        with file.open("rb") as stream:
            while block := stream.read(1 << 20):
                hasher.update(block)
    return hasher.hexdigest()


@functools.lru_cache(maxsize=4)
def _data(path: str, reading: _inferred.Reading, stamp: tuple[tuple[str, int, int], ...]) -> _inferred.Data:
    if path:
        return _inferred.data(_arrays.read(path), reading)
    sequences, shapes = _waves.waves(400, seed=0)
    flat, offsets = _arrays.join(sequences)
    return _inferred.data({"x": flat, "y": shapes, "offsets": np.asarray(offsets)}, reading)


task = Arrays
