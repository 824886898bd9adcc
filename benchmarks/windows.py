"""Write pictures and tables of docs/windows.md: scores against learning rates, and widths of their windows.

    python experiments/learning_rates.py docs/windows.tsv
    python experiments/tuned_rates.py docs/windows.tsv docs/windows-tuned.tsv
    python benchmarks/windows.py

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

The picture windows-TASK.svg has a panel per architecture. The page gets a summary of widths, and one of test
scores at the best rates beside those at the rate of the study; windows-widths.tsv has all architectures.
"""

import csv
from collections import defaultdict
from pathlib import Path

import numpy as np
from matplotlib import rc_context
from matplotlib.figure import Figure

from selfpretrain.report.statistics import rank_correlation
from tables import Table, put, write_tsv

DOCS = Path(__file__).parents[1] / "docs"
PAGE = DOCS / "windows.md"
SCORES = DOCS / "windows.tsv"
TUNED = DOCS / "windows-tuned.tsv"
STUDY = DOCS / "studies/modern-zoo-small/results.csv"

WITHIN = 5.0
"""Points below the reference that a window may be."""
LEARNT = 10.0
"""Points above chance from which an architecture has learnt."""
DRAWS = 10_000
MATCHED = "scratch (matched)"
SPT = "SPT"
COLOURS = {MATCHED: "0.45", SPT: "#1f5fa8"}
ARMS = (SPT, MATCHED)
PANELS = 6  # in a row of a picture

Curve = dict[float, list[float]]
"""Learning rate -> scores in points, one per seed."""
Curves = dict[str, dict[str, Curve]]
"""Architecture -> arm -> curve."""
Place = tuple[str, str, str]
"""Task, architecture and arm."""
Means = dict[Place, float]


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


def best_rate(curve: Curve) -> float:
    """Return the rate of the best mean score, the lowest of equal ones."""
    octaves, scores = means(curve)
    return float(2 ** octaves[scores.argmax()])


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
    common = max(best(arms[arm]) for arm in ARMS)
    own = [width(arms[arm], best(arms[arm])) for arm in ARMS]
    return {"own": np.array(own), "common": np.array([width(arms[arm], common) for arm in ARMS])}


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


def each(curves: dict[str, Curves], chance: dict[str, float], tested: Means) -> Table:
    """Return a row for every task and architecture: best scores on validation, test scores, and widths."""
    head = ("validation", "at rate", "test", "own window", "common window")
    table = [["task", "architecture", *(f"{name}: {arm}" for name in head for arm in ("SPT", "scratch"))]]
    for task, of_task in curves.items():
        for name, arms in of_task.items():
            found = widths(arms)
            scores = [f"{best(arms[arm]):.1f}" for arm in ARMS]
            rates = [f"{best_rate(arms[arm]):.2g}" for arm in ARMS]
            places = [(task, name, arm) for arm in ARMS]
            of_test = [f"{tested[place]:.1f}" if place in tested else "-" for place in places]
            own = [f"{x:.1f}" for x in found["own"]] if has_learnt(arms, chance[task]) else ["-", "-"]
            common = [f"{x:.1f}" for x in found["common"]]
            table.append([task, name, *scores, *rates, *of_test, *own, *common])
    return table


def test_scores(tuned: Path) -> tuple[Means, Means]:
    """Return mean test scores in points at the best rates, and those that the study has there."""
    at_best = _means(tuned, "\t", "test")
    at_one = _means(STUDY, ",", "test_score")
    return at_best, {place: at_one[place] for place in at_best if place in at_one}


def _means(path: Path, delimiter: str, column: str) -> Means:
    scores: dict[Place, list[float]] = defaultdict(list)
    with path.open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file, delimiter=delimiter):
            scores[row["task"], row["row"], row["column"]].append(100 * float(row[column]))
    return {place: float(np.mean(found)) for place, found in scores.items()}


def compared(at_best: Means, at_one: Means) -> Table:
    """Return a row for every task and choice of rates: mean scores, gain, and whether the order stays."""
    head = ["task", "learning rates", "architectures", "SPT", "scratch (matched)", "gain", "rank correlation"]
    table = [head]
    for task in dict.fromkeys(task for task, _, _ in at_best):
        for said, means in (("one for all, 2e-3", at_one), ("its own", at_best)):
            rows = list(dict.fromkeys(row for of, row, _ in means if of == task))
            spt, scratch = (np.array([means[task, row, arm] for row in rows]) for arm in ARMS)
            low, high = interval(spt - scratch)
            gain = f"{(spt - scratch).mean():+.1f} [{low:+.1f}, {high:+.1f}]"
            scores = [f"{spt.mean():.1f}", f"{scratch.mean():.1f}"]
            table.append([task, said, str(len(rows)), *scores, gain, _correlation(scratch, spt)])
    return table


def _correlation(one: np.ndarray, other: np.ndarray) -> str:
    """Return Spearman's rank correlation with its interval."""
    found = rank_correlation(one, other)
    if found is None or found[1] is None:
        return "-"
    r, (low, high) = found
    return f"{r:+.2f} [{low:+.2f}, {high:+.2f}]"


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
        axis.set_xticks(2**octaves, [f"{rate:.0e}".replace("e-0", "e-") for rate in 2**octaves])
        axis.minorticks_off()
        axis.set_title(name, fontsize=8)
        axis.tick_params(labelsize=7)
    for axis in panels[len(curves) :]:
        axis.set_visible(False)
    for axis in panels[len(curves) - PANELS : len(curves)]:
        axis.tick_params(labelbottom=True)  # what is below them is not shown
    figure.legend(*figure.axes[0].get_legend_handles_labels(), loc="outside upper right", ncols=2, fontsize=8)
    figure.supxlabel("learning rate", fontsize=8)
    figure.supylabel("validation score in %", fontsize=8)
    with rc_context({"svg.hashsalt": path.stem}):  # the same picture is the same file
        figure.savefig(path, metadata={"Date": None})


def write(page: Path, scores: Path = SCORES, tuned: Path = TUNED) -> None:
    """Write the tables of a page, and the one of all architectures beside it."""
    curves, chance = read(scores)
    at_best, at_one = test_scores(tuned)
    put(page, "windows", summary(curves, chance))
    put(page, "tuned", compared(at_best, at_one))
    write_tsv(page.with_name(f"{page.stem}-widths.tsv"), each(curves, chance, at_best))


def main() -> None:
    """Draw the pictures, and write the tables."""
    curves, chance = read(SCORES)
    for task, of_task in curves.items():
        draw(of_task, chance[task], SCORES.with_name(f"windows-{task}.svg"))
    write(PAGE)


if __name__ == "__main__":
    main()
