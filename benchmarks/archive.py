"""Write table and picture of docs/ucr.md from docs/archive.tsv: the default fit beside other classifiers.

    python benchmarks/archive.py

Sets that every method has are compared. Beside them stands, from docs/archive-redrawn.tsv, what a method
gets that was chosen for each set by the test series, and then trained anew. docs/ucr.md says how to measure.
"""

import csv
from collections import defaultdict
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from scipy.stats import rankdata

from tables import Table, put

DOCS = Path(__file__).resolve().parents[1] / "docs"
PAGE = DOCS / "ucr.md"
MEASURED = DOCS / "archive.tsv"
METHODS = ("fit", "MiniRocket", "QUANT", "MultiRocketHydra")
REDRAWN = "aeon's best on each set, trained anew"
LIMIT = 300  # seconds that fit has


def read(path: Path) -> dict[str, dict[str, dict[str, str]]]:
    """Return the rows by set and method, of sets that all methods have."""
    rows: dict[str, dict[str, dict[str, str]]] = defaultdict(dict)
    with path.open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file, delimiter="\t"):
            rows[row["set"]][row["method"]] = row
    return {name: found for name, found in rows.items() if set(found) == set(METHODS)}


def column(rows: dict[str, dict[str, dict[str, str]]], name: str) -> np.ndarray:
    """Return a column of numbers (sets, methods)."""
    return np.array([[float(found[method][name]) for method in METHODS] for found in rows.values()])


def summary(rows: dict[str, dict[str, dict[str, str]]]) -> Table:
    """Return a row for every method: accuracy, rank, how near it is to the best, and seconds."""
    accuracy = 100 * column(rows, "accuracy")
    ranks = rankdata(-accuracy, axis=1).mean(0)
    near = 100 * (accuracy >= accuracy.max(1, keepdims=True) - 1).mean(0)
    seconds = column(rows, "seconds to fit")
    table = [
        ["method", "accuracy", "mean rank", "within a point of the best", "seconds to fit: median", "most"]
    ]
    for at, method in enumerate(METHODS):
        middle = np.median(seconds[:, at])
        most = seconds[:, at].max()
        scores = [f"{accuracy[:, at].mean():.2f}", f"{ranks[at]:.2f}", f"{near[at]:.0f} %"]
        table.append([method, *scores, f"{middle:.0f}", f"{most:.0f}"])
    return table


def redrawn(rows: dict[str, dict[str, dict[str, str]]], path: Path) -> list[str]:
    """Return the row of methods that were chosen by the test series, with other random states."""
    best = dict(zip(rows, 100 * column(rows, "accuracy").max(1), strict=True))
    with path.open(encoding="utf-8", newline="") as file:
        found = [(row["set"], 100 * float(row["accuracy"])) for row in csv.DictReader(file, delimiter="\t")]
    near = 100 * np.mean([accuracy >= best[name] - 1 for name, accuracy in found])
    return [REDRAWN, f"{np.mean([accuracy for _, accuracy in found]):.2f}", "", f"{near:.0f} %", "", ""]


def draw(rows: dict[str, dict[str, dict[str, str]]], path: Path) -> None:
    """Draw the accuracy of fit on every set beside that of each other method."""
    accuracy = 100 * column(rows, "accuracy")
    low = accuracy.min() - 2
    figure = Figure(figsize=(9, 3.2), layout="constrained")
    axes = figure.subplots(1, 3, sharey=True)
    for axis, method, other in zip(axes, METHODS[1:], accuracy.T[1:], strict=True):
        ahead = (accuracy[:, 0] > other).sum()
        behind = (accuracy[:, 0] < other).sum()
        axis.plot([low, 101], [low, 101], color="0.8", linewidth=1, zorder=0)
        axis.scatter(other, accuracy[:, 0], s=12, color="#1f5fa8", linewidths=0)
        axis.set(xlim=(low, 101), ylim=(low, 101), xlabel=f"{method}, accuracy in %")
        axis.set_title(f"fit ahead on {ahead}, behind on {behind}", fontsize=9)
        axis.set_aspect("equal")
    axes[0].set_ylabel("fit, accuracy in %")
    figure.savefig(path, metadata={"Date": None})


def write(page: Path, rows: dict[str, dict[str, dict[str, str]]]) -> None:
    """Put the table into a page."""
    put(page, "archive", [*summary(rows), redrawn(rows, DOCS / "archive-redrawn.tsv")])


def main() -> None:
    """Write table and picture."""
    rows = read(MEASURED)
    write(PAGE, rows)
    draw(rows, DOCS / "archive.svg")
    late = (column(rows, "seconds to fit")[:, 0] > LIMIT).sum()
    print(f"{len(rows)} sets; fit later than its limit on {late}")


if __name__ == "__main__":
    main()
