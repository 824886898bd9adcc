"""What ``fit`` should keep of several simple methods: the best, an average, or what validation decides.

    python experiments/averages.py docs/averages.tsv

Sets of the UCR archive of at most 260,000 values in training, small ones first, of which ``fit`` holds
something out. Training and test series are drawn anew, as many as in the archive and with the same shares of
classes, so that the archive's own division stays unseen; at most 1,000 series are scored. Candidates are
validated as in ``fit``, without a limit and without networks. What the table has is not measured again.
"""

import csv
import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sklearn.model_selection import train_test_split

from archive import series
from competing_kernels import accuracy, candidates, missing
from selfpretrain.estimators import leaderboard
from selfpretrain.estimators.simple import AveragePredictor, Candidate
from selfpretrain.tasks.base import load_task

MAX_VALUES = 260_000
MAX_TEST = 1000
SEED = 1000
COLUMNS = ("set", "series", "best", "average of two", "average of three", "average of all", "kept")


def drawn(name: str) -> tuple[np.ndarray, np.ndarray]:
    """Return training and test series of a set, labels first, in a division of its own."""
    train, test = load_task(f"ucr:{name}")._read()
    rows = np.concatenate([train, test])
    return train_test_split(rows, train_size=len(train), stratify=rows[:, 0], random_state=SEED)


def options(found: list[Candidate]) -> list[Any]:
    """Return the models that are compared."""
    order = [each.model for each in leaderboard.ranked(found)]
    firsts = [order[:count] for count in (2, 3, len(order))]
    some = [AveragePredictor(tuple(members), (1 / len(members),) * len(members)) for members in firsts]
    return [order[0], *some, leaderboard.judge(None, found, None, 5).kept.model]


def main() -> None:
    """Measure what the table lacks."""
    torch.set_num_threads(1)
    table = Path(sys.argv[1])
    for name in missing(table, COLUMNS, MAX_VALUES):
        train, test = drawn(name)
        y = train[:, 0]
        found = candidates(series(train[:, 1:]), y)
        if found:
            test = test[:MAX_TEST]
            x = series(test[:, 1:])
            scores = [accuracy(model, x, test[:, 0], np.unique(y)) for model in options(found)]
            with table.open("a", encoding="utf-8", newline="") as file:
                cells = (name, len(train), *(f"{score:.2f}" for score in scores))
                csv.writer(file, delimiter="\t", lineterminator="\n").writerow(cells)


if __name__ == "__main__":
    main()
