"""Integrity checks of a prepared dataset: files by their hashes, values by their bounds.

Hashes are verified when a dataset is first used, and again if the size, time or inode of a file differs
from those recorded in ``verified.json``. Bounds are checked on every opening: compiled code relies on them.
"""

import contextlib
import hashlib
import json
import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import DamagedData, DataError, ForeignRun
from ..system.events import report_progress
from ..system.files import Json, read_json, replace_file
from . import paths
from .spec import SPLITS, ClassSets, Reals, SequenceSpec, Tokens

MEMORY = "verified.json"
KINDS = {"starts": "i8", "lengths": "i8", "split": "i1", "groups": "i8"}
"""dtypes of the columns; that of targets follows from the spec."""
REQUIRED: dict[str, type] = {"form": dict, "sha256": dict, "about": dict, "dtype": str}
REQUIRED |= {"channels": int, "packed": bool, "rows": int}
"""Required keys of ``meta.json``, and their types."""
ELSEWHERE = f"set {paths.VARIABLE} to another folder"
Columns = Mapping[str, np.ndarray]
BLOCK = 1 << 24
"""Numbers checked at a time."""


def read_meta(folder: Path, formats: tuple[int, ...] = (1,)) -> Json:
    """Read and check ``meta.json``.

    Raises:
        DamagedData: if it is missing, or not as it was written.
        DataError: if it cannot be read, or has another format version.
    """
    path = folder / "meta.json"
    with paths.explain_errors(path, "read"):
        if not path.exists():
            raise DamagedData("meta.json is not there")
    try:
        meta = read_json(path, formats, error_type=DataError, damage_error=DamagedData)
    except ForeignRun as error:
        raise DataError(str(error).replace("use another folder with --runs", ELSEWHERE)) from error
    if "seal" in meta and meta["seal"] != seal(meta):
        raise DamagedData("meta.json not as written")
    if missing := [key for key, kind in REQUIRED.items() if not isinstance(meta.get(key), kind)]:
        raise DamagedData(f"meta.json says {missing[0]} {str(meta.get(missing[0]))[:40]}")
    if unknown := set(meta["sha256"]) - {"flat", "targets", *KINDS}:
        raise DamagedData(f"meta.json says that there is {min(unknown)}")
    return meta


def seal(meta: Mapping[str, Any]) -> str:
    """Return the SHA-256 of ``meta.json`` without its seal."""
    content = {key: value for key, value in meta.items() if key != "seal"}
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def contradiction(form: SequenceSpec, meta: Mapping[str, Any], flat: np.ndarray, columns: Columns) -> str:
    """Return a description of the first inconsistency between the arrays of a dataset, or ""."""
    return _wrong_shape(form, meta, flat, columns) or next(_wrong_values(form, meta, flat, columns), "")


def _wrong_shape(form: SequenceSpec, meta: Mapping[str, Any], flat: np.ndarray, columns: Columns) -> str:
    if missing := {"starts", "lengths", "targets", "split"} - set(columns):
        return f"there is no {min(missing)}"
    for name, column in columns.items():
        shape: tuple[int, ...] = (meta["rows"],)
        if name in ("starts", "lengths"):
            shape = form.views, meta["rows"]
        elif name == "targets":
            shape = form.target.shape(meta["rows"], form.length)
        kind = KINDS.get(name, form.target.dtype)
        if column.shape != shape or column.dtype.str[1:] != kind:
            return f"{name} is {column.dtype} {column.shape}, not {np.dtype(kind)} {shape}"
    channels = 0 if isinstance(form.signal, Tokens) or meta["packed"] else form.signal.channels
    if channels != (0 if flat.ndim == 1 else flat.shape[1]):
        return f"sequences have shape {flat.shape}, not {channels or 'no'} channels"
    return ""


def _wrong_values(
    form: SequenceSpec, meta: Mapping[str, Any], flat: np.ndarray, columns: Columns
) -> Iterator[str]:
    starts = columns["starts"]
    lengths = columns["lengths"]
    targets = columns["targets"]
    if not meta["rows"]:
        return
    if lengths.min() < 0 or lengths.max() > form.length:
        yield f"lengths are {lengths.min()} to {lengths.max()}, not 0 to {form.length}"
    room = len(flat) - (np.minimum(lengths, 1) if meta["packed"] else lengths)
    if starts.min() < 0 or (starts > room).any():
        yield f"sequences start or end outside of the {len(flat):,} positions that are there"
    if columns["split"].min() < 0 or columns["split"].max() >= len(SPLITS):
        yield f"split is {columns['split'].min()} to {columns['split'].max()}"
    if isinstance(form.target, Reals):
        if np.isinf(targets).any():
            yield "targets are infinite"
        return
    highest = 1 if isinstance(form.target, ClassSets) else len(form.target.names) - 1
    if targets.size and (targets.min() < -1 or targets.max() > highest):
        yield f"targets are {targets.min()} to {targets.max()}, of {len(form.target.names)} classes"


def changed_files(folder: Path, meta: Mapping[str, Any], rehash: bool = False) -> list[str]:
    """Return the names of files that differ from what was written.

    Args:
        rehash: hash all files, also those that look unchanged since they were last verified.
    """
    known = {} if rehash else _load_file_stats(folder)
    stats = file_stats(folder, meta)
    wrong = []
    for name, sha256 in meta["sha256"].items():
        file = file_of(folder, name)
        if name in stats and stats[name] == known.get(name):
            continue
        report_progress(f"checking {folder.name}: {file.name}", 0)
        if name not in stats or file_hash(file) != sha256:
            wrong.append(file.name)
    if not wrong and stats != known:
        save_file_stats(folder, stats)
    return wrong


def file_stats(folder: Path, meta: Mapping[str, Any]) -> dict[str, list[int | str]]:
    """Return size, time, inode and expected hash of every file that exists, by name."""
    stats: dict[str, list[int | str]] = {}
    for name, sha256 in meta["sha256"].items():
        with paths.explain_errors(file_of(folder, name), "read"), contextlib.suppress(FileNotFoundError):
            stat = file_of(folder, name).stat()
            stats[name] = [stat.st_size, stat.st_mtime_ns, stat.st_ino, sha256]
    return stats


def save_file_stats(folder: Path, stats: Mapping[str, list[int | str]]) -> None:
    """Record how verified files look. If that cannot be written, they are verified again next time."""
    with contextlib.suppress(OSError), replace_file(folder / MEMORY) as temporary:
        temporary.write_text(json.dumps(stats))


def tokens_fit(form: SequenceSpec, flat: np.ndarray, meta: Mapping[str, Any]) -> bool:
    """Return whether every symbol is in the vocabulary, which val and test may extend (``symbols``)."""
    if meta["packed"] or not isinstance(form.signal, Tokens):
        return True
    symbols = max(form.signal.vocab, int(meta["about"].get("symbols", 0)))
    blocks = (flat[start : start + BLOCK] for start in range(0, len(flat), BLOCK))
    return all(block.min() >= 0 and block.max() < symbols for block in blocks)


def file_of(folder: Path, name: str) -> Path:
    """Return the file of a column, or of all sequences (``flat``)."""
    return folder / ("flat.bin" if name == "flat" else f"{name}.npy")


def file_hash(file: Path) -> str:
    """Return the SHA-256 of a file.

    Raises:
        DataError: if the file cannot be read.
    """
    with paths.explain_errors(file, "read"), file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


USUAL = ("", "auto", "refuse", "raw", None, 0, False, True)
"""Default values of import options, left out of the printed command; switches are handled separately."""


def repair_advice(folder: Path) -> str:
    """Return how to repair a damaged dataset, as text for an error message; no step deletes anything."""
    about: Mapping[str, Any] = {}
    with contextlib.suppress(DataError):
        about = read_meta(folder)["about"]
    if "task" in about:
        return f"it is made again when it is next used, or by: spt data make {about['task']}"
    if not about.get("origin"):
        return "put the files back from a copy, or import the data again under this name"
    if about["origin"] == "arrays":
        return f"import the arrays again as {folder.name!r}, or put the files back from a copy"
    options = about.get("options", {})
    changed = {key: value for key, value in options.items() if value not in USUAL}
    flags = [f"--{key.replace('_', '-')} {shlex.quote(str(value))}" for key, value in changed.items()]
    if options.get("skip_bad", False):
        flags.append("--skip-bad")
    if not options.get("header", True):
        flags.append("--no-header")
    arguments = " ".join([shlex.quote(about["origin"]), f"--name {folder.name}", *flags, "--yes"])
    return f"put the files back from a copy, or import them again: spt data import {arguments}"


def _load_file_stats(folder: Path) -> dict[str, Any]:
    try:
        known = json.loads((folder / MEMORY).read_text())
    except (OSError, ValueError, RecursionError):
        return {}
    return known if isinstance(known, dict) else {}
