"""Studies as CSV in long form: one line per cell and seed, numbers unrounded, scores as fractions."""

import csv
import io
from collections.abc import Sequence
from dataclasses import asdict, fields

from ..old_results import Cell, Printed, Study

KNOWN = (
    "study", "task", "row", "column", "seed", "state", "score", "parameters", "flops", "seconds",
    "steps", "epochs", "best_step", "stopped", "stage", "stages",
)  # fmt: skip
"""Columns that every file has; ``flops`` and ``seconds`` count all stages, the rest only the scored one."""

PRINTED = tuple(f"printed_{field.name}" for field in fields(Printed))
"""Columns of files with numbers of papers."""


def document(*studies: Study) -> str:
    """The text of the file; metrics follow the known columns as ``test_NAME`` and ``val_NAME``.

    Last, where a paper printed a number for some cell, come that number and its place.
    """
    metrics, text = _metrics(studies), io.StringIO()
    printed = PRINTED if any(cell.printed for study in studies for cell in study.cells) else ()
    writer = csv.DictWriter(text, [*KNOWN, *metrics, *printed], restval="", lineterminator="\n")
    writer.writeheader()
    writer.writerows(_line(study, cell, metrics) for study in studies for cell in study.cells)
    return text.getvalue()


def _metrics(studies: Sequence[Study]) -> dict[str, tuple[str, str]]:
    """Names of metrics, with the split and the name in the result."""
    found = {
        (split, name)
        for study in studies
        for cell in study.cells
        if cell.finished
        for split, scores in cell.scored.scores.items()
        for name in scores
    }
    return {f"{split}_{name}": (split, name) for split, name in sorted(found)}


def _line(study: Study, cell: Cell, metrics: dict[str, tuple[str, str]]) -> dict[str, object]:
    line: dict[str, object] = {
        "study": study.plan.study,
        "task": study.plan.task.name,
        "row": cell.row,
        "column": cell.column,
        "seed": cell.seed,
        "state": "finished" if cell.finished else "missing",
        "stage": cell.paths[-1],
        "stages": " ".join(cell.paths),
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
