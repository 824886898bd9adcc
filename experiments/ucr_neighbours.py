"""Nearest neighbours on sets of the UCR archive: its usual baselines, on its own division.

    python experiments/ucr_neighbours.py docs/ucr-neighbours.tsv ArrowHead ECG5000 [--data-root FOLDER]

Accuracy of the class of the nearest training series (all of the archive's, validation included) by Euclidean
distance and by dynamic time warping: without a limit, and with the window, of 0 to 20 % of the length, that
is best on the training series, each predicted from the others (the smallest of equally good ones). A line
per set; sets that have one are not computed again, and sets of unequal length are refused.
"""

import argparse
import os
import sys
from pathlib import Path

import numpy as np
from numba import njit

from selfpretrain.data.spec import SPLITS
from selfpretrain.tasks.ucr import SETS, Ucr

WINDOWS = range(21)
"""Windows to try, in % of the length."""
HEAD = "set\tED\tDTW\tDTW, learned window\twindow in %\n"


@njit(cache=True)
def dtw(a: np.ndarray, b: np.ndarray, window: int, best: float) -> float:
    """Return the least sum of squares over warping paths within a window; inf once it exceeds ``best``."""
    L = len(a)
    before = np.full(L + 1, np.inf)
    before[0] = 0.0
    for i in range(L):
        row = np.full(L + 1, np.inf)
        for j in range(max(0, i - window), min(L, i + window + 1)):
            row[j + 1] = (a[i] - b[j]) ** 2 + min(before[j], before[j + 1], row[j])
        if row.min() >= best:
            return np.inf
        before = row
    return before[L]


@njit(cache=True)
def nearest(queries: np.ndarray, series: np.ndarray, window: int, apart: bool) -> np.ndarray:
    """Return the (n,) index of the nearest series of every query.

    Args:
        apart: queries are the series themselves, and none is its own neighbour.
    """
    found = np.zeros(len(queries), np.int64)
    for i in range(len(queries)):
        near = np.argsort(((series - queries[i]) ** 2).sum(1))  # likely neighbours first: others end early
        best = np.inf
        for j in near:
            if apart and i == j:
                continue
            distance = dtw(queries[i], series[j], window, best)
            if distance < best or (distance == best and j < found[i]):
                best, found[i] = distance, j
    return found


def measured(name: str) -> str:
    """Return the line of a set."""
    task = Ucr(set=name)
    parts = [task.load(split) for split in SPLITS]
    if any(int(part.lengths.min()) < task.form.length for part in parts):
        sys.exit(f"error: {name} has series of unequal length")
    rows = [np.array([part.sequence(i)[:, 0] for i in range(len(part))], np.float64) for part in parts]
    x, queries = np.concatenate(rows[:2]), rows[2]
    y, truth = np.concatenate([part.targets.numpy() for part in parts[:2]]), parts[2].targets.numpy()
    spans = [round(task.form.length * percent / 100) for percent in WINDOWS]
    left_out = [(y[nearest(x, x, span, True)] == y).mean() for span in spans]
    window = WINDOWS[int(np.argmax(left_out))]
    tried = (0, task.form.length, spans[WINDOWS.index(window)])
    scores = [(y[nearest(queries, x, span, False)] == truth).mean() for span in tried]
    return "\t".join([name, *(f"{score:.4f}" for score in scores), str(window)]) + "\n"


def main() -> None:
    """Measure the sets that have no line yet."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("log", type=Path)
    parser.add_argument("sets", nargs="+", metavar="SET", choices=list(SETS))
    parser.add_argument("--data-root")
    flags = parser.parse_args()
    if flags.data_root:
        os.environ["SELFPRETRAIN_DATA"] = flags.data_root
    if not flags.log.exists():
        flags.log.write_text(HEAD, encoding="utf-8")
    known = {line.split("\t")[0] for line in flags.log.read_text(encoding="utf-8").splitlines()}
    for name in flags.sets:
        if name not in known:
            with flags.log.open("a", encoding="utf-8") as log:
                log.write(measured(name))


if __name__ == "__main__":
    main()
