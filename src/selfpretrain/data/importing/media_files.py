"""Folders of recordings or texts: a file is a sequence, its folder the class."""

import re
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa

from ...errors import DataError, join_names
from .. import audio
from ..splits import SPLIT_NAMES
from .options import ImportOptions
from .source import Part, Signal, Source, readable, words

SOUNDS = (".wav", ".flac", ".ogg")
TEXTS = (".txt",)
AT_ONCE = 16
"""Files per part."""


@dataclass
class MediaSource(Source):
    """A reader of files of one kind in a folder."""

    folder: Path = field(kw_only=True)
    files: list[Path] = field(kw_only=True)
    named: dict[str, list[str | None]] = field(default_factory=dict)  # by role, one string per file
    options: ImportOptions = field(kw_only=True)
    rate: int = 0  # sample rate of the files so far, in Hz; 0: files may differ in it
    dtype: str = ""  # of the samples of the files so far

    def parts(self) -> Iterator[Part]:
        """Yield the files, in the order of their names."""
        self.rate = 0
        self.unread.clear()
        for first in range(0, len(self.files), AT_ONCE):
            rows = []
            sequences = []
            for row in range(first, min(first + AT_ONCE, len(self.files))):
                sequence = self._read(row)
                if sequence is not None:
                    rows.append(row)
                    sequences.append(sequence)
            if rows:
                yield self._part(rows, sequences)

    def _part(self, rows: list[int], sequences: list[np.ndarray]) -> Part:
        columns = {
            role: words(pa.array([names[row] for row in rows], pa.large_string()), self.changed)
            for role, names in self.named.items()
        }
        for row, sequence in zip(rows, sequences, strict=True):
            if (sequence.dtype, sequence.shape[1:]) != (sequences[0].dtype, sequences[0].shape[1:]):
                raise DataError(f"{self.name(row)}: other channels or sample format than the files before")
        self.dtype = str(sequences[0].dtype)
        lengths = np.array([len(sequence) for sequence in sequences])
        return Part(np.concatenate(sequences), lengths, columns, np.array(rows))

    def name(self, row: int) -> str:
        """Return the path of a file, relative to the folder."""
        return str(self.files[row].relative_to(self.folder))

    def _read(self, row: int) -> np.ndarray | None:
        """Return the sequence of a file; with ``skip_bad``, None if it cannot be read.

        Raises:
            DataError: if it cannot be read, or has another sample rate than the files before.
        """
        try:
            rate, sequence = self.open(row)
        except DataError as error:
            if self.skip_bad:
                self.unread[row] = str(error)
                self.hints = [f"{len(self.unread):,} files cannot be read and are left out"]
                return None
            raise DataError(f"{error}; --skip-bad leaves such files out") from error
        if self.rate and rate != self.rate:
            raise DataError(
                f"{self.name(row)} has {rate} samples per second, others {self.rate}; --rate {self.rate} "
                f"resamples"
            )
        self.rate = rate
        return sequence

    def open(self, row: int) -> tuple[int, np.ndarray]:
        """Return the sample rate and the sequence of a file.

        The rate is 0 if files may differ in it: texts, resampled recordings and features.

        Raises:
            DataError: if the file cannot be read.
        """
        file = self.files[row]
        name = self.name(row)
        with readable(name):
            if file.suffix.lower() in TEXTS:
                return 0, np.frombuffer(file.read_bytes(), np.uint8)
            rate, samples = _sound(file)
            if not len(samples):
                raise DataError(f"{name} holds no samples")
            if self.options.rate or self.options.features != "raw":
                return 0, _features(rate, samples, self.options)
            return rate, samples


def media_source(folder: Path, options: ImportOptions) -> MediaSource:
    """List the files of a folder, and take labels, groups and splits from their paths.

    The class of ``folder/yes/1.wav`` is "yes"; in ``folder/train/yes/1.wav`` the first folder is the split. A
    pattern for label, group or split is a regular expression searched in the path; its first group counts.

    Raises:
        DataError: if there is no label.
    """
    files = media_in(folder)
    names = [f.relative_to(folder).as_posix() for f in files]
    parts = [name.split("/") for name in names]
    by_split = (
        all(len(p) > 1 and p[0].lower() in SPLIT_NAMES for p in parts) and len({p[0] for p in parts}) > 1
    )
    named: dict[str, list[str | None]] = {
        role: [_search(role, pattern, name) for name in names] for role, pattern in options.roles.items()
    }
    if by_split:
        named.setdefault("split", [p[0].lower() for p in parts])
    if "label" not in named:
        depth = 1 if by_split else 0
        if any(len(p) < depth + 2 for p in parts):
            raise DataError(
                f"{folder} has files outside of class folders; give --label PATTERN, e.g. '^([a-z]+)_'"
            )
        named["label"] = [p[depth] for p in parts]
    texts = files[0].suffix.lower() in TEXTS
    facts = {"files": f"{len(files):,} {'texts' if texts else 'recordings'} in {folder.name}"}
    facts["labels"] = join_names(sorted({label or "" for label in named["label"]}), 40)
    facts |= {"label": options.label or "name of the folder", "group": options.group or "none"}
    facts |= {"split": "by name" if "split" in named else "made"}
    kind: Signal = "tokens" if texts or options.kind == "tokens" else "values"
    vocab = 256 if texts else 0
    source = MediaSource(kind, vocab, len(files), facts, folder=folder, files=files, options=options)
    source.named = named
    source.skip_bad = options.skip_bad
    return source


def media_in(folder: Path) -> list[Path]:
    """Return the recordings in a folder or, if there are none, the texts.

    Raises:
        DataError: if there is neither.
    """
    found = sorted(f for f in folder.rglob("*") if f.suffix.lower() in SOUNDS + TEXTS and f.is_file())
    if not found:
        raise DataError(f"{folder} holds no {', '.join(SOUNDS + TEXTS)} files")
    return [f for f in found if f.suffix.lower() in SOUNDS] or found


def _search(role: str, pattern: str, name: str) -> str:
    """Return the first group of a pattern in a file name.

    Raises:
        DataError: if the pattern is invalid or finds nothing.
    """
    try:
        match = re.search(pattern, name)
    except re.error as error:
        raise DataError(f"--{role} {pattern} is no regular expression: {error}") from error
    if not match or not match.groups():
        raise DataError(f"{name}: --{role} {pattern} finds nothing in it, or has no parenthesis")
    return match[1]


def _sound(file: Path) -> tuple[int, np.ndarray]:
    """Return the sample rate, and (length, channels): bytes, 16-bit integers or floats in [-1, 1]."""
    if file.suffix.lower() == ".wav":
        from scipy.io import wavfile

        with warnings.catch_warnings():
            warnings.simplefilter("ignore", wavfile.WavFileWarning)  # unknown chunks do not matter
            rate, samples = wavfile.read(file)
    else:
        try:
            from soundfile import read
        except ImportError as error:
            raise DataError("FLAC and OGG files need soundfile: pip install 'selfpretrain[audio]'") from error
        samples, rate = read(file, dtype="int16")
    if samples.dtype == np.int32:  # 24 or 32 bits, more than training uses
        samples = (samples / 2**31).astype(np.float32)
    samples = samples if samples.dtype in (np.uint8, np.int16) else samples.astype(np.float32)
    return rate, samples[:, None] if samples.ndim == 1 else samples


def _features(rate: int, samples: np.ndarray, options: ImportOptions) -> np.ndarray:
    """Return (length, channels) at ``options.rate``, or (frames, features) of the mean of all channels."""
    scale = {np.dtype(np.uint8): 128.0, np.dtype(np.int16): 32768.0}.get(samples.dtype, 1.0)
    x = (samples.astype(np.float32) - 128 * (samples.dtype == np.uint8)) / np.float32(scale)
    if options.rate and options.rate != rate:
        x = audio.resample(x, rate, options.rate)
        rate = options.rate
    if options.features == "raw":
        return x
    energies = audio.log_mel(x.mean(1, dtype=np.float64), rate)
    return audio.mfcc(energies) if options.features == "mfcc" else energies.astype(np.float32)
