"""The default ``fit`` on the sets of the UCR archive, beside the classifiers of aeon with their defaults.

    python experiments/archive.py docs/archive.tsv --methods fit
    pip install aeon==1.6.0 && python experiments/archive.py docs/archive.tsv --methods MiniRocket,QUANT

Every method trains once on the archive's training series, without knowing the test series, and is scored
once on these. ``fit`` has five minutes. Gaps are interpolated; series of unequal lengths are padded with
zeros for aeon's classifiers, which take equal ones. Rows are added as they are measured, small sets first,
and those that the table has are not measured again; several processes may share a table. docs/ucr.md says
how to get the sets.
"""

import argparse
import csv
import fcntl
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from selfpretrain.tasks.base import load_task
from selfpretrain.tasks.ucr import SETS

MINUTES = 5
COLUMNS = ("set", "method", "accuracy", "seconds to fit", "of a processor", "seconds to predict", "kept")


def fit() -> Any:
    """The default ``fit`` of this package."""
    from selfpretrain import SequenceClassifier

    return SequenceClassifier(minutes=MINUTES, random_state=0)


def minirocket(random_state: int = 0) -> Any:
    from aeon.classification.convolution_based import MiniRocketClassifier

    return MiniRocketClassifier(random_state=random_state)


def multirocket_hydra(random_state: int = 0) -> Any:
    from aeon.classification.convolution_based import MultiRocketHydraClassifier

    return MultiRocketHydraClassifier(random_state=random_state)


def quant(random_state: int = 0) -> Any:
    from aeon.classification.interval_based import QUANTClassifier

    return QUANTClassifier(random_state=random_state)


METHODS: dict[str, Callable[..., Any]] = {
    "fit": fit,
    "MiniRocket": minirocket,
    "MultiRocketHydra": multirocket_hydra,
    "QUANT": quant,
}


def series(rows: np.ndarray) -> list[np.ndarray]:
    """Return rows of values without the NaN at their ends, others interpolated."""
    whole = []
    for row in rows:
        known = np.flatnonzero(~np.isnan(row))
        whole.append(np.interp(np.arange(known[-1] + 1), known, row[known]))
    return whole


def padded(rows: list[np.ndarray], length: int) -> np.ndarray:
    """Return series as (n, 1, length), cut or padded with zeros."""
    table = np.zeros((len(rows), 1, length))
    for row, values in zip(table, rows, strict=True):
        row[0, : len(values)] = values[:length]
    return table


def measure(name: str, method: str, **settings: Any) -> dict[str, str]:
    """Return the row of the table of one method on one set."""
    train, test = load_task(f"ucr:{name}")._read()
    x, x_test = series(train[:, 1:]), series(test[:, 1:])
    model = METHODS[method](**settings)
    if method != "fit":
        longest = max(map(len, x))
        x, x_test = padded(x, longest), padded(x_test, longest)
    wall, processor = time.monotonic(), time.process_time()
    model.fit(x, train[:, 0])
    fitted = time.monotonic()
    spent = time.process_time() - processor
    answers = np.asarray(model.predict(x_test)).astype(float)
    accuracy = np.mean(answers == test[:, 0])
    kept = getattr(model, "kept_", "").removeprefix("kept: ").partition(", accuracy")[0]
    seconds = (fitted - wall, spent, time.monotonic() - fitted)
    cells = (name, method, f"{accuracy:.4f}", *(f"{value:.1f}" for value in seconds), kept)
    return dict(zip(COLUMNS, cells, strict=True))


def main() -> None:
    """Measure what the table lacks."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("table", type=Path)
    parser.add_argument("--methods", default="fit")
    parser.add_argument("--sets", help="names, separated by commas; otherwise all")
    given = parser.parse_args()
    by_size = sorted(SETS, key=lambda name: int(SETS[name]["train"]) * int(SETS[name]["length"]))
    for name in given.sets.split(",") if given.sets else by_size:
        for method in given.methods.split(","):
            with given.table.open("a+", newline="") as file:
                file.seek(0)
                measured = [(row["set"], row["method"]) for row in csv.DictReader(file, delimiter="\t")]
            if (name, method) in measured:
                continue
            row = measure(name, method)
            with given.table.open("a", newline="") as file:
                fcntl.flock(file, fcntl.LOCK_EX)
                table = csv.DictWriter(file, COLUMNS, delimiter="\t", lineterminator="\n")
                if not given.table.stat().st_size:
                    table.writeheader()
                table.writerow(row)
            print(*row.values(), sep="  ", flush=True)


if __name__ == "__main__":
    main()
