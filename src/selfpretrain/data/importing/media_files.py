"""Folders of recordings or texts: a file is a sequence, its folder the class."""

import re
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa

from ...errors import DataError, join_names
from .. import audio
from ..splits import SPLIT_NAMES
from .options import ImportOptions
from .source import Part, Signal, Source, readable, words

SOUNDS, TEXTS = (".wav", ".flac", ".ogg"), (".txt",)
AT_ONCE = 16
"""Files per part."""


@dataclass
class MediaSource(Source):
    """A reader of files of one kind in a folder."""

    folder: Path = field(kw_only=True)
    files: list[Path] = field(kw_only=True)
    named: dict[str, list[str | None]] = field(kw_only=True)  # by role, one string per file
    options: ImportOptions = field(kw_only=True)
    rate: int = 0  # sample rate of the files so far, in Hz
    dtype: str = ""  # of samples

    def parts(self) -> Iterator[Part]:
        """Yield the files, in the order of their names."""
        self.rate, bad = 0, 0
        for at in range(0, len(self.files), AT_ONCE):
            some = range(at, min(at + AT_ONCE, len(self.files)))
            read = [self._read(self.files[i]) for i in some]
            rows = [i for i, sequence in zip(some, read, strict=True) if sequence is not None]
            bad += len(some) - len(rows)
            if bad:
                self.hints[:] = [f"{bad:,} files cannot be read and are left out"]
            if rows:
                kept = [sequence for sequence in read if sequence is not None]
                yield self._part(rows, kept)

    def _part(self, rows: list[int], sequences: list[np.ndarray]) -> Part:
        columns = {
            role: words(pa.array([named[i] for i in rows], pa.large_string()), self.changed)
            for role, named in self.named.items()
        }
        odd = next((i for i, s in enumerate(sequences) if _shape(s) != _shape(sequences[0])), None)
        if odd is not None:
            raise DataError(f"{self._name(rows[odd])}: other channels or sample format than the files before")
        self.dtype = str(sequences[0].dtype)
        lengths = np.array([len(s) for s in sequences])
        where = [self._name(i) for i in rows].__getitem__
        return Part(np.concatenate(sequences), lengths, columns, where)

    def _name(self, row: int) -> str:
        return str(self.files[row].relative_to(self.folder))

    def _read(self, file: Path) -> np.ndarray | None:
        try:
            rate, sequence = self.opened(file)
        except DataError as error:
            if self.options.skip_bad:
                return None
            raise DataError(f"{error}; --skip-bad leaves such files out") from error
        if self.rate and rate != self.rate:
            name = str(file.relative_to(self.folder))
            raise DataError(
                f"{name} has {rate} samples per second, others {self.rate}; --rate {self.rate} resamples"
            )
        self.rate = rate
        return sequence

    def opened(self, file: Path) -> tuple[int, np.ndarray]:
        """Read a file, and return its sample rate and its sequence.

        The rate is 0 if files may differ in it: texts, resampled recordings and features.

        Raises:
            DataError: if the file cannot be read.
        """
        name = str(file.relative_to(self.folder))
        with readable(name):
            if file.suffix.lower() in TEXTS:
                return 0, np.frombuffer(file.read_bytes(), np.uint8)
            rate, samples = _sound(file)
            if not len(samples):
                raise DataError(f"{name} holds no samples")
            if self.options.rate or self.options.features != "raw":
                return 0, _as_asked(rate, samples, self.options)
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
        role: [_found(role, pattern, name) for name in names] for role, pattern in options.roles.items()
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
    source = MediaSource(
        kind, 256 if texts else 0, len(files), facts, folder=folder, files=files, named=named, options=options
    )
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


def _found(role: str, pattern: str, name: str) -> str:
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
        samples, rate = _reader()(file, dtype="int16")
    if samples.dtype == np.int32:  # 24 or 32 bits, more than training uses
        samples = (samples / 2**31).astype(np.float32)
    samples = samples if samples.dtype in (np.uint8, np.int16) else samples.astype(np.float32)
    return rate, samples[:, None] if samples.ndim == 1 else samples


def _as_asked(rate: int, samples: np.ndarray, options: ImportOptions) -> np.ndarray:
    """Return (length, channels) at ``options.rate``, or (frames, features) of the mean of all channels."""
    scale = {np.dtype(np.uint8): 128.0, np.dtype(np.int16): 32768.0}.get(samples.dtype, 1.0)
    x = (samples.astype(np.float32) - 128 * (samples.dtype == np.uint8)) / np.float32(scale)
    if options.rate and options.rate != rate:
        x, rate = audio.resample(x, rate, options.rate), options.rate
    if options.features == "raw":
        return x
    energies = audio.log_mel(x.mean(1, dtype=np.float64), rate)
    return audio.mfcc(energies) if options.features == "mfcc" else energies.astype(np.float32)


def _reader() -> Callable[..., tuple[np.ndarray, int]]:
    try:
        from soundfile import read
    except ImportError as error:
        raise DataError("FLAC and OGG files need soundfile: pip install 'selfpretrain[audio]'") from error
    return read


def _shape(sequence: np.ndarray) -> tuple[object, ...]:
    return sequence.dtype, *sequence.shape[1:]
