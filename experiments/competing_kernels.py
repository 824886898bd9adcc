"""What competing kernels (Hydra) give ``fit`` on the UCR archive: simple methods with and without them.

    python experiments/competing_kernels.py docs/competing-kernels.tsv

Sets of at most 60,000 values in training, small ones first, of which ``fit`` holds something out. Candidates
are validated as in ``fit``, without a limit and without networks; what would be kept with and without the new
candidate is scored on the archive's test series. Sets that the table has are not measured again.
"""

import contextlib
import csv
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import torch

from archive import series
from selfpretrain import SequenceClassifier, SequenceRegressor
from selfpretrain.data.dataset import SequenceDataset
from selfpretrain.estimators import leaderboard
from selfpretrain.estimators.simple import Answering, Candidate
from selfpretrain.tasks.base import load_task
from selfpretrain.tasks.ucr import SETS

MAX_VALUES = 60_000
NEW = "ridge regression on competing kernels (Hydra)"
COLUMNS = ("set", "series", "without", "with", "alone")


def candidates(
    x: list[np.ndarray],
    y: np.ndarray,
    kind: type[SequenceClassifier | SequenceRegressor] = SequenceClassifier,
) -> list[Candidate]:
    """Return the simple methods of a fit, fitted and validated; none if there are too few series."""
    model = kind(minutes=600, random_state=0)
    found: list[Candidate] = []

    def noted(*arguments: Any) -> list[Candidate]:
        with mock.patch.object(leaderboard, "best_of", leaderboard.ranked):  # all learn from all labels
            found.extend(kind._simple_candidates(model, *arguments))
        raise InterruptedError

    vars(model)["_simple_candidates"] = noted
    with contextlib.suppress(InterruptedError):
        model.fit(x, y)
    return found


def accuracy(model: Answering, x: list[np.ndarray], y: np.ndarray, classes: np.ndarray) -> float:
    """Return the accuracy in % on series, cut to the longest of training."""
    rows = [row[: model.form.length, None].astype(np.float32) for row in x]
    data = SequenceDataset.from_sequences(rows, np.zeros(len(rows), dtype=np.int64))
    return 100 * float(np.mean(classes[model.probabilities(data).argmax(1)] == y))


def measure(name: str) -> dict[str, str] | None:
    """Return the row of a set; None if nothing is held out of it."""
    train, test = load_task(f"ucr:{name}")._read()
    y, classes = test[:, 0], np.unique(train[:, 0])
    found = candidates(series(train[:, 1:]), train[:, 0])
    if not found:
        return None
    before = [each for each in found if each.name != NEW]
    (new,) = (each for each in found if each.name == NEW)
    kept = [leaderboard.judge(None, some, None, 5).kept.model for some in (before, found)]
    scores = [accuracy(model, series(test[:, 1:]), y, classes) for model in (*kept, new.model)]
    cells = (name, str(len(train)), *(f"{score:.2f}" for score in scores))
    return dict(zip(COLUMNS, cells, strict=True))


def missing(table: Path, columns: Sequence[str], most: int) -> Iterator[str]:
    """Begin a table if it is not there, and yield the sets that it lacks, small ones first.

    Args:
        most: maximum number of values in training.
    """
    if not table.exists():
        table.write_text("\t".join(columns) + "\n", encoding="utf-8")
    with table.open(encoding="utf-8", newline="") as file:
        known = {row["set"] for row in csv.DictReader(file, delimiter="\t")}
    values = {name: int(row["train"]) * int(row["length"]) for name, row in SETS.items()}
    yield from (n for n in sorted(values, key=values.__getitem__) if n not in known and values[n] <= most)


def main() -> None:
    """Measure what the table lacks."""
    torch.set_num_threads(1)
    table = Path(sys.argv[1])
    for name in missing(table, COLUMNS, MAX_VALUES):
        row = measure(name)
        if row:
            with table.open("a", encoding="utf-8", newline="") as file:
                csv.DictWriter(file, COLUMNS, delimiter="\t", lineterminator="\n").writerow(row)


if __name__ == "__main__":
    main()
