"""Models and files: trained on a table, asked about another, answered row by row in the same order."""

import csv
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from ..data.importing.arrays import read_arrays
from ..data.importing.columns import TableSource
from ..data.importing.csv_files import Piece, TableFile
from ..data.importing.importer import plan_import, take_in
from ..data.importing.options import ImportOptions
from ..data.importing.source import chosen
from ..data.importing.table_files import open_table
from ..data.schema import Classes, Form, Tokens
from ..errors import DataError, SpecError
from ..system import files
from ..tasks.base import Task, load_task
from .base import SequenceEstimator
from .classifier import SequenceClassifier
from .given import hold
from .regressor import SequenceRegressor
from .sequences import Sequences, complaint, read

Rows = list[Any]
ARRAYS = (".npy", ".npz")


@dataclass(frozen=True)
class Asked:
    """What a file asks: a sequence per row, and what else stands there."""

    rows: Rows
    kind: Any  # text, tokens or values
    columns: dict[str, list[Any]] = field(default_factory=dict)  # everything but the sequences
    wrong: dict[int, str] = field(default_factory=dict)  # rows whose cells cannot be read


def fit(origin: str, options: ImportOptions, settings: Mapping[str, Any]) -> SequenceEstimator:
    """A model of a task, by its name, or of a file; scored on the test split, which training has not seen.

    Raises:
        DataError: if the data cannot be used.
    """
    there = origin.startswith("hf:") or Path(origin).expanduser().exists()
    if there or ("." in origin and ":" not in origin):  # no task is called so: it is a file that is missing
        if options.missing == "mask":
            raise SpecError("--missing mask adds channels that new data would lack; use fill")
        plan = plan_import(origin, options)
        data = take_in(plan)
        task: Task = hold(data)
        estimator = _for(task.form, settings)
        estimator.fit(task)
        estimator.data_facts_ |= {"source": origin}
        if isinstance(plan.source, TableSource):
            source = plan.source
            estimator.reading_ = {"sequence": source.sequence, "form": source.form, "kind": source.kind}
            estimator.reading_ |= {"encoding": options.encoding}
    else:
        task = load_task(origin)
        estimator = _for(task.form, settings).fit(task)
    estimator.note_scores(task)
    return estimator


def _for(form: Form, settings: Mapping[str, Any]) -> SequenceEstimator:
    if isinstance(form.target, Classes):
        return SequenceClassifier(**settings)
    for name, value in {"class_weight": None, "calibrate": False, "label_smoothing": 0.0}.items():
        if settings.get(name, value) != value:
            raise SpecError(f"{name} is for classes, but the labels are real numbers")
    return SequenceRegressor(**{k: v for k, v in settings.items() if k not in ("class_weight", "calibrate")})


def open_file(path: Path, estimator: SequenceEstimator) -> Asked:
    """The sequences of a file, as the model's own were read; a row that cannot be read is named, not lost.

    Raises:
        DataError: if the file cannot be read at all, or lacks a column.
    """
    if not path.exists():
        raise DataError(f"there is no {path}")
    if path.suffix in ARRAYS:
        x = np.load(path, allow_pickle=False) if path.suffix == ".npy" else read_arrays(path)["x"]
        symbols = isinstance(estimator.predictor_.form.signal, Tokens)
        return Asked(list(x), "tokens" if symbols else "values")
    if (reading := estimator.reading_) is None:
        raise DataError(
            "this model does not know the columns of a table: it was not made by spt fit from one; give an "
            ".npy file, or ask it in Python"
        )
    table = open_table(path, reading["encoding"])
    for column in reading["sequence"]:
        chosen(column, table.columns)
    source = TableSource(
        reading["kind"],
        table=table,
        options=ImportOptions(),
        sequence=list(reading["sequence"]),
        form=reading["form"],
    )
    return _of_table(table, source)


def _of_table(table: TableFile, source: TableSource) -> Asked:
    others = [column for column in table.columns if column not in source.sequence]
    asked = Asked([], "text" if source.form == "text" else source.kind, {name: [] for name in others})
    for piece in table.pieces(table.columns):
        for i, (row, why) in enumerate(_rows(source, piece), start=len(asked.rows)):
            asked.rows.append(row)
            if why:
                asked.wrong[i] = why
        for name in others:
            asked.columns[name] += piece[name].to_pylist()
    return asked


def _rows(source: TableSource, piece: Piece) -> Iterator[tuple[Any, str]]:
    """Every sequence of some rows, or what is wrong with it."""
    held = {column: piece[column] for column in source.sequence}
    n = len(held[source.sequence[0]])
    try:
        flat, lengths = source.sequences(held, lambda i: "")
    except DataError as error:
        if n == 1:
            yield None, str(error).removeprefix(": ")
        for i in range(n if n > 1 else 0):
            yield from _rows(source, {column: cells.slice(i, 1) for column, cells in held.items()})
        return
    for end, length in zip(lengths.cumsum().tolist(), lengths.tolist(), strict=True):
        row = flat[end - length : end]
        yield (row.tobytes() if source.form == "text" else row) if length else None, ""


def answer(estimator: SequenceEstimator, asked: Asked, out: Path, skip_bad: bool) -> int:
    """Write a CSV with what stood in every row, prediction and probabilities; how many rows have none.

    Raises:
        DataError: naming the rows that cannot be answered, unless these are to be skipped.
    """
    found = readable(estimator, asked, skip_bad)
    columns: dict[str, list[Any]] = dict(asked.columns) or {"row": list(range(len(asked.rows)))}
    columns |= {name: _spread(values, found) for name, values in _answers(estimator, found).items()}
    if skip_bad:
        columns["problem"] = [found.wrong.get(i, "") for i in range(found.given)]
    with files.explained(out), files.replacing(out) as temporary, temporary.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(columns)
        writer.writerows(zip(*columns.values(), strict=True))
    return len(found.wrong)


def readable(estimator: SequenceEstimator, asked: Asked, skip_bad: bool) -> Sequences:
    """The rows that can be answered.

    Raises:
        DataError: naming those that cannot, unless these are to be skipped.
    """
    found = estimator.readable(read(asked.rows, asked.kind))
    wrong = found.wrong | asked.wrong
    if wrong and not skip_bad:
        raise DataError(f"{complaint(wrong, len(asked.rows), 1)}; --skip-bad answers the others")
    if len(wrong) == len(asked.rows):
        raise DataError(complaint(wrong, len(asked.rows), 1))
    found.wrong.update(asked.wrong)
    return found


def _answers(estimator: SequenceEstimator, found: Sequences) -> dict[str, list[Any]]:
    data: Any = estimator.examples(found)
    if isinstance(estimator, SequenceClassifier):
        chances = estimator.predict_proba(data)
        names = [f"p({name})" for name in estimator.classes_]
        best = estimator.classes_[chances.argmax(1)].tolist()
        return {"prediction": best} | dict(zip(names, chances.T.tolist(), strict=True))
    if isinstance(estimator, SequenceRegressor):
        return {"prediction": estimator.predict(data).tolist()}
    raise SpecError("this model predicts nothing: spt model embed gives the vectors of its sequences")


def _spread(values: list[Any], found: Sequences) -> list[Any]:
    """Answers at the rows they belong to, and nothing where there is none."""
    spread: list[Any] = [""] * found.given
    for row, value in zip(found.rows.tolist(), values, strict=True):
        spread[row] = value
    return spread
