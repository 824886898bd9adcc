"""Train an estimator on a file, and predict the sequences of another file that has the same layout."""

import csv
import os
import warnings
from collections.abc import Callable, Mapping
from dataclasses import fields, replace
from io import TextIOWrapper
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa

from ..data.dataset import SequenceDataset
from ..data.importing.arrays import read_arrays, read_sequences
from ..data.importing.columns import FORMS, TableLayout, read_rows
from ..data.importing.divisions import visible_files
from ..data.importing.importer import import_to_memory, plan_import
from ..data.importing.long_tables import read_long
from ..data.importing.media_files import read_like
from ..data.importing.numerals import decimal_sign
from ..data.importing.options import TEXT_TABLES, ImportOptions
from ..data.importing.plan import ImportPlan, at_position, numbered
from ..data.importing.source import check_column, ending, opened, readable
from ..data.importing.tables import BATCH, PartPlaces, Table, check_regular, open_table
from ..data.importing.ts_files import read_series
from ..data.moments import BYTES
from ..data.sequences import Sequences, complaint, interpolate
from ..data.spec import SequenceSpec, Tokens
from ..data.store import StoredDataset
from ..errors import DataError, NotFinite, SpecError, join_names, nearest, printable
from ..system import files
from ..system.files import Json
from ..tasks.base import Task, load_task
from ..tasks.imported import Imported
from .base import NO_NUMBER, UNSOUND, SequenceEstimator
from .inputs import Alphabet
from .models import KINDS
from .persistence import FILE as MODEL
from .persistence import make_folder
from .predictor import ESTIMATORS

T = TypeVar("T")


def fit(
    origin: str, options: ImportOptions, settings: Mapping[str, Any], folder: Path | None = None
) -> SequenceEstimator:
    """Train an estimator on a task or a file, and store its scores on the held-out test split.

    Args:
        origin: name of a task, path of a file or folder, or hf:OWNER/NAME.
        folder: created before training, so that a model is not lost for want of a place to save it.

    Raises:
        DataError: if the data cannot be used.
        StoreError: if the folder cannot be created.
    """
    plan = None
    notes: list[str] = []
    place = os.path.expanduser(origin)
    # A folder that an earlier run of the same command has made for the model holds no data.
    made = folder is not None and os.path.abspath(place) == os.path.abspath(folder) and os.path.isdir(place)
    made = made and (not os.listdir(place) or os.path.exists(os.path.join(place, MODEL)))
    exists = origin.startswith("hf:") or (os.path.exists(place) and not made)
    if not exists and ("." not in origin or ":" in origin):  # a dot: a path that does not exist, not a task
        options.refuse_unused(f"the task {origin}", ())
        task = load_task(origin)
        data: Task | StoredDataset = task.data() if isinstance(task, Imported) else task
    else:
        if options.missing == "mask":
            raise SpecError("--missing mask adds channels that new data would lack; use fill")
        plan = plan_import(origin, options)
        data = imported = import_to_memory(plan)
        notes = imported.meta["about"]["notes"]
    if isinstance(data, StoredDataset) and isinstance(data.form.signal, Tokens):
        settings = {**settings, "signal": "text" if data.is_text else "tokens"}
    estimator = _estimator(data.form, settings)
    if folder is not None:
        if exists and os.path.realpath(place) == os.path.realpath(folder):
            raise SpecError(f"{folder} holds the data; name another folder for the model")
        make_folder(folder)
    if plan is not None:
        estimator.say(printable(_reading(plan)))
    for note in notes:
        estimator.say(printable(f"note: {note}"))
    estimator.fit(data)
    if plan is not None:
        estimator.data_facts_ |= {"source": origin}
    estimator.note_scores(estimator.task_)
    return estimator


def _reading(plan: ImportPlan) -> str:
    """Return what of a file is taken for sequences and labels, which may have been inferred."""
    read = {"label": plan.options.label} | plan.found
    known = {name: read[name] for name in ("sequence", "label", "group", "not used") if name in read}
    return "; ".join(f"{name}: {what}" for name, what in known.items())


def _estimator(form: SequenceSpec, settings: Mapping[str, Any]) -> SequenceEstimator:
    """Return the estimator for the targets of a task."""
    kind = KINDS[ESTIMATORS[form.target.kind]]
    known = {field.name for field in fields(kind)}
    everything = known.union(*({field.name for field in fields(each)} for each in KINDS.values()))
    for name, value in settings.items():
        if name not in everything:
            raise SpecError(f"there is no setting {name!r}{nearest(name, sorted(everything))}")
        if name not in known and value:
            raise SpecError(f"{name} is not for targets that are {form.target.kind}; leave it out")
    return kind().set_params(**{name: value for name, value in settings.items() if name in known})


def read_new(path: Path, estimator: SequenceEstimator) -> ImportPlan:
    """Read the sequences of a file in the layout of the training file, recording those that cannot be read.

    Raises:
        DataError: if the file cannot be read at all, or lacks a column.
    """
    with readable(path.name):
        if not path.exists():
            raise DataError(f"there is no {path}")
        check_regular(path)
        plan = _plan(path, estimator)
    found = plan.sequences
    if found.kind != "values" and found.flat.ndim > 1:
        raise DataError(f"{path.name} holds sequences of {found.flat.shape[1]} channels; tokens have none")
    if not len(found.rows):
        nothing = "there is no sequence in the file"
        raise DataError(complaint(found.wrong, found.given, _name_of(plan)) if found.wrong else nothing)
    filled = (estimator.reading_ or {}).get("missing") == "fill"
    values = found.flat if found.kind == "values" else np.zeros((0, 1))
    missing = ~np.isfinite(values) if filled else np.isnan(values)
    if missing.any():
        ends = "" if filled else ", or left out where no value follows"
        count = int(found.owners(np.asarray(missing.any(1))).sum())
        warnings.warn(
            f"{count:,} of {len(found.rows):,} sequences lack values, the first in "
            f"{plan.place(found, missing)}; these are interpolated{ends}",
            stacklevel=2,
        )
    if filled and found.kind == "values":  # at the ends as well, as in training
        found = replace(found, flat=interpolate(found.flat, found.lengths))
    return replace(plan, sequences=found.checked(estimator.offsets_.values))


def _plan(path: Path, estimator: SequenceEstimator) -> ImportPlan:
    """Return the sequences of a file as they are, and its other columns."""
    signal = estimator.predictor_.form.signal
    tokens = isinstance(signal, Tokens)
    layout = estimator.reading_
    if path.suffix.lower() in (".npy", ".npz"):
        arrays = read_arrays(path)
        if "x" not in arrays:
            raise DataError(f"{path.name} has no array 'x'")
        found = read_sequences(arrays, "tokens" if tokens else "values")
        rows = found.rows.tolist()
        return ImportPlan(found, ImportOptions(), "sequence {}".format, at_position, others={"row": rows})
    if path.suffix.lower() == ".ts":
        return read_series(path, ImportOptions(), labelled=False)
    # Of models saved before this was noted, the number of symbols tells.
    likely = "text" if signal == Tokens(BYTES) else "tokens"
    if layout is None and tokens and estimator.data_facts_.get("signal", likely) == "text":
        layout = {"form": "texts", "kind": "tokens"}
    if layout is None or layout["form"] in ("arrays", "series"):
        known = "a .ts" if layout and layout["form"] == "series" else "an .npy"
        said = "this model does not know how such a file is to be read"
        raise DataError(f"{said}; give {known} file, or ask it in Python")
    code = layout.get("encoding", "")
    if code.lower().replace("-", "") not in ("", "utf8") and _is_utf8(path):
        warnings.warn(f"{path.name} is read as UTF-8, not as {code} as in training", stacklevel=3)
        layout = layout | {"encoding": ""}
    if layout["form"] in ("texts", "recordings"):
        return read_like(path, layout, 0 if isinstance(signal, Tokens) else signal.channels)
    long = layout["form"] == "long"
    table = open_table(path, layout["encoding"], layout["header"], apart=not long)
    plan = _long(table, layout, estimator.alphabet_) if long else _table(table, layout)
    for note in table.notes():
        warnings.warn(note, stacklevel=3)
    return plan


def _is_utf8(path: Path) -> bool:
    """Return whether the text files of a path are UTF-8 throughout, and not all of them ASCII."""
    found = visible_files(path) if path.is_dir() else [path]
    beyond = 0
    for file in (file for file in found if ending(file) in (*TEXT_TABLES, ".arff")):
        try:
            with readable(file.name), TextIOWrapper(opened(file), "utf-8") as text:
                beyond += sum(not piece.isascii() for piece in iter(lambda: text.read(BATCH), ""))
        except DataError:
            return False
    return beyond > 0


def _long(table: Table, layout: Json, alphabet: Alphabet | None) -> ImportPlan:
    """Return the sequences of a long table, whose events have the numbers of training.

    An event that training lacks is the unknown symbol of the model; without one, its sequence cannot be read.
    """
    events = layout.get("events", [])
    options = ImportOptions(id=layout["id"], time=layout["time"], kind=layout["kind"])
    plan = read_long(table, options, labelled=False, events=events, values=layout["sequence"])
    found = plan.sequences
    if alphabet is None or alphabet.unknown is None:
        said = f"is not one of the {len(events):,} of training"
        wrong = {row: f"{plan.name(row)}: event {name[:40]!r} {said}" for row, name in plan.unseen.items()}
        found = found.take(~np.isin(found.rows, list(wrong)))
        return replace(plan, sequences=replace(found, wrong=plan.sequences.wrong | wrong))
    if plan.unseen:
        row, name = next(iter(plan.unseen.items()))
        said = f"{len(plan.unseen):,} of {found.given:,} sequences hold events that training lacks"
        warnings.warn(f"{said}, such as {name[:40]!r} in {plan.name(row)}; they are unknown", stacklevel=4)
    return plan


def _table(table: Table, layout: Json) -> ImportPlan:
    """Return the sequences of a table with one row for each."""
    sequence = layout["sequence"]
    for column in sequence:
        check_column(column, table.columns)
    how = TableLayout(layout["form"], sequence, layout["kind"], layout["decimal"])
    first = next(table.batches(sequence), None)
    if first is not None and how.form == "wide":
        sign = decimal_sign(first.columns, table.separator)
        how = how if sign == "?" else replace(how, decimal=sign)
    others: dict[str, list[Any]] = {name: [] for name in table.columns if name not in sequence}
    for batch in table.batches(list(others)) if others else ():
        for name in others:
            others[name] += _cells(batch[name])
    found = read_rows(table, how, wrong={})
    if isinstance(table.places, PartPlaces):
        places = [table.places.file_row(row) for row in range(found.given)]
        # A column "file" of the tables themselves stays.
        others = {"file": [name for name, _ in places]} | (others or {"row": [row for _, row in places]})
    return ImportPlan(found, ImportOptions(), table.name, how.spot, layout=layout, others=others)


def _cells(column: pa.Array) -> list[Any]:
    """Return the cells of a column, which are written beside the answers."""
    try:
        return list(column.to_pylist())
    except ValueError:  # Python has no times of nanoseconds
        return list(column.cast(pa.string()).to_pylist())


def _name_of(plan: ImportPlan) -> Callable[[int], str]:
    """Return how messages name a row: by its line, id or file where it has one."""
    named = (*FORMS, "long", "texts", "recordings", "series")
    return plan.name if not plan.layout or plan.layout["form"] in named else numbered


def check_output(new: Path, out: Path) -> None:
    """Refuse to write answers in place of the sequences.

    Raises:
        SpecError: if the output is the file of the sequences, or a file in their folder.
    """
    same = out.exists() and new.exists() and (out.samefile(new) or new.resolve() in out.resolve().parents)
    if same:
        raise SpecError(f"-o {out} would replace the sequences; name another file")


def predict(estimator: SequenceEstimator, new: ImportPlan, out: Path, skip_bad: bool) -> int:
    """Write a CSV with the columns of a file and the predictions, and return the number of unusable rows.

    Args:
        skip_bad: leave the predictions of unusable rows empty, and say why in a column "problem".

    Raises:
        DataError: naming the unusable rows, unless skip_bad.
    """
    found, table = answered(estimator, new, estimator.table, skip_bad)
    columns = dict(new.others) or {"row": list(range(found.given))}
    answers: dict[str, list[Any]] = {}
    for name, values in table.items():
        answers[name] = [""] * found.given
        for row, value in zip(found.rows.tolist(), values, strict=True):
            answers[name][row] = value
    if skip_bad:
        answers["problem"] = [found.wrong.get(row, "") for row in range(found.given)]
    if both := [name for name in answers if name in columns]:
        warnings.warn(f"the answers take the place of these columns: {join_names(both)}", stacklevel=2)
    columns |= answers
    with (
        files.explain_output_errors(out),
        files.replace_file(out) as temporary,
        temporary.open("w", newline="", encoding="utf-8") as file,
    ):
        writer = csv.writer(file)
        writer.writerow(columns)
        writer.writerows(zip(*columns.values(), strict=True))
    return len(found.wrong)


def answered(
    estimator: SequenceEstimator, new: ImportPlan, ask: Callable[[SequenceDataset], T], skip_bad: bool
) -> tuple[Sequences, T]:
    """Return the sequences for which the model gives finite numbers, and its answers.

    Args:
        ask: returns the answers for examples.

    Raises:
        DataError: naming the others, unless skip_bad; or if there are only these.
    """
    found = usable(estimator, new, skip_bad)
    try:
        return found, ask(estimator.examples(found))
    except NotFinite as error:
        unsound = np.isin(np.arange(len(found.rows)), error.places)
        wrong = dict.fromkeys(found.rows[unsound].tolist(), f"{NO_NUMBER}; {UNSOUND}")
        if not skip_bad or unsound.all():
            advice = "; --skip-bad answers the others" if not skip_bad else ""
            raise DataError(complaint(wrong, found.given, _name_of(new)) + advice) from error
    rest = replace(found.take(~unsound), wrong=found.wrong | wrong)
    return rest, ask(estimator.examples(rest))


def usable(estimator: SequenceEstimator, new: ImportPlan, skip_bad: bool) -> Sequences:
    """Return the sequences that the model accepts.

    Raises:
        DataError: naming the unusable rows, unless skip_bad; or if there is no usable row.
    """
    # Events of a long table have names, by which ``read_new`` has noted those that training lacks.
    long = new.layout is not None and new.layout["form"] == "long"
    found = estimator.readable(new.sequences, None if long else 1)
    if (found.wrong and not skip_bad) or not len(found.rows):
        advice = "; --skip-bad answers the others" if not skip_bad else ""
        raise DataError(complaint(found.wrong, found.given, _name_of(new)) + advice)
    return found
