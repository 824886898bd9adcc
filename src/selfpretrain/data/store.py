"""The on-disk format of datasets: reading, writing and checking.

A prepared dataset is a folder:

meta.json      format version, sequence spec, description and origin, SHA-256 of every file
flat.bin       all sequences end to end, (T,) or (T, C); or packed bytes, see ``pack_rows``
starts.npy     (views, n) where each sequence starts in flat.bin
lengths.npy    (views, n) length in positions
targets.npy    (n,) class, -1 if unlabelled; or real number, NaN if unlabelled; or (n, K) whether the example
               has each class; or (n, L) the class of every position, -1 where unknown
split.npy      (n,) 0 train, 1 val, 2 test
groups.npy     (n,) number of the patient, speaker, file ... that an example belongs to; optional

Files are memory-mapped, so that a dataset may be larger than main memory. Datasets are written atomically: to
a temporary folder next to the final one, which is renamed at the end. A writer that can resume from any row
saves a checkpoint.

Hashes and bounds are checked on every opening: compiled code relies on bounds, and results on the bits.
"""

import contextlib
import hashlib
import json
import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import torch
from pydantic import TypeAdapter

from ..errors import DamagedData, DataError, ForeignRun, Taken
from ..system.events import report_progress
from ..system.files import Json, fsync, json_bytes, read_json
from . import moments, paths
from .dataset import SequenceDataset, as_targets
from .offsets import Offsets
from .spec import SPLITS, ClassSets, Reals, SequenceSpec, Split, Tokens, Values

FORMAT = 1
PART = ".part"  # suffix of a dataset that is being written; it remains if the writer is killed
COLUMNS = ("starts", "lengths", "targets", "split", "groups")
FORM = TypeAdapter(SequenceSpec)
KINDS = {"starts": "i8", "lengths": "i8", "split": "i1", "groups": "i8"}
"""dtypes of the columns; that of targets follows from the spec."""
REQUIRED: dict[str, type] = {"form": dict, "sha256": dict, "about": dict, "dtype": str}
REQUIRED |= {"channels": int, "packed": bool, "rows": int}
"""Required keys of ``meta.json``, and their types."""
Array = np.ndarray
Columns = Mapping[str, Array]
BLOCK = 1 << 24  # numbers checked at a time


@dataclass(frozen=True)
class StoredDataset:
    """An open dataset: its spec, metadata, arrays and split."""

    form: SequenceSpec
    meta: Mapping[str, Any]
    whole: SequenceDataset
    split: np.ndarray  # (n,)

    def examples(self, split: Split) -> SequenceDataset:
        """Return the examples of one split, in the order they were written."""
        return self.whole.take(torch.from_numpy(np.flatnonzero(self.split == SPLITS.index(split))))

    def with_split(self, split: np.ndarray) -> "StoredDataset":
        """Return the same examples in other splits, with statistics measured again on the new training split.

        Args:
            split: (n,) 0, 1, 2; -1 where an example is left out.
        """
        unknown = [tuple(span) for span in self.meta["about"].get("unknown", ())]
        train = self.whole.take(torch.from_numpy(np.flatnonzero(split == 0)))
        form = moments.fit_spec(self.form, train, unknown, self.is_text)
        whole = self.whole
        if isinstance(form.signal, Values):
            whole = replace(whole, flat=moments.fill_unknown(whole.flat, unknown, form.signal))
        about = {**self.meta["about"], "val_given": False}
        meta = {**self.meta, "form": FORM.dump_python(form, mode="json"), "about": about}
        return StoredDataset(form, meta, whole, split)

    @property
    def offsets(self) -> Offsets:
        """Return what was subtracted from values and targets before they were stored."""
        return Offsets.load(self.meta.get("about", {}).get("offsets"))

    @property
    def is_text(self) -> bool:
        """Return whether symbols are bytes of text; where that was not stored, what their number says."""
        if self.form.signal != Tokens(moments.BYTES):
            return False
        about = self.meta.get("about", {})
        options = about.get("options", {})
        # Events of a long table may be as many as there are bytes.
        is_named = options.get("kind") == "tokens" or bool(options.get("id"))
        return bool(about["kind"] == "text" if "kind" in about else not is_named)

    @property
    def digest(self) -> str:
        """Return the SHA-256 of spec and files: equal datasets have equal digests in any folder."""
        content = json.dumps([self.meta["form"], self.meta["sha256"]], sort_keys=True)
        return hashlib.sha256(content.encode()).hexdigest()


@dataclass
class DatasetWriter:
    """Writes a dataset example by example, to a folder or, if ``folder`` is None, to memory."""

    folder: Path | None
    packed: bool = False
    rows: int = 0
    size: int = 0  # positions (or packed bytes) so far
    dtype: str = ""
    channels: int = 0  # 0: one symbol per position
    symbols: tuple[str, ...] | None = None  # text of each token; None: its number
    _parts: list[np.ndarray] = field(default_factory=list)
    _columns: dict[str, list[np.ndarray]] = field(default_factory=lambda: {name: [] for name in COLUMNS})
    _file: BinaryIO | None = None

    def append(self, flat: np.ndarray) -> int:
        """Append sequences, (T,) or (T, C), or packed bytes, and return where the first one starts."""
        kind = flat.dtype.str
        channels = 0 if flat.ndim == 1 else flat.shape[1]
        if not self.dtype:
            self.dtype = kind
            self.channels = channels
        if (kind, channels) != (self.dtype, self.channels):
            others = f"{self.dtype}, {self.channels}"
            raise DataError(f"sequences of {flat.dtype} in {channels} channels among {others}")
        start = self.size
        self.size += len(flat)
        if self.folder is None:
            self._parts.append(flat)
        else:
            self._file = self._file or (self.folder / "flat.bin").open("ab")
            self._file.write(np.ascontiguousarray(flat).tobytes())
        return start

    def add_examples(
        self, starts: Array, lengths: Array, targets: Array, split: Array, groups: Array | None = None
    ) -> None:
        """Define examples among the appended positions.

        Args:
            starts, lengths: (n,), or (views, n).
            split: (n,) 0, 1, 2.
        """
        columns = {"starts": np.atleast_2d(starts), "lengths": np.atleast_2d(lengths)}
        columns |= {"targets": as_targets(targets), "split": split.astype(np.int8)}
        if groups is not None:
            columns["groups"] = groups.astype(np.int64)
        for name, values in columns.items():
            self._columns[name].append(values)
        self.rows += len(targets)

    def add_packed(self, rows: np.ndarray, targets: np.ndarray, split: np.ndarray) -> None:
        """Pack and append equally long rows (n, L) of bytes, most of them zero."""
        from .rows import pack_rows

        room = np.empty(2 * rows.size, dtype=np.uint8)
        ends = np.empty(len(rows), dtype=np.int64)
        used = pack_rows(rows, room, ends)
        start = self.append(room[:used])
        starts = start + np.concatenate([[0], ends[:-1]])
        self.add_examples(starts, np.full(len(rows), rows.shape[1], dtype=np.int64), targets, split)

    def checkpoint(self) -> None:
        """Save the state, from which ``open_writer(..., resume=True)`` continues after a kill."""
        if self.folder is None:
            return
        if self._file is not None:
            self._file.flush()
            os.fsync(self._file.fileno())
        columns = {name: self._column(name) for name in COLUMNS if self._columns[name]}
        state = {key: np.array(vars(self)[key]) for key in ("rows", "size", "dtype", "channels")}
        np.savez(self.folder / "state.part.npz", allow_pickle=False, **columns, **state)
        os.replace(self.folder / "state.part.npz", self.folder / "state.npz")

    def finish(self, form: SequenceSpec, about: Mapping[str, Any] | None = None) -> StoredDataset:
        """Write all columns, the spec and the hashes, and return the finished dataset."""
        columns = {name: self._column(name) for name in COLUMNS if self._columns[name]}
        meta = {"format": FORMAT, "form": FORM.dump_python(form, mode="json"), "about": dict(about or {})}
        meta |= {"dtype": self.dtype, "channels": self.channels, "packed": self.packed, "rows": self.rows}
        meta["symbols"] = self.symbols
        if self.folder is None:
            flat = np.concatenate(self._parts)
            hashes = {"flat": hashlib.sha256(flat.tobytes()).hexdigest()}
            hashes |= {name: hashlib.sha256(values.tobytes()).hexdigest() for name, values in columns.items()}
            return _build_dataset(form, meta | {"sha256": hashes}, flat, columns)
        self.close()
        for name, values in columns.items():
            np.save(self.folder / f"{name}.npy", values, allow_pickle=False)
        hashes = {name: file_hash(self.folder / f"{name}.npy") for name in columns}
        meta["sha256"] = {"flat": file_hash(self.folder / "flat.bin")} | hashes
        (self.folder / "state.npz").unlink(missing_ok=True)
        (self.folder / "meta.json").write_bytes(json_bytes(meta))
        return _build_dataset(form, meta, *_load_arrays(self.folder, meta))

    def close(self) -> None:
        """Close ``flat.bin``."""
        if self._file is not None:
            self._file.close()

    def _column(self, name: str) -> np.ndarray:
        return np.concatenate(self._columns[name], axis=1 if name in ("starts", "lengths") else 0)

    def _restore(self) -> None:
        """Restore the last checkpoint of the folder, if any, and truncate what was written after it."""
        if self.folder is None or not (self.folder / "state.npz").is_file():
            return
        try:
            with np.load(self.folder / "state.npz", allow_pickle=False) as state:
                kept = {name: state[name] for name in state.files}
            self.rows, self.size, self.channels = (int(kept[key]) for key in ("rows", "size", "channels"))
        except Exception:  # NumPy raises many kinds of errors for a damaged file; starting over is safe
            (self.folder / "flat.bin").unlink(missing_ok=True)
            return
        self.dtype = str(kept["dtype"])
        self._columns = {name: [kept[name]] if name in kept else [] for name in COLUMNS}
        with (self.folder / "flat.bin").open("ab") as flat:
            flat.truncate(self.size * np.dtype(self.dtype).itemsize * max(self.channels, 1))


@contextmanager
def open_writer(folder: Path, packed: bool = False, resume: bool = False) -> Iterator[DatasetWriter]:
    """Yield a writer whose dataset appears at ``folder`` on success, and not at all on failure.

    The caller holds the lock of the folder (``paths.hold_lock``), so that one process writes at a time.

    Args:
        resume: continue from the checkpoint of an earlier, interrupted call.

    Raises:
        DataError: if the disk is full or the folder cannot be written.
    """
    part = folder.with_name(f"{folder.name}{PART}")
    writer = DatasetWriter(part, packed)
    try:
        with paths.explain_errors(folder):
            folder.parent.mkdir(parents=True, exist_ok=True)
            if not resume:
                shutil.rmtree(part, ignore_errors=True)
            part.mkdir(exist_ok=True)
            writer._restore()
            yield writer
            if not (part / "meta.json").is_file():
                raise DataError(f"nothing was written to {folder}")
            # Flush to disk before renaming: a crash must not leave a renamed folder with empty files.
            for file in [*part.iterdir(), part]:
                fsync(file)
            # At any time, the old dataset or the new one is complete on disk.
            old = folder.with_name(f"{folder.name}{paths.OLD}")
            if folder.exists():
                shutil.rmtree(old, ignore_errors=True)
                os.replace(folder, old)
            os.replace(part, folder)
            fsync(folder.parent)
            shutil.rmtree(old, ignore_errors=True)
    finally:
        writer.close()
        if not (resume and (part / "state.npz").is_file()):
            shutil.rmtree(part, ignore_errors=True)


def remove_abandoned(folder: Path) -> None:
    """Remove what killed imports have left in a folder of imported datasets; of running ones, nothing."""
    for part in folder.glob(f"*{PART}"):
        with contextlib.suppress(Taken), paths.hold_lock(part.with_suffix(""), stop=lambda: True):
            shutil.rmtree(part, ignore_errors=True)


def open_dataset(folder: Path) -> StoredDataset:
    """Open a prepared dataset, after its files are verified.

    Raises:
        DamagedData: if the folder holds no dataset, or a damaged one.
        DataError: if the dataset cannot be read, or has another format version.
    """
    try:
        meta = read_meta(folder)
        report_progress(f"checking {folder.name}", 0)
        hashes = {name: file_hash(file_of(folder, name)) for name in meta["sha256"]}
        if changed := [file_of(folder, name).name for name in hashes if hashes[name] != meta["sha256"][name]]:
            raise DamagedData(f"{', '.join(changed)} not as written")
        try:
            form = FORM.validate_python(meta["form"])
        except ValueError as error:
            raise DamagedData(f"meta.json says form {str(meta['form'])[:40]}") from error
        flat, columns = _load_arrays(folder, meta)
        for check in (_wrong_shapes, _wrong_values):
            if problem := next(check(form, meta, flat, columns), ""):
                raise DamagedData(problem)
    except DamagedData as error:
        raise DamagedData(f"{folder} is damaged: {error}; {_repair_advice(folder)}") from error
    return _build_dataset(form, meta, flat, columns)


def verify(folder: Path) -> StoredDataset:
    """Open a prepared dataset as ``open_dataset``, and check every symbol of its sequences as well."""
    stored = open_dataset(folder)
    signal = stored.form.signal
    if isinstance(signal, Tokens) and not stored.whole.packed:
        vocab = max(signal.vocab, int(stored.meta["about"].get("symbols", 0)))  # val and test may extend it
        for block in stored.whole.flat.split(BLOCK) if len(stored.whole.flat) else ():
            if int(block.min()) < 0 or int(block.max()) >= vocab:
                problem = "there are symbols outside of the vocabulary"
                raise DamagedData(f"{folder} is damaged: {problem}; {_repair_advice(folder)}")
    return stored


def _load_arrays(folder: Path, meta: Mapping[str, Any]) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    try:
        kind = np.dtype(meta["dtype"])
        if kind.kind not in "biuf":
            raise DamagedData(f"sequences are {kind}")
        names = [name for name in COLUMNS if name in meta["sha256"]]
        columns = {name: np.load(file_of(folder, name), mmap_mode="c") for name in names}
        flat: np.ndarray = np.memmap(file_of(folder, "flat"), dtype=kind, mode="c")
        return flat.reshape(-1, meta["channels"]) if meta["channels"] else flat, columns
    except DamagedData:
        raise
    except Exception as error:  # NumPy raises many kinds of errors for a broken header
        with paths.explain_errors(folder, "read"):
            if isinstance(error, OSError) and error.errno:
                raise
        raise DamagedData(str(error)) from error


def stored_datasets(name: str = "") -> list[Path]:
    """Return the folders of imported datasets and of prepared ones (with any settings) called ``name``."""
    patterns = (f"own/{name or '*'}/meta.json", f"prepared/{name or '*'}-*/meta.json")
    found = [meta.parent for folder in paths.folders() for p in patterns for meta in sorted(folder.glob(p))]
    return [folder for folder in found if "." not in folder.name]


def _build_dataset(form: SequenceSpec, meta: Mapping[str, Any], flat: Any, columns: Columns) -> StoredDataset:
    tensors = {name: torch.from_numpy(np.asarray(values)) for name, values in columns.items()}
    starts, lengths, targets = (tensors[name] for name in ("starts", "lengths", "targets"))
    flat = torch.from_numpy(np.asarray(flat))
    whole = SequenceDataset(flat, starts, lengths, targets, tensors.get("groups"), meta["packed"])
    return StoredDataset(form, meta, whole, columns["split"])


def read_meta(folder: Path) -> Json:
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
        otherwise = f"set {paths.VARIABLE} to another folder"
        meta = read_json(path, (FORMAT,), "", DataError, damage_error=DamagedData, otherwise=otherwise)
    except ForeignRun as error:
        raise DataError(str(error)) from error
    if missing := [key for key, kind in REQUIRED.items() if not isinstance(meta.get(key), kind)]:
        raise DamagedData(f"meta.json says {missing[0]} {str(meta.get(missing[0]))[:40]}")
    if unknown := set(meta["sha256"]) - {"flat", "targets", *KINDS}:
        raise DamagedData(f"meta.json says that there is {min(unknown)}")
    return meta


def _wrong_shapes(form: SequenceSpec, meta: Json, flat: Array, columns: Columns) -> Iterator[str]:
    if missing := {"starts", "lengths", "targets", "split"} - set(columns):
        yield f"there is no {min(missing)}"
    for name, column in columns.items():
        shape: tuple[int, ...] = (meta["rows"],)
        if name in ("starts", "lengths"):
            shape = form.views, meta["rows"]
        elif name == "targets":
            shape = form.target.shape(meta["rows"], form.length)
        kind = KINDS.get(name, form.target.dtype)
        if column.shape != shape or column.dtype.str[1:] != kind:
            yield f"{name} is {column.dtype} {column.shape}, not {np.dtype(kind)} {shape}"
    channels = 0 if isinstance(form.signal, Tokens) or meta["packed"] else form.signal.channels
    if channels != (0 if flat.ndim == 1 else flat.shape[1]):
        yield f"sequences have shape {flat.shape}, not {channels or 'no'} channels"


def _wrong_values(form: SequenceSpec, meta: Json, flat: Array, columns: Columns) -> Iterator[str]:
    if not meta["rows"]:
        return
    starts, lengths, targets = (columns[name] for name in ("starts", "lengths", "targets"))
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


def file_of(folder: Path, name: str) -> Path:
    """Return the file of a column, or of all sequences (``flat``)."""
    return folder / ("flat.bin" if name == "flat" else f"{name}.npy")


def file_hash(file: Path) -> str:
    """Return the SHA-256 of a file; "" if there is no such file."""
    with paths.explain_errors(file, "read"):
        if not file.exists():
            return ""
        with file.open("rb") as stream:
            return hashlib.file_digest(stream, "sha256").hexdigest()


def _repair_advice(folder: Path) -> str:
    """Return how to repair a damaged dataset, as text for an error message; no step deletes anything."""
    about: Mapping[str, Any] = {}
    with contextlib.suppress(DataError):
        about = read_meta(folder)["about"]
    if "task" in about:
        return f"it is made again when it is next used, or by: selfpretrain data make {about['task']}"
    origin = about.get("origin", "the data")
    return (
        f"put the files back from a copy, or import {origin} again under this name (selfpretrain data import)"
    )
