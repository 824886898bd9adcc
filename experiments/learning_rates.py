"""How sensitive to the learning rate is each architecture of the study modern-zoo, with and without SPT?

    python experiments/learning_rates.py docs/windows.tsv [--runs FOLDER] [--jobs N]
    python benchmarks/windows.py docs/windows.tsv

Settings, written down before any run: every architecture of the study at its small scale, with its steps,
networks and batches. Five learning rates on curves (task paths), three on text and recall, each three times
the one before; that of the study is in the middle, 2e-3. In matched scratch it is the rate of the whole
training, in SPT that of finetuning; pretraining has the rate of the study and is trained once per seed.
Parameters with a rate of their own, such as steps of state space models, keep their maximum of 1e-3. Two
seeds that no report uses. The score is that of the best step on validation, as in the study; nothing is
tested. Training that diverges counts with its best score until then.

``benchmarks/windows.py`` has the rule by which a window is measured.

Cost: 5 to 8 core-hours on curves, 3.5 to 4.4 on text, 2.1 to 2.4 on recall, by the times of the stages in
docs/studies/modern-zoo-small/results.csv (the quickest seed of every cell, and the mean). Curves come first,
then recall. Lines are added when an architecture is done on a task. What the table has is not run again, nor
are finished stages: the command resumes, also on another machine.
"""

import argparse
import csv
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from selfpretrain.registry import name_of
from selfpretrain.runner.run import run_recipes
from selfpretrain.runner.run_dir import RESULT
from selfpretrain.runner.workspace import Workspace, run_context
from selfpretrain.studies.base import SCALES, Scale
from selfpretrain.studies.common.table_study import PATHFINDER, TEXT, TableRow
from selfpretrain.studies.modern_zoo import RECALL, ModernZoo
from selfpretrain.studies.recipes.arms import MATCHED, SPT
from selfpretrain.studies.recipes.defaults import LR
from selfpretrain.tasks.base import Task
from selfpretrain.training.cost import COUNTED, Planner
from selfpretrain.training.recipe import Recipe

THREE = (LR / 3, LR, 3 * LR)
RATES = {PATHFINDER: (LR / 9, *THREE, 9 * LR), RECALL: THREE, TEXT: THREE}
"""Task -> learning rates of finetuning and of matched scratch; in the order of the runs."""
SEEDS = (1_100, 1_101)
ARMS = (MATCHED, SPT)
COLUMNS = ("task", "chance", "row", "column", "lr", "seed", "validation", "steps", "best step", "stopped")


class Run(NamedTuple):
    """A recipe, and its place in the table."""

    row: str
    column: str
    rate: float
    recipe: Recipe


def runs_of_rows(scale: Scale, planner: Planner = COUNTED) -> Iterator[list[Run]]:
    """Yield the runs of every architecture, task by task."""
    study = ModernZoo.at_scale(scale, 1)
    tasks = study.available_tasks(planner)
    for label, rates in RATES.items():
        task = tasks[label]
        for row in study.rows(label):
            runs = []
            for rate in rates:
                recipes = recipes_at(study, label, task, row, rate, planner)
                found = [Run(row.row, arm, rate, recipes[arm]) for arm in ARMS]
                runs += [
                    run._replace(recipe=replace(run.recipe, seed=seed)) for run in found for seed in SEEDS
                ]
            yield runs


def recipes_at(
    study: ModernZoo, label: str, task: Task, row: TableRow, rate: float, planner: Planner
) -> dict[str, Recipe]:
    """Return the recipes of an architecture with a learning rate of scratch and of finetuning."""
    changed = study.with_settings({f"{stage}.optim.lr": rate for stage in ("scratch", "finetune")})
    return changed.recipes(label, task, row, planner)


def line(run: Run, workspace: Workspace) -> str:
    """Return the line of a finished run."""
    task = run.recipe.task
    result = workspace.stage(run.recipe).read(RESULT)
    score = f"{result['scores']['val']['score']:.4f}"
    chance = f"{task.form.target.chance:.4g}"
    settings = (f"{run.rate:.3g}", str(run.recipe.seed))
    ended = (str(result[key]) for key in ("steps", "best_step", "stopped"))
    return "\t".join((name_of(task), chance, run.row, run.column, *settings, score, *ended))


def measured(table: Path, columns: tuple[str, ...]) -> set[tuple[str, str]]:
    """Return the tasks and architectures that a table has; begin the table if it is not there."""
    if not table.exists():
        table.write_text("\t".join(columns) + "\n", encoding="utf-8")
    with table.open(encoding="utf-8", newline="") as file:
        return {(row["task"], row["row"]) for row in csv.DictReader(file, delimiter="\t")}


def parsed(parser: argparse.ArgumentParser, runs: str, arguments: list[str] | None) -> argparse.Namespace:
    """Return the arguments of a command that trains, with a folder of runs of its own."""
    parser.add_argument("--runs", type=Path, default=Path(runs))
    parser.add_argument("--jobs", default="1")
    parser.add_argument("--scale", choices=SCALES, default="small")
    return parser.parse_args(arguments)


def main(arguments: list[str] | None = None) -> None:
    """Run what is missing, and write the table after every architecture."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("table", type=Path)
    flags = parsed(parser, "runs/learning_rates", arguments)
    known = measured(flags.table, COLUMNS)
    with run_context(Workspace.of(flags.runs, "cpu", flags.jobs)) as workspace:
        for runs in runs_of_rows(flags.scale):
            if (name_of(runs[0].recipe.task), runs[0].row) in known:
                continue
            run_recipes((run.recipe for run in runs), workspace, tested=False)
            with flags.table.open("a", encoding="utf-8") as table:
                table.write("".join(f"{line(run, workspace)}\n" for run in runs))  # all of them, or none


if __name__ == "__main__":
    main()
