"""Folders of recordings or texts: a file is a sequence, its folder the class."""

import os
import re
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa

from ...errors import DataError, join_names
from ...system.events import report_progress
from .. import audio
from ..splits import UNLABELLED
from .columns import TableSource
from .divisions import divide, folder_roles, role_of, visible_files
from .options import ImportOptions
from .recordings import SOUNDS, as_format, read_recording, sample_format, scaled
from .source import Part, Signal, Source, check_memory, is_list, joined, readable, words

TEXTS = (".txt",)
LOOKED_AT = 16  # cells that must be names of files in a table of files


@dataclass
class MediaSource(Source):
    """A reader of files of one kind in a folder."""

    folder: Path = field(kw_only=True)
    files: list[Path] = field(kw_only=True)
    named: dict[str, list[str | None]] = field(default_factory=dict)  # by role, one string per file
    options: ImportOptions = field(kw_only=True)
    rate: int = 0  # sample rate of the files so far, in Hz; 0: files may differ in it
    dtype: str = ""  # of the samples of the files so far
    channels: int = 0  # of most recordings; 0: files may differ in them, or are texts
    wanted: str = ""  # dtype to which samples are brought; "": they keep theirs

    def read(self) -> Part:
        """Read the files, in the order of their names."""
        self.rate = 0
        self.unread.clear()
        rows: list[int] = []
        sequences: list[np.ndarray] = []
        size = 0
        for row in range(len(self.files)):
            if (sequence := self._read(row)) is None:
                continue
            kind = (sequence.dtype, sequence.shape[1:])
            if sequences and kind != (sequences[0].dtype, sequences[0].shape[1:]):
                raise DataError(f"{self.name(row)}: other channels or sample format than the files before")
            size += sequence.nbytes
            check_memory(size, self.folder.name)
            rows.append(row)
            sequences.append(sequence)
            report_progress(f"read {self.folder.name}", row + 1, len(self.files))
        if not rows:
            return joined([], self.name)
        columns = {
            role: words(pa.array([names[row] for row in rows], pa.large_string()), self.changed)
            for role, names in self.named.items()
        }
        self.dtype = str(sequences[0].dtype)
        lengths = np.array([len(sequence) for sequence in sequences])
        return Part(np.concatenate(sequences), lengths, columns, np.array(rows))

    def name(self, row: int) -> str:
        """Return the path of a file, relative to the folder."""
        return str(self.files[row].relative_to(self.folder))

    def notes(self) -> list[str]:
        """Return notes on changed labels and names, and on files that cannot be read."""
        count = len(self.unread)
        return [*super().notes(), *([f"{count:,} files cannot be read and are left out"] if count else [])]

    def _read(self, row: int) -> np.ndarray | None:
        """Return the sequence of a file; with ``skip_bad``, None if it cannot be read.

        Raises:
            DataError: if it cannot be read, or has other channels or another sample rate than other files.
        """
        try:
            rate, sequence = self.open(row)
            if self.channels and sequence.shape[1] != self.channels:
                raise DataError(
                    f"{self.name(row)}: {sequence.shape[1]} channels, others have {self.channels}; convert "
                    f"it, e.g. sox {self.files[row].name} -c {self.channels} new.wav"
                )
        except DataError as error:
            if self.skip_bad:
                self.unread[row] = str(error)
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
            rate, samples = read_recording(file)
            if not len(samples):
                raise DataError(f"{name} holds no samples")
            if self.options.rate or self.options.features != "raw":
                return 0, _features(rate, samples, self.options)
            return rate, as_format(samples, self.wanted)

    def compare_formats(self) -> None:
        """Set the channels that recordings must have, and one sample format if they have several."""
        found = Counter(filter(None, map(sample_format, self.files)))
        counts = Counter({n: sum(k for (_, m), k in found.items() if m == n) for _, n in found})
        self.channels = counts.most_common(1)[0][0] if counts else 0
        formats = sorted({dtype for dtype, channels in found if channels == self.channels})
        if len(formats) > 1:
            self.wanted = "float32"
            self.hints.append(f"recordings are {' and '.join(formats)}: all are scaled to [-1, 1]")


def media_source(
    folder: Path,
    options: ImportOptions,
    files: list[Path] | None = None,
    listed: dict[str, list[str | None]] | None = None,
) -> MediaSource:
    """List the files of a folder, and take labels, groups and splits from their paths.

    The class of ``folder/yes/1.wav`` is "yes"; in ``folder/train/yes/1.wav`` the first folder is the split. A
    pattern for label, group or split is a regular expression searched in the path; its first group counts.

    Args:
        files: some files of the folder; default: all that are recordings or, if none is, texts.
        listed: labels, groups and splits of these files; default: from their paths.

    Raises:
        DataError: if there is no label, or the names of folders divide only some of the files.
    """
    hints = []
    if not files:
        files = media_in(folder)
        read = set(files)
        others = [file for file in visible_files(folder) if file not in read]
        unread = [file.relative_to(folder).as_posix() for file in others]
        hints = [f"not read: {join_names(unread, 3)}"] if unread else []
    names = [file.relative_to(folder).as_posix() for file in files]
    named = listed or {
        role: [_search(role, pattern, name) for name in names] for role, pattern in options.roles.items()
    }
    roles, classes = folder_roles(names, named.get("label"))
    if "split" not in named and any(splits := divide(names, roles)):
        named["split"] = list(splits)
    elif "split" not in named and len({role_of(name) for name in names} - {""}) > 1:
        hints.append("names of some files hold words such as train or test; --split PATTERN takes them")
    if "label" not in named:
        named["label"] = classes
    if listed is None:
        _check_found(names, roles, named, options)
    texts = files[0].suffix.lower() in TEXTS
    facts = {"files": f"{len(files):,} {'texts' if texts else 'recordings'} in {folder.name}"}
    labels = {label for label, role in zip(named["label"], roles, strict=True) if role not in UNLABELLED}
    facts["labels"] = join_names(sorted(label or "" for label in labels), 40)
    facts |= {"label": options.label or "name of the folder", "group": options.group or "none"}
    facts |= {"split": options.split or "by name" if "split" in named else "made"}
    kind: Signal = "tokens" if texts or options.kind == "tokens" else "values"
    vocab = 256 if texts else 0
    source = MediaSource(kind, vocab, len(files), facts, hints, folder=folder, files=files, options=options)
    source.named = named
    source.skip_bad = options.skip_bad
    if not texts and options.features == "raw":
        source.compare_formats()
    return source


def media_in(folder: Path) -> list[Path]:
    """Return the recordings in a folder or, if there are none, the texts.

    Raises:
        DataError: if there is neither.
    """
    found = [file for file in visible_files(folder) if file.suffix.lower() in SOUNDS + TEXTS]
    if not found:
        raise DataError(f"{folder} holds no {', '.join(SOUNDS + TEXTS)} files")
    return [file for file in found if file.suffix.lower() in SOUNDS] or found


def listed_files(table: TableSource) -> MediaSource | None:
    """Return a reader of the recordings or texts that a table names in place of texts; None if it does not.

    Raises:
        DataError: if the labels are lists.
    """
    place = table.table.path
    folder = place if place.is_dir() else place.parent

    def is_media(name: str) -> bool:
        return name.lower().endswith(SOUNDS + TEXTS) and os.path.isfile(folder / name)

    files: list[Path] = []
    listed: dict[str, list[str | None]] = {}
    for part in table.parts():
        ends = part.lengths.cumsum()[:-1]
        cells = [text.tobytes().decode(errors="replace") for text in np.split(part.flat, ends)]
        if not files and not (cells and all(map(is_media, cells[:LOOKED_AT]))):
            return None
        files += [folder / cell for cell in cells]
        for role, column in part.columns.items():
            if is_list(column.type):
                raise DataError(f"{place.name} lists files and several labels for each; give one label")
            listed.setdefault(role, []).extend(column.to_pylist())
    source = media_source(folder, table.options, files, listed)
    source.facts["files"] += f", listed in {place.name}"
    source.changed = table.changed
    return source


def _search(role: str, pattern: str, name: str) -> str | None:
    """Return the first group of a pattern in a file name; None if it finds nothing.

    Raises:
        DataError: if the pattern is invalid.
    """
    try:
        match = re.search(pattern, name)
    except re.error as error:
        raise DataError(f"--{role} {pattern} is not a regular expression: {error}") from error
    return match[1] if match and match.groups() else None


def _check_found(
    names: list[str], roles: list[str], named: dict[str, list[str | None]], options: ImportOptions
) -> None:
    """Check that every file has a label, unless it is unlabelled, and what the patterns ask for.

    Raises:
        DataError: naming the first file that has not.
    """
    for role, found in named.items():
        for name, own, value in zip(names, roles, found, strict=True):
            if value is not None or (role == "label" and own in UNLABELLED):
                continue
            if pattern := options.roles.get(role):
                raise DataError(f"{name}: --{role} {pattern} finds nothing in it, or has no parenthesis")
            raise DataError(
                f"{name} lies outside of class folders; leave such files out, or give --label PATTERN, "
                f"e.g. '^([a-z]+)_'"
            )


def _features(rate: int, samples: np.ndarray, options: ImportOptions) -> np.ndarray:
    """Return (length, channels) at ``options.rate``, or (frames, features) of the mean of all channels."""
    x = scaled(samples)
    if options.rate and options.rate != rate:
        x = audio.resample(x, rate, options.rate)
        rate = options.rate
    if options.features == "raw":
        return x
    energies = audio.log_mel(x.mean(1, dtype=np.float64), rate)
    return audio.mfcc(energies) if options.features == "mfcc" else energies.astype(np.float32)
