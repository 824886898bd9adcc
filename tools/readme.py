"""Write README.md from ``tools/README.in.md``: numbers are looked up in the results that ship.

    python tools/readme.py

``[[score STUDY TASK ROW ARM]]`` becomes a mean over seeds in %, ``[[mean STUDY TASK ARM]]`` the mean over all
rows, ``[[count SHELF]]`` a number of names, ``[[table]]`` the table of when it pays, ``[[effect]]`` the
description of docs/effect.svg, and ``[[file PATH]]`` what a command has printed. It also draws docs/zoo.svg.
"""

import csv
import re
import shlex
import sys
from functools import cache
from pathlib import Path
from statistics import mean

sys.path.insert(0, str(Path(__file__).parent))

import effect_picture
from selfpretrain.registry import names
from selfpretrain.report.figures import style

ROOT = Path(__file__).parents[1]
TEMPLATE = Path(__file__).with_name("README.in.md")
PAGE = ROOT / "README.md"
ZOO = ROOT / "docs" / "zoo.svg"
ARMS = {
    "scratch": "scratch",
    "scratch (matched)": "matched",
    "SPT, masked": "SPT, masked",
    "SPT, causal": "SPT, causal",
}
TASKS = {
    "stdlib": "Python source",
    "paths": "two curves on a grid",
    "image-patches": "photographs",
    "listops": "short ListOps",
    "spoken-digits": "spoken digits",
}
"""Columns and rows of the table of when it pays."""
SHOWN = {"Transformer": 0, "S4": 1, "Mamba": 2}
"""Architectures that have a colour in the picture of the zoo."""
PANELS = {"paths": "curves", "stdlib": "text", "recall": "recall"}
Cell = tuple[str, str, str]


@cache
def scores(study: str) -> dict[Cell, float]:
    """Return the mean test score in % of every task, row and arm of a study that ships."""
    found: dict[Cell, list[float]] = {}
    with (ROOT / "docs" / "studies" / f"{study}-small" / "results.csv").open(
        encoding="utf-8", newline=""
    ) as file:
        for line in csv.DictReader(file):
            if line["score"]:
                found.setdefault((line["task"], line["row"], line["column"]), []).append(
                    100 * float(line["score"])
                )
    return {cell: mean(values) for cell, values in found.items()}


def look_up(place: re.Match[str]) -> str:
    """Return what a place of the template stands for."""
    match shlex.split(" ".join(place[1].split())):
        case ["score", study, task, row, arm]:
            return f"{scores(study)[task, row, arm]:.1f}"
        case ["mean", study, task, arm]:
            return f"{mean(value for (t, _, a), value in scores(study).items() if (t, a) == (task, arm)):.0f}"
        case ["count", shelf]:
            return str(len(names(shelf)))
        case ["effect"]:
            return effect_picture.drawn()[1].strip()
        case ["table"]:
            return table()
        case ["file", path]:
            return (ROOT / path).read_text(encoding="utf-8").strip("\n")
    raise SystemExit(f"{TEMPLATE}: not known: {place[0]}")


def table() -> str:
    """Return the scores of the Transformer of Table 1, the best arm of every task in bold."""
    lines = ["| | " + " | ".join(ARMS.values()) + " |", "| --- " * (1 + len(ARMS)) + "|"]
    for task, label in TASKS.items():
        found = [scores("amos-table-1")[task, "Transformer", arm] for arm in ARMS]
        cells = [f"**{value:.1f}**" if value == max(found) else f"{value:.1f}" for value in found]
        lines.append(f"| {label} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def page() -> str:
    """Return the text of README.md."""
    return re.sub(r"\[\[(.+?)\]\]", look_up, TEMPLATE.read_text(encoding="utf-8"), flags=re.DOTALL)


def zoo() -> str:
    """Return the picture of the zoo: every architecture with matched compute and after SPT, task by task."""
    with style.figure_settings("zoo"):
        figure = style.blank(2.9, 6.6)
        axes = figure.subplots(1, len(PANELS), sharey=True)
        for panel, (task, label) in zip(axes, PANELS.items(), strict=True):
            for row in dict.fromkeys(row for t, row, _ in scores("modern-zoo") if t == task):
                ends = [scores("modern-zoo").get((task, row, arm)) for arm in ("scratch (matched)", "SPT")]
                at = SHOWN.get(row)
                panel.plot(
                    (0, 1),
                    ends,
                    color=style.FAINT if at is None else style.COLOURS[at],
                    linewidth=1 if at is None else 2,
                    zorder=1 if at is None else 2,
                    marker="o",
                    markersize=3,
                    label=None if at is None or panel is not axes[0] else row,
                )
            panel.set(title=label, xticks=(0, 1), xticklabels=("matched", "SPT"), xlim=(-0.2, 1.2))
        axes[0].set_ylabel("test accuracy in %")
        axes[0].legend(loc="upper left")
        return style.with_background(style.to_svg(figure))


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
    ZOO.write_text(zoo(), encoding="utf-8")
