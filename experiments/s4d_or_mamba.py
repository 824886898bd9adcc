"""Learning rates and directions of the study s4d-or-mamba, chosen on validation by equal trials.

    python experiments/s4d_or_mamba.py docs/s4d-or-mamba.tsv [--runs FOLDER] [--jobs N] [--data-root FOLDER]

Every architecture and arm is trained with every direction and rate on every sixth set, with a seed that no
report uses, and not tested; in a trial, matched scratch has the compute of self-pretraining with the same
settings. The log has a line per trial; the best of each architecture and arm are written to
``studies/tables/s4d_or_mamba.tsv``, which the study reads. Finished stages are reused: the command resumes.
"""

import argparse
import os
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import product
from pathlib import Path
from statistics import fmean
from typing import NamedTuple

from selfpretrain.runner.run import run_recipes
from selfpretrain.runner.run_dir import RESULT
from selfpretrain.runner.tuning import TUNING_SEED
from selfpretrain.runner.workspace import Workspace, run_context
from selfpretrain.studies.recipes.tables import FOLDER
from selfpretrain.studies.s4d_or_mamba import DIRECTIONS, RATES, TRIED_ON, Option, S4dOrMamba, chosen_sets
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


def trials(planner: Planner = COUNTED) -> Iterator[Trial]:
    """Yield every trial, set by set."""
    study = S4dOrMamba.at_scale("small", 1)
    for name, row, option in product(
        chosen_sets()[::TRIED_ON], study.architectures, product(DIRECTIONS, RATES)
    ):
        task = planner.task(study.stand_ins[name])
        settings = dict.fromkeys(study.columns, option)
        for column, recipe in study.recipes_with(settings, name, task, row, planner).items():
            yield Trial(name, row.row, column, option, replace(recipe, seed=TUNING_SEED))


def chosen(scored: Iterable[tuple[Trial, float]]) -> list[list[str]]:
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
    tried = list(trials())
    with run_context(Workspace.of(flags.runs, "cpu", flags.jobs)) as here:
        run_recipes((trial.recipe for trial in tried), here, tested=False)
        results = [here.stage(trial.recipe).read(RESULT) for trial in tried]
    scores = [float(result["scores"]["val"]["score"]) for result in results]
    lines = [
        [*trial[:3], *trial.option, f"{score:.4f}", str(result["steps"]), str(result["best_step"])]
        for trial, score, result in zip(tried, scores, results, strict=True)
    ]
    write(flags.log, LOG, lines)
    write(FOLDER / "s4d_or_mamba.tsv", CHOICE, chosen(zip(tried, scores, strict=True)))


if __name__ == "__main__":
    main()
