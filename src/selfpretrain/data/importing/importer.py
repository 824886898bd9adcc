"""Import of user data: file, folder, arrays or hub to a prepared dataset with a name."""

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from ...errors import DataError, nearest
from ...registry import names
from .. import paths
from ..sequences import Sequences
from ..splits import SPLIT_NAMES
from ..store import DatasetWriter, StoredDataset, open_writer, remove_abandoned
from . import arrays
from .builder import build
from .columns import read_table
from .divisions import describes, role_of, visible_files
from .long_tables import read_long, share_events
from .media_files import read_listed, read_media
from .options import LONG, WIDE, ImportOptions
from .plan import ImportPlan
from .recordings import SOUNDS
from .source import ending, is_list, joined, readable
from .tables import SUFFIXES, Table, check_regular, hub_table, open_table
from .ts_files import read_series

HUB = "hf:"


def plan_import(origin: str, options: ImportOptions | None = None) -> ImportPlan:
    """Read a file, a folder, or ``hf:owner/name``; nothing is written.

    Raises:
        DataError: if something cannot be read, or the format is ambiguous; the message says which flag
            resolves it.
    """
    with readable(origin):
        return replace(_plan(origin, options or ImportOptions()), origin=origin)


def _plan(origin: str, options: ImportOptions) -> ImportPlan:
    if options.stride and not options.window:
        raise DataError("--stride needs --window")
    if origin.startswith(HUB):
        return _of_table(hub_table(origin.removeprefix(HUB)), options, set())
    path = Path(origin).expanduser()
    if not path.exists():
        others = sorted(p.name for p in path.parent.glob("*"))[:1000]
        raise DataError(f"there is no {origin}{nearest(path.name, others) if others else ''}")
    check_regular(path)
    files = [file for file in visible_files(path) if not describes(file)] if path.is_dir() else [path]
    suffixes = set(map(ending, files))
    if options.test:
        return _of_two(origin, options)
    if ".ts" in suffixes:
        options.refuse_unused(path.name, (".ts files",))
        return read_series(path, options)
    if path.is_dir() and (suffixes & set(SOUNDS) or suffixes & set(SUFFIXES) == {".txt"}):
        options.refuse_unused(path.name, ("recordings" if suffixes & set(SOUNDS) else "texts",))
        return read_media(path, options)
    if suffixes & {".npy", ".npz"} and path.is_file():
        advice = "; labels, groups and split are arrays of the file" if options.roles else ""
        options.refuse_unused(path.name, ("arrays",), advice)
        return arrays.plan_of_arrays(arrays.read_labelled_arrays(path), options)
    if path.is_dir() and not suffixes & set(SUFFIXES):
        known = ", ".join((*SUFFIXES, ".ts", *SOUNDS))
        raise DataError(f"{path} holds no table and no recording; known: {known}")
    return _of_table(open_table(path, options.encoding, options.header), options, suffixes)


def _of_table(table: Table, options: ImportOptions, suffixes: set[str]) -> ImportPlan:
    """Read a table, and refuse options that say nothing about it.

    Args:
        suffixes: of its files.
    """
    if table.undecided and not options.split:
        raise DataError(table.undecided)
    long = bool(options.id or options.time or options.value)
    kinds = {"tables", LONG if long else WIDE, *suffixes}
    # A table of one row per sequence may list recordings or texts, which is known when it is read.
    options.refuse_unused(table.path.name, kinds if long else kinds | {"recordings", "texts"})
    if long:
        plan = read_long(table, options)
    else:
        plan = read_table(table, options)
        if plan.sequences.kind == "text":
            plan = read_listed(table, plan)
        media = {plan.layout["form"]} if plan.layout else set()
        options.refuse_unused(table.path.name, kinds | media)
    if table.has_split and not options.split:
        plan.found["split"] = "by name"
    return plan


def _of_two(origin: str, options: ImportOptions) -> ImportPlan:
    """Read train and test sequences from files of their own, e.g. NAME_TRAIN and NAME_TEST."""
    if options.split:
        raise DataError("--test says which sequences are for testing; leave --split out")
    train = plan_import(origin, replace(options, test=""))
    test = plan_import(options.test, replace(options, test=""))
    kinds = [plan.sequences.kind for plan in (train, test)]
    if kinds[0] != kinds[1]:
        raise DataError(f"{origin} holds {kinds[0]}, {options.test} {kinds[1]}; they must be alike")
    rates = [(plan.layout or {}).get("rate", 0) for plan in (train, test)]
    if 0 not in rates and rates[0] != rates[1]:
        said = f"{options.test} has {rates[1]} samples per second, {origin} {rates[0]}"
        raise DataError(f"{said}; --rate {rates[0]} resamples")
    roles = [set(plan.sequences.columns) - {"split"} for plan in (train, test)]
    if odd := roles[0] ^ roles[1]:
        one = f"only one of {origin} and {options.test} has {min(odd)}"
        raise DataError(f"{one}; both need it, or neither")
    if len({is_list(plan.sequences.columns["label"].type) for plan in (train, test)}) > 1:
        raise DataError(f"only one of {origin} and {options.test} has lists of labels; write both alike")
    orders = [(plan.layout or {}).get("sequence", []) for plan in (train, test)]
    if orders[0] != orders[1] and sorted(orders[0]) == sorted(orders[1]):
        said = f"the columns of its sequences in another order than {origin}"
        raise DataError(f"{options.test} has {said}; order them alike")
    names = [order[0] if len(order) == 1 else "" for order in orders]
    if names[0] != names[1] and options.header and (names[0] in test.unused or names[1] in train.unused):
        one = f"sequences are column {names[0]!r} of {origin}, but {names[1]!r} of {options.test}"
        raise DataError(f"{one}; name the column in --sequence, and call it alike in both")
    wide = options.header and any(plan.layout and plan.layout["form"] == "wide" for plan in (train, test))
    if wide and (odd := set(orders[0]) ^ set(orders[1])):
        one = f"column {min(odd)!r} is a position in only one of {origin} and {options.test}"
        raise DataError(f"{one}; name the columns of both in --sequence")
    if odd := set(train.classes) ^ set(test.classes):
        raise DataError(f"column {min(odd)!r} is a label in only one of {origin} and {options.test}")
    if all(plan.layout and plan.layout["form"] == "long" for plan in (train, test)):
        train, test = share_events(train, test)
    n = int(train.sequences.rows.max(initial=-1)) + 1

    def name(row: int) -> str:
        return train.name(row) if row < n else test.name(row - n)

    tested = _with_split(test.sequences, "test")
    found = [_with_split(train.sequences, "train"), replace(tested, rows=tested.rows + n)]
    whole = joined([each for each in found if len(each.lengths)], train.sequences.kind, name)
    facts = train.found | {"split": f"test is {Path(options.test).name}"}
    notes = [*train.notes, *test.notes]
    vocab = max(train.vocab, test.vocab)
    return replace(train, sequences=whole, name=name, vocab=vocab, found=facts, notes=notes)


def _with_split(found: Sequences, split: str) -> Sequences:
    """Return sequences of this split; a division of the training file into train and val is kept."""
    if "split" not in found.columns:
        names = pa.array([split] * len(found.lengths), pa.large_string())
        return replace(found, columns={**found.columns, "split": names})
    named = found.columns["split"].unique().drop_null().to_pylist()
    if split == "test" or any(
        role_of(name) == "test" or SPLIT_NAMES.get(name.lower()) == 2 for name in named
    ):
        raise DataError("the names of the files say which are for testing; leave --test out")
    return found


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
    about = {"name": name, "origin": str(path) if path.exists() else plan.origin, "reading": plan.reading}
    return build(out, plan, about)


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
    options = options or ImportOptions()
    advice = "; labels, groups and split are arguments" if options.roles else ""
    options.refuse_unused("arrays", ("arrays",), advice)
    if y is None:
        raise DataError("y is None; give a label for each sequence, None or NaN where it is not known")
    held = arrays.join_arrays(x)
    for key, values in {"y": y, "lengths": lengths, "groups": groups, "split": split}.items():
        if values is not None:
            held[key] = arrays.of_one_type(values, key)
    if held["x"].dtype.kind == "O":
        raise DataError("x mixes kinds of things; make it an array of numbers or of strings")
    plan = arrays.plan_of_arrays(held, options)
    return import_data(replace(plan, origin="arrays"), name)


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
    stem = Path(origin.removeprefix(HUB).removesuffix(".gz")).expanduser().resolve().stem
    return re.sub(r"[^a-z0-9_]+", "-", stem.lower()).strip("-_") or "data"
