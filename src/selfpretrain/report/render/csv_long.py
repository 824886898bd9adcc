"""An experiment as CSV in long form: one line per cell and seed, numbers unrounded, scores as fractions."""

import csv
import io
from dataclasses import fields

from ..format import plain
from ..paper_numbers import PaperNumber
from ..results import ExperimentResults

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
    rows, text = results.to_rows(), io.StringIO()
    names = {name for row in rows for name in row}
    metrics = sorted(
        name for name in names - {*KNOWN, *PRINTED} if name.startswith(("test_", "train_", "val_"))
    )
    printed = PRINTED if names & set(PRINTED) else ()
    folds = ["fold"] if "fold" in names else []
    writer = csv.DictWriter(text, [*KNOWN, *folds, *metrics, *printed], restval="", lineterminator="\n")
    writer.writeheader()
    writer.writerows({name: escaped(value) for name, value in row.items()} for row in rows)
    return text.getvalue()


def escaped(value: object) -> object:
    """Numbers as they are; text in one line, with a quote before what would be a formula."""
    if not isinstance(value, str):
        return value
    text = plain(value)
    return f"'{text}" if text.startswith(FORMULA) else text
