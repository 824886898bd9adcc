"""A folder of recordings or texts: one file is one sequence, its folder is its class."""

import re
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa

from ...errors import DataError
from ...spec import offered
from ..splits import SPLIT_NAMES
from .options import ImportOptions
from .source import Part, Signal, Source, readable, words

SOUNDS, TEXTS = (".wav", ".flac", ".ogg"), (".txt",)
AT_ONCE = 16
"""Files that are handed on at a time."""


@dataclass
class MediaSource(Source):
    """Files of one kind under a folder."""

    folder: Path = field(kw_only=True)
    files: list[Path] = field(kw_only=True)
    said: dict[str, list[str | None]] = field(kw_only=True)  # label, group, split: one word per file
    skip_bad: bool = False
    _rate: int = 0

    def parts(self) -> Iterator[Part]:
        """The files, in the order of their names."""
        self._rate, bad = 0, 0
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
            role: words(pa.array([said[i] for i in rows], pa.large_string()), self.changed)
            for role, said in self.said.items()
        }
        odd = next((i for i, s in enumerate(sequences) if _shape(s) != _shape(sequences[0])), None)
        if odd is not None:
            raise DataError(f"{self._name(rows[odd])}: other channels or sample format than the files before")
        lengths = np.array([len(s) for s in sequences])
        where = partial(_chosen, [self._name(i) for i in rows])
        return Part(
            np.concatenate(sequences),
            lengths,
            columns["label"],
            columns.get("group"),
            columns.get("split"),
            where,
        )

    def _name(self, row: int) -> str:
        return str(self.files[row].relative_to(self.folder))

    def _read(self, file: Path) -> np.ndarray | None:
        name = str(file.relative_to(self.folder))
        try:
            with readable(name):
                if file.suffix.lower() in TEXTS:
                    return np.frombuffer(file.read_bytes(), np.uint8)
                rate, samples = _sound(file)
        except DataError as error:
            if self.skip_bad:
                return None
            raise DataError(f"{error}; --skip-bad leaves such files out") from error
        if self._rate and rate != self._rate:
            raise DataError(f"{name} has {rate} samples per second, others {self._rate}; resample it")
        self._rate = rate
        return samples


def media_source(folder: Path, options: ImportOptions) -> MediaSource:
    """Which files there are, and what their names say.

    The class of ``folder/yes/1.wav`` is "yes"; in ``folder/train/yes/1.wav`` the first folder is the split. A
    pattern for label, group or split is a regular expression whose first parenthesis is searched in the path.

    Raises:
        DataError: if no label is to be found.
    """
    found = sorted(f for f in folder.rglob("*") if f.suffix.lower() in SOUNDS + TEXTS and f.is_file())
    files = [f for f in found if f.suffix.lower() in SOUNDS] or found
    if not files:
        raise DataError(f"{folder} holds no {', '.join(SOUNDS + TEXTS)} files")
    names = [f.relative_to(folder).as_posix() for f in files]
    parts = [name.split("/") for name in names]
    by_split = (
        all(len(p) > 1 and p[0].lower() in SPLIT_NAMES for p in parts) and len({p[0] for p in parts}) > 1
    )
    said: dict[str, list[str | None]] = {}
    for role in ("label", "group", "split"):
        pattern = {"label": options.label, "group": options.group, "split": options.split}[role]
        if pattern:
            said[role] = [_found(role, pattern, name) for name in names]
    if by_split:
        said.setdefault("split", [p[0].lower() for p in parts])
    if "label" not in said:
        depth = 1 if by_split else 0
        if any(len(p) < depth + 2 for p in parts):
            raise DataError(
                f"{folder} has files outside of class folders; give --label PATTERN, e.g. '^([a-z]+)_'"
            )
        said["label"] = [p[depth] for p in parts]
    texts = files[0].suffix.lower() in TEXTS
    facts = {"files": f"{len(files):,} {'texts' if texts else 'recordings'} in {folder.name}"}
    facts["labels"] = offered(sorted({label or "" for label in said["label"]}), 5)
    facts |= {"label": options.label or "name of the folder", "group": options.group or "none"}
    facts |= {"split": "by name" if "split" in said else "made"}
    kind: Signal = "tokens" if texts or options.kind == "tokens" else "values"
    return MediaSource(
        kind,
        256 if texts else 0,
        len(files),
        facts,
        folder=folder,
        files=files,
        said=said,
        skip_bad=options.skip_bad,
    )


def _found(role: str, pattern: str, name: str) -> str:
    try:
        match = re.search(pattern, name)
    except re.error as error:
        raise DataError(f"--{role} {pattern} is no regular expression: {error}") from error
    if not match or not match.groups():
        raise DataError(f"{name}: --{role} {pattern} finds nothing in it, or has no parenthesis")
    return match[1]


def _sound(file: Path) -> tuple[int, np.ndarray]:
    """Samples per second, and (length, channels): bytes, 16-bit integers or floats in [-1, 1]."""
    if file.suffix.lower() == ".wav":
        from scipy.io import wavfile

        with warnings.catch_warnings():
            warnings.simplefilter(
                "ignore", wavfile.WavFileWarning
            )  # chunks besides the samples are no matter
            rate, samples = wavfile.read(file)
    else:
        samples, rate = _reader()(file, dtype="int16")
    if samples.dtype == np.int32:  # 24 and 32 bits: more than training reads
        samples = (samples / 2**31).astype(np.float32)
    samples = samples if samples.dtype in (np.uint8, np.int16) else samples.astype(np.float32)
    return rate, samples[:, None] if samples.ndim == 1 else samples


def _reader() -> Callable[..., tuple[np.ndarray, int]]:
    try:
        from soundfile import read
    except ImportError as error:
        raise DataError("FLAC and OGG files need soundfile: pip install 'selfpretrain[audio]'") from error
    return read


def _shape(sequence: np.ndarray) -> tuple[object, ...]:
    return sequence.dtype, *sequence.shape[1:]


def _chosen(names: list[str], i: int) -> str:
    return names[i]
