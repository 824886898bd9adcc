"""An experiment as CSV in long form: one line per cell and seed, numbers unrounded, scores as fractions."""

import csv
import io
from dataclasses import asdict, fields

from ..format import plain
from ..paper_numbers import PaperNumber
from ..results import CellResult, ExperimentResults, TaskResults

KNOWN = (
    "study", "task", "row", "column", "seed", "state", "score", "parameters", "flops", "seconds",
    "steps", "epochs", "best_step", "stopped", "stage", "stages",
)  # fmt: skip
"""Columns that every file has; ``flops`` and ``seconds`` count all stages, the rest only the scored one."""

PRINTED = tuple(f"printed_{field.name}" for field in fields(PaperNumber))
"""Columns of files with numbers of papers."""
FORMULA = ("=", "+", "-", "@")
"""What a spreadsheet would take for the beginning of something to be worked out."""


def document(results: ExperimentResults) -> str:
    """The text of the file; metrics follow the known columns as ``test_NAME`` and ``val_NAME``.

    Last, where a paper printed a number for some cell, come that number and its place.
    """
    metrics, text = _metrics(results.cells), io.StringIO()
    printed = PRINTED if any(cell.printed for cell in results.cells) else ()
    writer = csv.DictWriter(text, [*KNOWN, *metrics, *printed], restval="", lineterminator="\n")
    writer.writeheader()
    for task in results.tasks:
        for cell in task.cells:
            line = {"study": results.record.name} | _line(task, cell, metrics)
            writer.writerow({name: escaped(value) for name, value in line.items()})
    return text.getvalue()


def escaped(value: object) -> object:
    """Numbers as they are; text in one line, with a quote before what would be a formula."""
    if not isinstance(value, str):
        return value
    text = plain(value)
    return f"'{text}" if text.startswith(FORMULA) else text


def _metrics(cells: list[CellResult]) -> dict[str, tuple[str, str]]:
    """Names of metrics, with the split and the name in the result."""
    found = {
        (split, name)
        for cell in cells
        if cell.finished
        for split, scores in cell.scored.scores.items()
        for name in scores
    }
    return {f"{split}_{name}": (split, name) for split, name in sorted(found)}


def _line(task: TaskResults, cell: CellResult, metrics: dict[str, tuple[str, str]]) -> dict[str, object]:
    line: dict[str, object] = {
        "task": task.record.task.name,
        "row": cell.row,
        "column": cell.column,
        "seed": cell.seed,
        "state": "finished" if cell.finished else "missing",
        "stage": cell.record.stages[-1],
        "stages": " ".join(cell.record.stages),
    }
    if cell.printed:
        line |= {f"printed_{name}": value for name, value in asdict(cell.printed).items()}
    if not cell.finished:
        return line
    scored = cell.scored
    line |= {
        "score": "" if cell.score is None else cell.score,
        "parameters": scored.cost.parameters,
        "flops": cell.flops,
        "seconds": cell.seconds,
        "steps": scored.steps,
        "epochs": scored.epochs,
        "best_step": scored.best_step,
        "stopped": scored.stopped,
    }
    return line | {key: scored.scores.get(split, {}).get(name, "") for key, (split, name) in metrics.items()}
