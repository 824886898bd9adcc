"""How do architectures of the study modern-zoo compare, each with the learning rates that suit it?

    python experiments/tuned_rates.py docs/windows.tsv docs/windows-tuned.tsv [--runs FOLDER] [--jobs N]
    python benchmarks/windows.py

The rate of an architecture and arm is the one with the best mean score on validation in the first table, or
the lower of two equal ones. It is trained with seeds 0, 1 and 2, which that table has not, and tested. Where
it is the rate of the study, these are results of the study, and are taken from it. Lines are added when an
architecture is done on a task, and are not run again.
"""

import argparse
import csv
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from statistics import fmean

from learning_rates import ARMS, RATES, Run, measured, parsed, recipes_at
from selfpretrain.registry import name_of
from selfpretrain.runner.run import run_recipes
from selfpretrain.runner.run_dir import RESULT
from selfpretrain.runner.workspace import Workspace, run_context
from selfpretrain.studies.base import Scale
from selfpretrain.studies.modern_zoo import ModernZoo
from selfpretrain.studies.recipes.defaults import LR
from selfpretrain.training.cost import COUNTED, Planner

STUDY = Path(__file__).parents[1] / "docs/studies/modern-zoo-small/results.csv"
SEEDS = (0, 1, 2)
COLUMNS = ("task", "row", "column", "lr", "seed", "test")

Place = tuple[str, str, str]
"""Task, architecture and arm."""


def best_rates(windows: Path) -> dict[Place, str]:
    """Return the rate, as it is written, with the best mean score on validation in every place."""
    scores: dict[Place, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    with windows.open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file, delimiter="\t"):
            place = row["task"], row["row"], row["column"]
            scores[place][row["lr"]].append(float(row["validation"]))
    return {
        place: max(of_rate, key=lambda rate: (fmean(of_rate[rate]), -float(rate)))
        for place, of_rate in scores.items()
    }


def runs_of_rows(chosen: dict[Place, str], scale: Scale, planner: Planner = COUNTED) -> Iterator[list[Run]]:
    """Yield the runs of every architecture with chosen rates, task by task."""
    study = ModernZoo.at_scale(scale, 1)
    tasks = study.available_tasks(planner)
    for label, rates in RATES.items():
        task = tasks[label]
        exact = {f"{rate:.3g}": rate for rate in rates}
        for row in study.rows(label):
            runs = []
            for arm in ARMS:
                if (name_of(task), row.row, arm) in chosen:
                    rate = exact[chosen[name_of(task), row.row, arm]]
                    recipe = recipes_at(study, label, task, row, rate, planner)[arm]
                    runs += [Run(row.row, arm, rate, replace(recipe, seed=seed)) for seed in SEEDS]
            if runs:
                yield runs


def results_of_study() -> dict[tuple[str, ...], str]:
    """Return the test scores of the study: the first five columns of a line -> score."""
    with STUDY.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    return {
        (row["task"], row["row"], row["column"], f"{LR:.3g}", row["seed"]): row["test_score"] for row in rows
    }


def place_of(run: Run) -> tuple[str, ...]:
    """Return the first five columns of a run's line."""
    return (name_of(run.recipe.task), run.row, run.column, f"{run.rate:.3g}", str(run.recipe.seed))


def line(run: Run, score: str | float) -> str:
    """Return the line of a run."""
    return "\t".join((*place_of(run), f"{float(score):.4f}\n"))


def main(arguments: list[str] | None = None) -> None:
    """Run what is missing, and write the table after every architecture."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("windows", type=Path)
    parser.add_argument("table", type=Path)
    flags = parsed(parser, "runs/tuned_rates", arguments)
    known = measured(flags.table, COLUMNS)
    of_study = results_of_study() if flags.scale == "small" else {}
    with run_context(Workspace.of(flags.runs, "cpu", flags.jobs)) as workspace:
        for runs in runs_of_rows(best_rates(flags.windows), flags.scale):
            if place_of(runs[0])[:2] in known:
                continue
            missing = [run for run in runs if place_of(run) not in of_study]
            run_recipes((run.recipe for run in missing), workspace)
            lines = []
            for run in runs:
                score = of_study.get(place_of(run))
                if score is None:
                    score = workspace.stage(run.recipe).read(RESULT)["scores"]["test"]["score"]
                lines.append(line(run, score))
            with flags.table.open("a", encoding="utf-8") as table:
                table.write("".join(lines))  # all of them, or none


if __name__ == "__main__":
    main()
