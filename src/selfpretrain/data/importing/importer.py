"""Import of user data: file, folder, arrays or hub to a prepared dataset with a name."""

import re
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from ...errors import DataError, join_names, nearest
from ...registry import names
from .. import paths
from ..store import DatasetWriter, StoredDataset, open_writer, remove_abandoned
from . import arrays, ts_files
from .builder import build
from .columns import TableSource, table_source
from .divisions import role_of, visible_files
from .label_columns import LabelColumn, look_real
from .long_tables import LongSource, long_source, share_events
from .media_files import listed_files, media_source
from .options import ImportOptions
from .recordings import SOUNDS
from .source import Part, Source, is_list, joined, readable
from .tables import SUFFIXES, Table, check_regular, hub_table, open_table

HUB = "hf:"
TARGETS = {
    "classes": "one class per sequence",
    "reals": "a real number per sequence",
    "sets": "several classes per sequence, or none",
    "positions": "one class per position",
}
"""Kind of target -> what is predicted."""


@dataclass(frozen=True)
class ImportPlan:
    """Data that have been inspected, and how they will be read."""

    origin: str
    source: Source
    options: ImportOptions

    @cached_property
    def part(self) -> Part:
        """All sequences, read once; any error of a reader becomes a one-line ``DataError``."""
        with readable(self.origin):
            return self.source.read()

    def facts(self) -> dict[str, str]:
        """Return what was found, as names and descriptions.

        Raises:
            DataError: if the sequences cannot be used.
        """
        part = self.part
        if not len(part.lengths):
            raise DataError(f"{self.origin} holds no sequence")
        lengths = part.lengths
        column = LabelColumn(self.options.target, self.options.label or "label")
        labels = column.separate(part, self.source.name).columns["label"]
        labels = (labels.flatten() if is_list(labels.type) else labels).drop_null().unique().to_pylist()
        found = {"signal": self.source.kind, "sequences": f"{len(lengths):,}"}
        if self.source.kind == "values":
            found["signal"] = f"values of {part.flat.dtype}, channels: {part.flat.shape[1]}"
        found["lengths"] = f"{lengths.min():,} to {lengths.max():,}, median {int(np.median(lengths)):,}"
        target = self.options.target
        if target == "auto":
            target = "reals" if look_real(labels) else "classes"
        found["target"] = TARGETS[target]
        found["labels"] = join_names(sorted(labels), 40)
        return self.source.facts | found | self.source.facts  # those of the source win, in first place


def plan_import(origin: str, options: ImportOptions | None = None) -> ImportPlan:
    """Inspect a file, a folder, or ``hf:owner/name``, and return how to read it, judged by a sample.

    Raises:
        DataError: if the format is ambiguous; the message says which flag resolves it.
    """
    with readable(origin):
        return _plan(origin, options or ImportOptions())


def _plan(origin: str, options: ImportOptions) -> ImportPlan:
    if options.stride and not options.window:
        raise DataError("--stride needs --window")
    if origin.startswith(HUB):
        return _of_table(origin, hub_table(origin.removeprefix(HUB)), options)
    path = Path(origin).expanduser()
    if not path.exists():
        others = sorted(p.name for p in path.parent.glob("*"))[:1000]
        raise DataError(f"there is no {origin}{nearest(path.name, others) if others else ''}")
    check_regular(path)
    suffixes = {file.suffix.lower() for file in (visible_files(path) if path.is_dir() else [path])}
    if options.test:
        return _of_two(origin, options)
    if ".ts" in suffixes:
        target = options.target if options.target != "auto" else ts_files.target_kind(path)
        return ImportPlan(origin, ts_files.series_source(path, options), replace(options, target=target))
    if path.is_dir() and (suffixes & set(SOUNDS) or suffixes & set(SUFFIXES) == {".txt"}):
        return ImportPlan(
            origin, media_source(path, options), replace(options, label="label", group="", split="")
        )
    if suffixes & {".npy", ".npz"} and path.is_file():
        source = arrays.array_source(arrays.read_labelled_arrays(path), options)
        return ImportPlan(origin, source, replace(options, label="y"))
    if path.is_dir() and not suffixes & set(SUFFIXES):
        known = ", ".join((*SUFFIXES, ".ts", *SOUNDS))
        raise DataError(f"{path} holds no table and no recording; known: {known}")
    return _of_table(origin, open_table(path, options.encoding, options.header), options)


@dataclass
class OfficialSplit(Source):
    """A source whose test sequences are in files of their own."""

    train: Source = field(kw_only=True)
    test: Source = field(kw_only=True)
    n_train: int = 0  # sequences of ``train`` so far

    def read(self) -> Part:
        """Read the training sequences, then the test sequences."""
        train = self.train.read()
        self.n_train = int(train.rows.max(initial=-1)) + 1
        test = self.test.read()
        parts = [self._with_split(train, "train"), self._with_split(test, "test")]
        parts[1] = replace(parts[1], rows=test.rows + self.n_train)
        return joined([part for part in parts if len(part.lengths)], self.name)

    def _with_split(self, part: Part, split: str) -> Part:
        """Return a part of this split; a division of the training file into train and val is kept.

        Raises:
            DataError: if the names of files give another division.
        """
        if "split" not in part.columns:
            names = pa.array([split] * len(part.lengths), pa.large_string())
            return replace(part, columns=part.columns | {"split": names})
        named = {role_of(name) for name in part.columns["split"].unique().to_pylist()}
        if split == "test" or "test" in named:
            raise DataError("the names of the files say which are for testing; leave --test out")
        return part

    def name(self, row: int) -> str:
        """Return how messages name a sequence, as its own source does."""
        return self.train.name(row) if row < self.n_train else self.test.name(row - self.n_train)

    def spot(self, position: int, channel: int) -> str:
        """Return how messages name a position, as the source of train does."""
        return self.train.spot(position, channel)

    def notes(self) -> list[str]:
        """Return the notes on both sources."""
        return [*self.train.notes(), *self.test.notes()]


def _of_two(origin: str, options: ImportOptions) -> ImportPlan:
    """Plan an import whose test sequences are in a file of their own, e.g. NAME_TRAIN and NAME_TEST."""
    if options.split:
        raise DataError("--test says which sequences are for testing; leave --split out")
    plan = plan_import(origin, replace(options, test=""))
    train = plan.source
    test = plan_import(options.test, replace(options, test="")).source
    if train.kind != test.kind:
        raise DataError(f"{origin} holds {train.kind}, {options.test} {test.kind}; they must be alike")
    if isinstance(train, LongSource) and isinstance(test, LongSource):
        share_events(train, test)
    source = OfficialSplit(
        train.kind,
        max(train.vocab, test.vocab),
        train.total + test.total if train.total and test.total else 0,
        train.facts | {"split": f"test is {Path(options.test).name}"},
        [*train.hints, *test.hints],
        train=train,
        test=test,
    )
    return ImportPlan(origin, source, plan.options)


def import_data(
    origin: str | Path | ImportPlan, name: str = "", options: ImportOptions | None = None
) -> StoredDataset:
    """Read everything and store it under a name, replacing any dataset of that name.

    Args:
        origin: a file, a folder, ``hf:owner/name``, or the result of ``plan_import``.
        name: small letters, digits, - and _; by default derived from the file name.

    Raises:
        DataError: if something cannot be used; nothing is written then.
    """
    plan = origin if isinstance(origin, ImportPlan) else plan_import(str(origin), options)
    name = name or suggested_name(plan.origin)
    check_name(name)
    place = paths.writable_path(paths.IMPORTED, name)
    remove_abandoned(place.parent)
    with paths.hold_lock(place), open_writer(place) as out:
        return _filled(out, plan, name)


def import_to_memory(plan: ImportPlan) -> StoredDataset:
    """Read everything into memory, without writing to disk.

    Raises:
        DataError: if something cannot be used.
    """
    return _filled(DatasetWriter(None), plan, suggested_name(plan.origin))


def _filled(out: DatasetWriter, plan: ImportPlan, name: str) -> StoredDataset:
    path = Path(plan.origin).expanduser().absolute()
    about = {"name": name, "origin": str(path) if path.exists() else plan.origin}
    return build(out, plan.part, plan.source, plan.options, about)


def import_arrays(
    name: str,
    x: Any,
    y: Any,
    lengths: Any = None,
    groups: Any = None,
    split: Any = None,
    options: ImportOptions | None = None,
) -> StoredDataset:
    """Store arrays under a name that every command accepts as a task.

    Args:
        name: small letters, digits, - and _.
        x: (n, L) or (n, L, C) array, or a list of n arrays (length,) or (length, C), or what pandas, polars
            or torch hold instead; integers are tokens, floats values.
        y: n classes or real numbers; None, NaN, "" or masked for unlabelled sequences.
        lengths: n lengths without padding, if rows of ``x`` are padded.
        groups: n names or numbers of groups that must stay in one split.
        split: n times "train", "val" or "test".

    Raises:
        DataError: if the arrays cannot be used; nothing is written then.
    """
    check_name(name)
    held = arrays.join_arrays(x)
    for key, values in {"y": y, "lengths": lengths, "groups": groups, "split": split}.items():
        if values is not None:
            held[key] = arrays.of_one_type(values, key)
    if held["x"].dtype.kind == "O":
        raise DataError("x mixes kinds of things; make it an array of numbers or of strings")
    options = replace(options or ImportOptions(), label="y")
    return import_data(ImportPlan("arrays", arrays.array_source(held, options), options), name)


def check_name(name: str) -> None:
    """Check that a name can be used in commands.

    Raises:
        DataError: if it cannot, with the reason.
    """
    if not paths.IMPORTED_NAME.fullmatch(name):
        raise DataError(f"{name!r} cannot be a name of data; use small letters, digits, - and _")
    if name in names("tasks"):
        raise DataError(f"there is a task called {name!r} already; give the data another --name")


def suggested_name(origin: str) -> str:
    """Return a dataset name derived from the file name."""
    stem = Path(origin.removeprefix(HUB)).expanduser().resolve().stem
    return re.sub(r"[^a-z0-9_]+", "-", stem.lower()).strip("-_") or "data"


def _of_table(origin: str, table: Table, options: ImportOptions) -> ImportPlan:
    if table.undecided and not options.split:
        raise DataError(table.undecided)
    long = options.id or options.time or options.value
    source = long_source(table, options) if long else table_source(table, options)
    if table.has_split and not options.split:
        source.facts["split"] = "by name"
    if isinstance(source, TableSource) and source.form == "text" and (media := listed_files(source)):
        return ImportPlan(origin, media, source.options)
    return ImportPlan(origin, source, source.options)
