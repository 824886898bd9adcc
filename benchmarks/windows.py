"""Pictures and tables of docs/windows.tsv: scores against learning rates, and widths of the windows of rates.

    python experiments/learning_rates.py docs/windows.tsv
    python benchmarks/windows.py docs/windows.tsv [--page PAGE]

Rule, written down before any run. A score is the mean of two seeds on validation, interpolated linearly in
the logarithm of the rate. The window of an architecture and an arm is where it is within 5 points of a
reference, and its width the length of that range in octaves (factors of two), from the lowest to the highest
rate tried. With two references: *own*, the best score of that architecture and arm, and *common*, the best of
the architecture with either arm; if an arm never comes near that, its window is empty. A network that learns
nothing has the same score at all rates, and therefore the widest own window: architectures of which an arm is
less than 10 points above chance at its best rate are left out of those. Still, 5 points are a larger share of
what a weak arm has learnt, so own windows are in its favour. Common windows are of all architectures.
Differences, SPT minus matched scratch, are means over architectures with a 95 % bootstrap
interval over architectures.

The picture windows-TASK.svg has a panel per architecture. Tables are printed, or written between the marks
``windows-summary`` and ``windows`` of a page.
"""

import argparse
import csv
from collections import defaultdict
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from tables import Table, put, written

WITHIN = 5.0
"""Points below the reference that a window may be."""
LEARNT = 10.0
"""Points above chance from which an architecture has learnt."""
DRAWS = 10_000
MATCHED = "scratch (matched)"
SPT = "SPT"
COLOURS = {MATCHED: "0.45", SPT: "#1f5fa8"}
PANELS = 6  # in a row of a picture

Curve = dict[float, list[float]]
"""Learning rate -> scores in points, one per seed."""
Curves = dict[str, dict[str, Curve]]
"""Architecture -> arm -> curve."""


def read(path: Path) -> tuple[dict[str, Curves], dict[str, float]]:
    """Return the curves and the chance level of every task."""
    curves: dict[str, Curves] = defaultdict(
        lambda: defaultdict(lambda: defaultdict(lambda: defaultdict(list)))
    )
    chance = {}
    with path.open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file, delimiter="\t"):
            curve = curves[row["task"]][row["row"]][row["column"]]
            curve[float(row["lr"])].append(100 * float(row["validation"]))
            chance[row["task"]] = 100 * float(row["chance"])
    return curves, chance


def means(curve: Curve) -> tuple[np.ndarray, np.ndarray]:
    """Return the base-2 logarithms of the rates, ascending, and the mean scores."""
    rates = sorted(curve)
    return np.log2(rates), np.array([np.mean(curve[rate]) for rate in rates])


def best(curve: Curve) -> float:
    """Return the best mean score."""
    return float(means(curve)[1].max())


def width(curve: Curve, reference: float) -> float:
    """Return the length, in octaves, of the rates whose score is within 5 points of a reference."""
    octaves, scores = means(curve)
    above = scores - (reference - WITHIN)
    low, high = np.minimum(above[:-1], above[1:]), np.maximum(above[:-1], above[1:])
    # The share of a line from low to high that is above zero.
    share = np.where(low >= 0, 1.0, high.clip(min=0) / np.where(low < 0, high - low, 1).clip(min=1e-12))
    return float(np.sum(share.clip(max=1) * np.diff(octaves)))


def widths(arms: dict[str, Curve]) -> dict[str, np.ndarray]:
    """Return the own and the common width with SPT and from scratch."""
    common = max(best(arms[arm]) for arm in (SPT, MATCHED))
    own = [width(arms[arm], best(arms[arm])) for arm in (SPT, MATCHED)]
    return {"own": np.array(own), "common": np.array([width(arms[arm], common) for arm in (SPT, MATCHED)])}


def has_learnt(arms: dict[str, Curve], chance: float) -> bool:
    """Return whether both arms are clearly above chance at their best rates."""
    return all(best(curve) >= chance + LEARNT for curve in arms.values())


def interval(differences: np.ndarray) -> tuple[float, float]:
    """Return the 95 % bootstrap interval of the mean over architectures."""
    random = np.random.default_rng(0)
    rows = random.integers(len(differences), size=(DRAWS, len(differences)))
    low, high = np.quantile(differences[rows].mean(1), (0.025, 0.975))
    return float(low), float(high)


def summary(curves: dict[str, Curves], chance: dict[str, float]) -> Table:
    """Return a row for every task and reference."""
    head = ["task", "window", "architectures", "octaves, SPT", "octaves, scratch (matched)", "difference"]
    table = [head]
    for task, of_task in curves.items():
        for kind in ("own", "common"):
            counted = [
                arms for arms in of_task.values() if kind == "common" or has_learnt(arms, chance[task])
            ]
            row = [task, kind, str(len(counted))]
            if len(counted) < 2:
                table.append([*row, "-", "-", "-"])
                continue
            found = np.array([widths(arms)[kind] for arms in counted])
            difference = found[:, 0] - found[:, 1]
            low, high = interval(difference)
            mean = found.mean(0)
            said = f"{difference.mean():+.2f} [{low:+.2f}, {high:+.2f}]"
            table.append([*row, f"{mean[0]:.2f}", f"{mean[1]:.2f}", said])
    return table


def each(curves: dict[str, Curves], chance: dict[str, float]) -> Table:
    """Return a row for every task and architecture: best scores, and widths."""
    table = [
        ["task", "architecture", "best: SPT", "scratch", "own: SPT", "scratch", "common: SPT", "scratch"]
    ]
    for task, of_task in curves.items():
        for name, arms in of_task.items():
            found = widths(arms)
            scores = [f"{best(arms[arm]):.1f}" for arm in (SPT, MATCHED)]
            own = [f"{x:.1f}" for x in found["own"]] if has_learnt(arms, chance[task]) else ["-", "-"]
            table.append([task, name, *scores, *own, *(f"{x:.1f}" for x in found["common"])])
    return table


def draw(curves: Curves, chance: float, path: Path) -> None:
    """Draw the scores against the rates, a panel per architecture."""
    lines = -(-len(curves) // PANELS)
    figure = Figure(figsize=(11, 1.7 * lines + 0.5), layout="constrained")
    panels = list(figure.subplots(lines, PANELS, sharex=True, sharey=True, squeeze=False).flat)
    for axis, (name, arms) in zip(panels, curves.items(), strict=False):
        for arm, curve in arms.items():
            octaves, scores = means(curve)
            axis.plot(2**octaves, scores, color=COLOURS[arm], label=arm)
            for rate, by_seed in curve.items():
                axis.scatter([rate] * len(by_seed), by_seed, s=6, color=COLOURS[arm], linewidths=0)
        axis.axhline(chance, color="0.85", linewidth=1, zorder=0)
        axis.set_xscale("log")
        axis.set_title(name, fontsize=8)
        axis.tick_params(labelsize=7)
    for axis in panels[len(curves) :]:
        axis.set_visible(False)
    figure.legend(*figure.axes[0].get_legend_handles_labels(), loc="outside upper right", ncols=2, fontsize=8)
    figure.supxlabel("learning rate", fontsize=8)
    figure.supylabel("validation score in %", fontsize=8)
    figure.savefig(path, metadata={"Date": None})


def main(arguments: list[str] | None = None) -> None:
    """Draw the pictures next to the table of scores, and print or write the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("scores", type=Path)
    parser.add_argument("--page", type=Path)
    flags = parser.parse_args(arguments)
    curves, chance = read(flags.scores)
    for task, of_task in curves.items():
        draw(of_task, chance[task], flags.scores.with_name(f"windows-{task}.svg"))
    for name, table in (("windows-summary", summary(curves, chance)), ("windows", each(curves, chance))):
        if flags.page:
            put(flags.page, name, table)
        else:
            print(written(table), end="\n\n")


if __name__ == "__main__":
    main()
