"""Train an estimator on a file, and write its predictions for another file as CSV."""

import csv
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

from ..data.importing.importer import plan_import, take_in
from ..data.importing.options import ImportOptions
from ..data.spec import SequenceSpec
from ..errors import DataError, SpecError
from ..system import files
from ..tasks.base import Task, load_task
from .base import SequenceEstimator
from .in_memory import hold
from .inputs import Sequences, complaint, read
from .models import KINDS
from .predict_input import Asked, reading_of
from .predictor import ESTIMATORS


def fit(origin: str, options: ImportOptions, settings: Mapping[str, Any]) -> SequenceEstimator:
    """Train an estimator on a task or a file, and store its scores on the held-out test split.

    Args:
        origin: name of a task, path of a file or folder, or hf:OWNER/NAME.

    Raises:
        DataError: if the data cannot be used.
    """
    there = origin.startswith("hf:") or Path(origin).expanduser().exists()
    if there or ("." in origin and ":" not in origin):  # a dot: a path that does not exist, not a task
        if options.missing == "mask":
            raise SpecError("--missing mask adds channels that new data would lack; use fill")
        plan = plan_import(origin, options)
        data = take_in(plan)
        task: Task = hold(data)
        estimator = _for(task.form, settings)
        estimator.fit(task)
        estimator.data_facts_ |= {"source": origin}
        estimator.reading_ = reading_of(plan.source, plan.options)
    else:
        task = load_task(origin)
        estimator = _for(task.form, settings).fit(task)
    estimator.note_scores(task)
    return estimator


def _for(form: SequenceSpec, settings: Mapping[str, Any]) -> SequenceEstimator:
    kind = KINDS[ESTIMATORS[form.target.kind]]
    known = {field.name for field in fields(kind)}
    for name, value in settings.items():
        if name not in known and value:
            raise SpecError(f"{name} is not for targets that are {form.target.kind}; leave it out")
    return kind(**{name: value for name, value in settings.items() if name in known})


def answer(estimator: SequenceEstimator, asked: Asked, out: Path, skip_bad: bool) -> int:
    """Write a CSV with the columns of a file and the predictions, and return the number of unusable rows.

    Args:
        skip_bad: leave the predictions of unusable rows empty, and say why in a column "problem".

    Raises:
        DataError: naming the unusable rows, unless skip_bad.
    """
    found = readable(estimator, asked, skip_bad)
    columns: dict[str, list[Any]] = dict(asked.columns) or {"row": list(range(len(asked.rows)))}
    told = estimator.table(estimator.examples(found))
    columns |= {name: _spread(values, found) for name, values in told.items()}
    if skip_bad:
        columns["problem"] = [found.wrong.get(i, "") for i in range(found.given)]
    with files.explained(out), files.replacing(out) as temporary, temporary.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(columns)
        writer.writerows(zip(*columns.values(), strict=True))
    return len(found.wrong)


def readable(estimator: SequenceEstimator, asked: Asked, skip_bad: bool) -> Sequences:
    """Return the sequences that the model accepts.

    Raises:
        DataError: naming the unusable rows, unless skip_bad; or if there is no usable row.
    """
    found = estimator.readable(read(asked.rows, asked.kind))
    wrong = found.wrong | asked.wrong
    if wrong and not skip_bad:
        raise DataError(f"{complaint(wrong, len(asked.rows), 1)}; --skip-bad answers the others")
    if len(wrong) == len(asked.rows):
        raise DataError(complaint(wrong, len(asked.rows), 1))
    found.wrong.update(asked.wrong)
    return found


def _spread(values: list[Any], found: Sequences) -> list[Any]:
    """Return one value per row of the file, "" where there is no prediction."""
    spread: list[Any] = [""] * found.given
    for row, value in zip(found.rows.tolist(), values, strict=True):
        spread[row] = value
    return spread
