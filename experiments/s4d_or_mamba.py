"""Learning rates and directions of the study s4d-or-mamba, chosen on validation by equal trials.

    python experiments/s4d_or_mamba.py docs/s4d-or-mamba.tsv [--runs FOLDER] [--jobs N] [--data-root FOLDER]

Every architecture and arm is trained with both directions, and then with the better one and the other rates,
on every sixth set, with a seed that no report uses, and not tested; in a trial, matched scratch has the
compute of self-pretraining with the same settings. The log has a line per trial; the best of each
architecture and arm are written to ``studies/tables/s4d_or_mamba.tsv``, which the study reads. What the log
has is not run again, nor are finished stages: the command resumes, also on another machine.
"""

import argparse
import csv
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import groupby, product
from pathlib import Path
from statistics import fmean
from typing import NamedTuple, cast

from selfpretrain.runner.run import run_recipes
from selfpretrain.runner.run_dir import RESULT
from selfpretrain.runner.tuning import TUNING_SEED
from selfpretrain.runner.workspace import Workspace, run_context
from selfpretrain.studies.common.time_series import DIRECTIONS, RATES, TRIED_ON, Option, chosen_sets
from selfpretrain.studies.recipes.tables import FOLDER, Denoising
from selfpretrain.studies.s4d_or_mamba import S4dOrMamba
from selfpretrain.training.cost import COUNTED, Planner
from selfpretrain.training.recipe import Recipe

LOG = ("set", "row", "column", "objective", "lr", "validation", "steps", "best step")
CHOICE = ("row", "column", "objective", "lr", "score", "source")


class Trial(NamedTuple):
    """A recipe, its place in the study, and its settings."""

    name: str
    row: str
    column: str
    option: Option
    recipe: Recipe

    @property
    def place(self) -> tuple[str, ...]:
        """Return its place in the log: set, row and column, direction and learning rate."""
        return (self.name, self.row, self.column, *self.option)


Scored = tuple[Trial, float]
"""A trial and its score on validation."""
Options = Mapping[tuple[str, str], Option]
"""Row and column -> settings."""


def trials(options: Options, planner: Planner = COUNTED) -> Iterator[Trial]:
    """Yield a trial of every row and column on every set, with its option."""
    study = S4dOrMamba.at_scale("small", 1)
    for name, row in product(chosen_sets()[::TRIED_ON], study.architectures):
        task = planner.task(study.stand_ins[name])
        settings = {column: options[row.row, column] for column in study.columns}
        for column, recipe in study.recipes_with(settings, name, task, row, planner).items():
            yield Trial(name, row.row, column, settings[column], replace(recipe, seed=TUNING_SEED))


def rounds(run: Callable[[Options], list[Scored]]) -> list[Scored]:
    """Return the scores of all trials: both directions, then the other rates with the better one."""
    places = [(row.row, column) for row in S4dOrMamba.architectures for column in S4dOrMamba.columns]
    scored = []
    for direction in DIRECTIONS:
        scored += run(dict.fromkeys(places, (direction, RATES[0])))
    better = {(line[0], line[1]): cast(Denoising, line[2]) for line in chosen(scored)}
    for rate in RATES[1:]:
        scored += run({place: (direction, rate) for place, direction in better.items()})
    return scored


def chosen(scored: Iterable[Scored]) -> list[list[str]]:
    """Return the option with the best mean score of every row and column, as lines of the table."""
    found: dict[tuple[str, str], dict[Option, list[float]]] = {}
    for trial, score in scored:
        options = found.setdefault((trial.row, trial.column), {})
        options.setdefault(trial.option, []).append(score)
    lines = []
    for place, options in found.items():
        means = {option: fmean(scores) for option, scores in options.items()}
        best = max(means, key=lambda option: means[option])
        source = f"best of {len(means)} on validation, mean of {len(options[best])} sets"
        lines.append([*place, *best, f"{means[best]:.4f}", source])
    return lines


class Log:
    """The table of all trials, to which those of an architecture on a set are added when they are done."""

    def __init__(self, file: Path, here: Workspace) -> None:
        self.file = file
        self.here = here
        if not file.exists():
            write(file, LOG, ())
        with file.open(encoding="utf-8", newline="") as opened:
            rows = list(csv.reader(opened, delimiter="\t"))[1:]
        self.scores = {tuple(row[:5]): float(row[5]) for row in rows}

    def run(self, options: Options) -> list[Scored]:
        """Run the trials that the table lacks, and return the scores of all."""
        found: list[Scored] = []
        for _, group in groupby(trials(options), lambda trial: (trial.name, trial.row)):
            tried = list(group)
            missing = [trial for trial in tried if trial.place not in self.scores]
            run_recipes((trial.recipe for trial in missing), self.here, tested=False)
            with self.file.open("a", encoding="utf-8") as table:
                table.writelines("\t".join(self._line(trial)) + "\n" for trial in missing)
            found += [(trial, self.scores[trial.place]) for trial in tried]
        return found

    def _line(self, trial: Trial) -> tuple[str, ...]:
        """Return the line of a trial, and remember its score."""
        result = self.here.stage(trial.recipe).read(RESULT)
        score = f"{result['scores']['val']['score']:.4f}"
        self.scores[trial.place] = float(score)
        return (*trial.place, score, str(result["steps"]), str(result["best_step"]))


def write(file: Path, head: Iterable[str], lines: Iterable[Iterable[str]]) -> None:
    """Write a tab-separated table."""
    file.write_text("".join("\t".join(line) + "\n" for line in (head, *lines)), encoding="utf-8")


def main() -> None:
    """Run what is missing, and write the log and the choice."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("log", type=Path)
    parser.add_argument("--runs", type=Path, default=Path("runs/s4d-or-mamba"))
    parser.add_argument("--jobs", default="1")
    parser.add_argument("--data-root")
    flags = parser.parse_args()
    if flags.data_root:
        os.environ["SELFPRETRAIN_DATA"] = flags.data_root
    with run_context(Workspace.of(flags.runs, "cpu", flags.jobs)) as here:
        scored = rounds(Log(flags.log, here).run)
    write(FOLDER / "s4d_or_mamba.tsv", CHOICE, chosen(scored))


if __name__ == "__main__":
    main()
