"""What more minutes give: scores of ``compare --minutes N`` and ``fit --minutes N``, a table and a picture.

    python experiments/minutes.py docs/minutes.tsv docs/minutes.svg

Two tasks: curves (``paths``) and source code (``stdlib``). A comparison is attention with three seeds,
matched and SPT; a fit is the default one, scored on the test split. Both have one core. Limits are tried
from the least to the most, and those that the table has are not tried again. Seeds were not used for any
setting.
"""

import csv
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from selfpretrain.studies.recipes.arms import MATCHED, SPT

MINUTES = (1, 2, 4, 8, 16)
TASKS = {"paths": "curves", "stdlib": "source code"}
SEED, SEEDS = 3_000, 3
COLUMNS = ("command", "task", "minutes", "what", "score", "by seed", "seconds")
COLOURS = {"matched": "0.55", "SPT": "#1f5fa8", "kept": "#b5482a"}
Row = dict[str, str]


def compare(task: str, minutes: float, runs: Path) -> dict[str, list[float]]:
    """Return test scores in %, by arm and seed."""
    fixed = f"--mixers attention --arms matched,spt --first-seed {SEED} --seeds {SEEDS} --jobs 1 --json"
    own = ["--task", task, "--minutes", f"{minutes:g}", "--runs", str(runs), "--quiet"]
    rows = json.loads(run(["compare", *fixed.split(), *own]))["rows"]
    return {
        name: [100 * row["score"] for row in rows if row["column"] == column]
        for name, column in {"matched": MATCHED, "SPT": SPT}.items()
    }


def fit(task: str, minutes: float, runs: Path) -> dict[str, list[float]]:
    """Return the test accuracy in % of the model that is kept."""
    command = ["fit", task, "--seed", f"{SEED}", "--minutes", f"{minutes:g}", "--quiet"]
    printed = run([*command, "-o", str(runs / "model"), "--runs", str(runs)])
    (line,) = (line for line in printed.splitlines() if line.startswith("accuracy: "))
    return {"kept": [100 * float(line.split()[1])]}


def run(arguments: list[str]) -> str:
    """Return what a command prints."""
    done = subprocess.run(
        [sys.executable, "-m", "selfpretrain", *arguments], capture_output=True, text=True, check=False
    )
    if done.returncode:
        sys.exit(f"{' '.join(arguments)} failed:\n{done.stderr}")
    return done.stdout


def measure(command: str, task: str, minutes: float) -> list[Row]:
    """Return the rows of one command, run in a folder that is empty."""
    with tempfile.TemporaryDirectory() as folder:
        began = time.perf_counter()
        scores = {"compare": compare, "fit": fit}[command](task, minutes, Path(folder))
        seconds = time.perf_counter() - began
    found = []
    for what, values in scores.items():
        by_seed = " ".join(f"{value:.1f}" for value in values)
        cells = (command, task, f"{minutes:g}", what, f"{np.mean(values):.1f}", by_seed, f"{seconds:.0f}")
        found.append(dict(zip(COLUMNS, cells, strict=True)))
    return found


def read(table: Path) -> list[Row]:
    """Return the rows that are measured."""
    if not table.exists():
        table.write_text("\t".join(COLUMNS) + "\n", encoding="utf-8")
    with table.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file, delimiter="\t"))


def draw(rows: list[Row], path: Path) -> None:
    """Draw scores against minutes: a panel for each command and task."""
    figure = Figure(figsize=(9, 2.6), layout="constrained")
    for at, task in enumerate(TASKS):
        panel = None  # the first of a task, whose scores the other has, too
        for column, command in enumerate(("compare", "fit"), 1 + 2 * at):
            panel = figure.add_subplot(1, 4, column, sharey=panel)
            panel.set_title(f"{command}, {TASKS[task]}", fontsize=9)
            draw_panel(panel, [row for row in rows if (row["command"], row["task"]) == (command, task)])
    figure.axes[0].set_ylabel("test accuracy in %")
    figure.savefig(path, metadata={"Date": None})


def draw_panel(axis: Axes, rows: list[Row]) -> None:
    """Draw the mean of every arm, and its seeds as points."""
    for what in dict.fromkeys(row["what"] for row in rows):
        of_it = sorted((row for row in rows if row["what"] == what), key=lambda row: float(row["minutes"]))
        minutes = [float(row["minutes"]) for row in of_it]
        axis.plot(minutes, [float(row["score"]) for row in of_it], color=COLOURS[what], label=what)
        for x, row in zip(minutes, of_it, strict=True):
            values = [float(value) for value in row["by seed"].split()]
            axis.scatter([x] * len(values), values, s=8, color=COLOURS[what])
    axis.set_xscale("log", base=2)
    axis.set_xticks(MINUTES, [f"{value:g}" for value in MINUTES])
    axis.set_xlabel("minutes")
    axis.legend(frameon=False, fontsize=8)


def main() -> None:
    """Measure what the table lacks, and draw it."""
    table, picture = map(Path, sys.argv[1:])
    for minutes in MINUTES:
        for task in TASKS:
            for command in ("compare", "fit"):
                known = {(row["command"], row["task"], row["minutes"]) for row in read(table)}
                if (command, task, f"{minutes:g}") in known:
                    continue
                with table.open("a", encoding="utf-8", newline="") as file:
                    writer = csv.DictWriter(file, COLUMNS, delimiter="\t", lineterminator="\n")
                    writer.writerows(measure(command, task, minutes))
    draw(read(table), picture)


if __name__ == "__main__":
    main()
