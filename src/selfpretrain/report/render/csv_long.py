"""Render an experiment as a long CSV: one row per cell and seed, numbers unrounded, scores as fractions."""

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
"""Columns of every file; ``flops`` and ``seconds`` are sums over all stages, the rest of the scored one."""

SOMETIMES = ("fold", "design")
"""Further columns of cross-validation, and of designs that add seeds: the first and last number of seeds."""

PRINTED = tuple(f"printed_{field.name}" for field in fields(PaperNumber))
"""Further columns if a paper printed a number for some cell."""
FORMULA = ("=", "+", "-", "@")  # first characters that make a spreadsheet interpret text as a formula


def document(results: ExperimentResults) -> str:
    """Return the CSV text: the known columns, metrics as ``test_NAME`` (val, train), paper numbers."""
    rows = results.to_rows()
    text = io.StringIO()
    names = {name for row in rows for name in row}
    others = names - {*KNOWN, *PRINTED}
    metrics = sorted(name for name in others if name.startswith(("test_", "train_", "val_")))
    printed = PRINTED if names & set(PRINTED) else ()
    sometimes = [name for name in SOMETIMES if name in names]
    header = [*KNOWN, *sometimes, *metrics, *printed]
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(map(escaped, header))
    writer.writerows([escaped(row.get(name, "")) for name in header] for row in rows)
    return text.getvalue()


def escaped(value: object) -> object:
    """Return numbers unchanged and text in one line, quoted if a spreadsheet would run it as a formula."""
    if not isinstance(value, str):
        return value
    text = plain(value)
    return f"'{text}" if text.startswith(FORMULA) else text
