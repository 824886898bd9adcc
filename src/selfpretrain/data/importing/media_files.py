"""Folders of recordings or texts: a file is a sequence, its folder the class."""

import codecs
import os
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa

from ...errors import DataError, join_names
from ...system.events import report_progress
from ...system.files import Json
from .. import audio
from ..moments import BYTES
from ..sequences import SequenceKind, Sequences
from ..splits import UNLABELLED
from .divisions import describes, divide, folder_roles, role_of, visible_files
from .options import ImportOptions
from .plan import ImportPlan, at_position
from .recordings import SOUNDS, as_format, read_recording, sample_format, scaled
from .source import TEXTS, check_memory, is_list, notes_on, readable, words
from .tables import Table
from .text_rows import encoding_of

LOOKED_AT = 16  # cells of which most are names of files in a table of files
Wrong = dict[int, str] | None
Read = Callable[[Path], tuple[int, np.ndarray]]
"""Returns the sample rate and the sequence of a file; rate 0: files may differ in it."""


def read_media(
    folder: Path,
    options: ImportOptions,
    files: list[Path] | None = None,
    listed: dict[str, list[str | None]] | None = None,
) -> ImportPlan:
    """Read the files of a folder, and take labels, groups and splits from their paths.

    The class of ``folder/yes/1.wav`` is "yes"; in ``folder/train/yes/1.wav`` the first folder is the split. A
    pattern for label, group or split is a regular expression searched in the path; its first group counts.

    Args:
        files: some files of the folder; default: all that are recordings or, if none is, texts.
        listed: labels, groups and splits of these files; default: from their paths.

    Raises:
        DataError: if there is no label, the names of folders divide only some of the files, or a file cannot
            be read.
    """
    files = files or media_in(folder)
    named, facts, notes = _described(folder, files, options, listed)
    texts = files[0].suffix.lower() in TEXTS
    channels = 0  # 0: files may differ in them
    wanted = ""
    codes: Counter[str] = Counter()
    if not texts and options.features == "raw":
        known = Counter(filter(None, map(sample_format, files)))
        counts = Counter({n: sum(k for (_, m), k in known.items() if m == n) for _, n in known})
        channels = counts.most_common(1)[0][0] if counts else 0  # of most recordings
        formats = sorted({dtype for dtype, own in known if own == channels})
        if len(formats) > 1:
            wanted = "float32"
            notes.append(f"recordings are {' and '.join(formats)}: all are scaled to [-1, 1]")

    def open_file(file: Path) -> tuple[int, np.ndarray]:
        name = _name(file, folder)
        rate, sequence = _open(file, name, options, codes)
        if channels and sequence.shape[1] != channels:
            raise DataError(
                f"{name}: {sequence.shape[1]} channels, others have {channels}; convert it, e.g. "
                f"sox {file.name} -c {channels} new.wav"
            )
        return rate, as_format(sequence, wanted)

    kind: SequenceKind = "text" if texts else "tokens" if options.kind == "tokens" else "values"
    wrong: dict[int, str] = {}
    plan = _plan(folder, files, open_file, kind, options, wrong if options.skip_bad else None)
    changed: dict[str, str] = {}
    columns = {
        role: words(pa.array([found[row] for row in plan.sequences.rows], pa.large_string()), changed)
        for role, found in named.items()
    }
    notes += notes_on(changed)
    notes += [
        f"{count:,} of {len(files):,} texts are no UTF-8, and read as {code}"
        for code, count in codes.items()
        if count
    ]
    if wrong:
        count = f"{len(wrong):,} of {len(files):,} files"
        notes.append(f"left out, as they cannot be read: {count}, the first: {wrong[min(wrong)]}")
    found = replace(plan.sequences, columns=columns)
    options = replace(options, label="label", group="", split="")
    return replace(plan, sequences=found, options=options, found=facts, notes=notes)


def _described(
    folder: Path, files: list[Path], options: ImportOptions, listed: dict[str, list[str | None]] | None
) -> tuple[dict[str, list[str | None]], dict[str, str], list[str]]:
    """Return labels, groups and splits of files; what was found; and notes for the user."""
    notes = []
    if listed is None:
        read = set(files)
        others = [file for file in visible_files(folder) if file not in read]
        unread = [file.relative_to(folder).as_posix() for file in others]
        notes = [f"not read: {join_names(unread, 3)}"] if unread else []
    names = [_name(file, folder) for file in files]
    named = listed or {
        role: [_search(role, pattern, name) for name in names] for role, pattern in options.roles.items()
    }
    roles, classes = folder_roles(names, named.get("label"))
    if "split" not in named and any(splits := divide(names, roles)):
        named["split"] = list(splits)
    elif "split" not in named and len({role_of(name) for name in names} - {""}) > 1:
        notes.append("names of some files hold words such as train or test; --split PATTERN takes them")
    if "label" not in named:
        named["label"] = classes
    if listed is None:
        _check_found(names, roles, named, options)
    kind = "texts" if files[0].suffix.lower() in TEXTS else "recordings"
    facts = {"files": f"{len(files):,} {kind} in {folder.name}"}
    labels = {label for label, role in zip(named["label"], roles, strict=True) if role not in UNLABELLED}
    facts["labels"] = join_names(sorted(filter(None, labels)), 40)
    facts |= {"label": options.label or "name of the folder", "group": options.group or "none"}
    facts |= {"split": options.split or "by name" if "split" in named else "made"}
    return named, facts, notes


def read_like(path: Path, layout: Json, channels: int) -> ImportPlan:
    """Read a text or recording, or those of a folder, as others were read; ``wrong`` names the rest.

    Args:
        layout: of a plan that ``read_media`` returned; recordings must have its rate, and get its format.
        channels: that recordings must have; 0: any.

    Raises:
        DataError: if the path holds files of another kind.
    """
    texts = layout["form"] == "texts"
    folder, found = (path, media_in(path, described=True)) if path.is_dir() else (path.parent, [path])
    odd = [file for file in found if file.suffix.lower() not in (TEXTS if texts else SOUNDS)]
    if odd:
        wanted = f"texts ({', '.join(TEXTS)})" if texts else f"recordings ({', '.join(SOUNDS)})"
        raise DataError(f"{odd[0]}: the model takes {wanted}, or a folder of them")
    options = ImportOptions(
        rate=layout.get("resample"),
        features=layout.get("features", "raw"),
        encoding=layout.get("encoding", ""),
    )
    known = layout.get("rate", 0)

    def open_file(file: Path) -> tuple[int, np.ndarray]:
        rate, sequence = _open(file, _name(file, folder), options, Counter())
        if known and rate != known:
            raise DataError(f"it has {rate} samples per second, those of training {known}; resample it")
        if rate and options.features == "raw":
            sequence = as_format(sequence, layout["dtype"])
        if channels and sequence.shape[1] != channels:
            raise DataError(f"it has {sequence.shape[1]} channels, the model takes {channels}")
        return rate if known else 0, sequence  # 0: files may differ in it

    return _plan(folder, found, open_file, "text" if texts else layout["kind"], options, {})


def _plan(
    folder: Path, files: list[Path], read: Read, kind: SequenceKind, options: ImportOptions, wrong: Wrong
) -> ImportPlan:
    """Read files, in the order of their names.

    Args:
        wrong: records the files that cannot be read, and why; None: the first one is an error.
    """
    rows: list[int] = []
    sequences: list[np.ndarray] = []
    names = [_name(file, folder) for file in files]
    rate = size = 0
    for row, file in enumerate(files):
        try:
            own, sequence = read(file)
        except DataError as error:
            if wrong is None:
                raise DataError(f"{error}; --skip-bad leaves such files out") from error
            wrong[row] = str(error)
            continue
        if rate and own != rate:
            raise DataError(
                f"{names[row]} has {own} samples per second, others {rate}; --rate {rate} resamples"
            )
        rate = own
        if sequences and (sequence.dtype, sequence.shape[1:]) != (sequences[0].dtype, sequences[0].shape[1:]):
            raise DataError(f"{names[row]}: other channels or sample format than the files before")
        size += sequence.nbytes
        check_memory(size, folder.name)
        rows.append(row)
        sequences.append(sequence)
        report_progress(f"read {folder.name}", row + 1, len(files))
    lengths = np.array(list(map(len, sequences)), dtype=np.int64)
    flat = np.concatenate(sequences) if sequences else np.zeros(0)
    layout: Json = {"kind": "values" if kind == "values" else "tokens"}
    layout |= {"form": "texts" if kind == "text" else "recordings", "features": options.features}
    layout |= {"rate": rate, "resample": options.rate, "dtype": str(flat.dtype)}
    found = Sequences(kind, flat, lengths, np.array(rows, dtype=np.int64), wrong or {})
    vocab = BYTES if kind == "text" else 0
    name = names.__getitem__
    return ImportPlan(found, options, name, at_position, vocab, layout=layout, others={"file": names})


def _name(file: Path, folder: Path) -> str:
    """Return how messages name a file: by its path in the folder, if it is in there."""
    return (file.relative_to(folder) if file.is_relative_to(folder) else file).as_posix()


def _open(file: Path, name: str, options: ImportOptions, codes: Counter[str]) -> tuple[int, np.ndarray]:
    """Return the sample rate and the sequence of a file; rate 0 for texts and resampled files.

    Args:
        codes: counts the texts of other encodings than UTF-8.
    """
    with readable(name):
        if file.suffix.lower() in TEXTS:
            return 0, np.frombuffer(_utf8(file, name, options.encoding, codes), np.uint8)
        rate, samples = read_recording(file)
        if not len(samples):
            raise DataError(f"{name} holds no samples")
        if options.rate or options.features != "raw":
            return 0 if options.rate else rate, _features(rate, samples, options)
        return rate, samples


def _utf8(file: Path, name: str, encoding: str, codes: Counter[str]) -> bytes:
    """Return a text as UTF-8, which a string in Python becomes, too; without a byte order mark."""
    content = file.read_bytes()
    code = encoding or encoding_of(content)
    if not encoding and code == "utf-8":
        return content.removeprefix(codecs.BOM_UTF8)
    codes[code] += not encoding
    try:
        return content.decode(code).removeprefix("\ufeff").encode()
    except ValueError as error:
        raise DataError(f"{name} is not {code}; give --encoding, e.g. latin-1") from error


def media_in(folder: Path, described: bool = False) -> list[Path]:
    """Return the recordings in a folder or, if there are none, the texts.

    Args:
        described: whether texts about the data, by their names, are among them.

    Raises:
        DataError: if there is neither.
    """
    found = [
        file
        for file in visible_files(folder)
        if file.suffix.lower() in SOUNDS + TEXTS and (described or not describes(file))
    ]
    if not found:
        raise DataError(f"{folder} holds no {', '.join(SOUNDS + TEXTS)} files")
    return [file for file in found if file.suffix.lower() in SOUNDS] or found


def read_listed(table: Table, plan: ImportPlan) -> ImportPlan:
    """Return the recordings or texts that a table names in place of texts, if it does; else its plan.

    Raises:
        DataError: if the labels are lists, or a file cannot be read.
    """
    folder = table.path if table.path.is_dir() else table.path.parent

    found = plan.sequences
    ends = found.lengths.cumsum()
    cells = [text.tobytes().decode(errors="replace") for text in np.split(found.flat, ends[:-1])]
    looked_at = list(filter(None, cells[:LOOKED_AT]))
    named = [cell for cell in looked_at if cell.lower().endswith(SOUNDS + TEXTS)]
    if 2 * len(named) <= len(looked_at):
        return plan
    if not any(os.path.isfile(folder / cell) for cell in named):
        if plan.options.kind == "text":
            return plan
        raise DataError(
            f"{table.path.name} names files such as {named[0][:80]!r}, which are not in {folder}; --kind "
            f"text takes the names for text"
        )
    if is_list(found.columns["label"].type):
        raise DataError(f"{table.path.name} lists files and several labels for each; give one label")
    if (empty := cells.count("")) and plan.options.missing != "drop":
        place = table.name(int(found.rows[cells.index("")]))
        said = f"no file is named there, as in {empty:,} rows"
        raise DataError(f"{place}: {said}; --missing drop leaves them out")
    found = found.take(np.array(list(map(bool, cells))))
    files = [folder / cell for cell in cells if cell]
    listed = {role: column.to_pylist() for role, column in found.columns.items()}
    media = read_media(folder, plan.options, files, listed)
    media.found["files"] += f", listed in {table.path.name}"
    left_out = [f"{empty:,} rows that name no file are left out"] if empty else []
    return replace(media, options=plan.options, notes=[*left_out, *media.notes, *plan.notes])


def _search(role: str, pattern: str, name: str) -> str | None:
    """Return the first group of a pattern in a file name; None if it finds nothing."""
    try:
        match = re.search(pattern, name)
    except re.error as error:
        raise DataError(f"--{role} {pattern} is not a regular expression: {error}") from error
    return match[1] if match and match.groups() else None


def _check_found(
    names: list[str], roles: list[str], named: dict[str, list[str | None]], options: ImportOptions
) -> None:
    """Check that every file has a label, unless it is unlabelled, and what the patterns ask for."""
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
