"""Draw docs/effect.svg, the picture of README.md, from the results of an experiment.

    python tools/effect_picture.py FOLDER [--task TASK] [--arms ARM ...] [--rows ROW=NAME ...] [--title TITLE]

FOLDER holds a ``results.csv``: the folder that a comparison leaves below ``--runs``, or the page of a study
in ``docs/studies``. Each arm of each architecture is drawn as its mean, its 95 % interval and a dot per
seed. Without arguments the picture is drawn again as it was; its description holds the command and the means.
"""

import argparse
import csv
import re
import shlex
import sys
from dataclasses import dataclass
from html import escape, unescape
from pathlib import Path

from selfpretrain.report.figures import charts, style
from selfpretrain.report.statistics import estimate

ROOT = Path(__file__).parents[1]
PICTURE = ROOT / "docs" / "effect.svg"
DESCRIPTION = re.compile(r"<desc>(.*)\n(.*)</desc>")


@dataclass(frozen=True)
class Effect:
    """The scores in % of one task, by row and arm, in the order of the experiment."""

    title: str
    scores: dict[str, dict[str, tuple[float, ...]]]

    @property
    def said(self) -> str:
        """The means of every row in words."""
        means = {
            row: ", ".join(f"{arm} {_mean(scores):.1f}" for arm, scores in arms.items())
            for row, arms in self.scores.items()
        }
        return "; ".join(f"{row}: {found}" for row, found in means.items())


def read(words: list[str]) -> Effect:
    """Return what a command asks for, e.g. ``["docs/studies/amos-table-8-small"]``."""
    flags = _parser().parse_args(words)
    with (ROOT / flags.folder / "results.csv").open(encoding="utf-8", newline="") as file:
        lines = [line for line in csv.DictReader(file) if line["score"]]
    task = flags.task or lines[0]["task"]
    names = dict(pair.split("=", 1) for pair in flags.rows)
    found: dict[str, dict[str, tuple[float, ...]]] = {}
    for line in lines:
        asked = not flags.arms or line["column"] in flags.arms
        if line["task"] == task and asked and (line["row"] in names or not names):
            arms = found.setdefault(names.get(line["row"], line["row"]), {})
            arms[line["column"]] = (*arms.get(line["column"], ()), 100 * float(line["score"]))
    if not found:
        raise SystemExit(f"{flags.folder}/results.csv has no scores of these rows and arms of {task}")
    return Effect(flags.title or task, found)


def picture(words: list[str]) -> str:
    """Return the picture that a command draws, as SVG on white."""
    effect = read(words)
    arms = list(dict.fromkeys(arm for row in effect.scores.values() for arm in row))
    lines = tuple(
        charts.PanelLine(arm, at, tuple(row.get(arm, ()) for row in effect.scores.values()))
        for at, arm in enumerate(arms)
    )
    panel = charts.Panel(
        effect.title, "accuracy in %", tuple(effect.scores), lines, charts.score_limits(lines)
    )
    head, tag, rest = style.with_background(charts.points(panel)).partition("<metadata>")
    said = escape(f"{shlex.join(words)}\n{effect.said}", quote=False)
    return f"{head}<desc>{said}</desc>\n {tag}{rest}"


def drawn() -> tuple[list[str], str]:
    """Return the command that made the picture, and the means that it shows in words."""
    command, said = DESCRIPTION.search(PICTURE.read_text(encoding="utf-8")).groups()
    return shlex.split(unescape(command)), unescape(said)


def _mean(scores: tuple[float, ...]) -> float:
    return estimate(scores).mean


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", help="an experiment's folder, from the root of the repository")
    parser.add_argument("--task", help="default: the first of the experiment")
    parser.add_argument("--arms", nargs="+", default=[], metavar="ARM", help="default: all")
    parser.add_argument(
        "--rows", nargs="+", default=[], metavar="ROW=NAME", help="default: all, as they are called"
    )
    parser.add_argument("--title", help="default: the task")
    return parser


def main(words: list[str]) -> None:
    """Draw it."""
    PICTURE.write_text(picture(words or drawn()[0]), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
