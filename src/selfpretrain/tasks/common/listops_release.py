"""Read the ListOps files of Long Range Arena: expressions in binary parentheses, a tab, and the value.

The parentheses are redundant and are dropped, as is usual: ``( ( ( [MAX 4 ) 3 ) ] )`` is ``[MAX 4 3 ]``.
"""

import functools
import hashlib
from pathlib import Path

import numpy as np

from ...data.dataset import SequenceDataset
from ...errors import DataError
from ...system.events import report_progress

UNKNOWN = 255
NUMBERS = np.full(256, UNKNOWN, dtype=np.uint8)
NUMBERS[ord("0") : ord("9") + 1] = np.arange(10)
NUMBERS[ord("]")] = 14
THIRD = np.full(256, UNKNOWN, dtype=np.uint8)
"""Token of an operator by its third character, in [MIN [MAX [MED [SM."""
THIRD[[ord(letter) for letter in "IAEM"]] = range(10, 14)
OPEN = ord("[")
STARTS = NUMBERS != UNKNOWN
STARTS[OPEN] = True


def tokens(expression: bytes) -> np.ndarray:
    """Return the (length,) tokens of an expression, 255 for unknown operators."""
    letters = np.frombuffer(expression, dtype=np.uint8)
    position = np.flatnonzero(STARTS[letters])
    first = letters[position]
    third = letters[np.minimum(position + 2, len(letters) - 1)]
    return np.where(first == OPEN, THIRD[third], NUMBERS[first])


def read(file: Path) -> SequenceDataset:
    """Return all expressions of a file; cached until the file changes.

    Raises:
        DataError: if a line is not an expression and a value; the message names the first such line.
    """
    return _read(file, file.stat().st_mtime_ns)


def digest(file: Path) -> str:
    """Return the SHA-256 of a file; cached until the file changes."""
    return _digest(file, file.stat().st_mtime_ns)


@functools.lru_cache(maxsize=3)
def _read(file: Path, mtime: int) -> SequenceDataset:
    sequences = []
    values = []
    n_bytes = 0
    size = file.stat().st_size
    with file.open("rb") as lines:
        next(lines, None)  # header: Source, Target
        for number, line in enumerate(lines, start=2):
            source, _, target = line.rstrip().partition(b"\t")
            sequence = tokens(source)
            if len(target) != 1 or not target.isdigit() or not len(sequence) or UNKNOWN in sequence:
                raise DataError(
                    f"line {number} of {file} is not an expression, a tab and a digit; unpack it again"
                )
            sequences.append(sequence)
            values.append(int(target))
            n_bytes += len(line)
            if number % 1000 == 0:
                report_progress(f"bytes of {file.name} read", n_bytes, size)
    if not values:
        raise DataError(f"{file} is empty; unpack it again")
    return SequenceDataset.from_sequences(sequences, np.array(values))


@functools.lru_cache(maxsize=3)
def _digest(file: Path, mtime: int) -> str:
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
