"""What is self-pretraining worth for gene finding, with few labelled loci and a whole chromosome?

Source: our question, after self-pretraining on BEND (arXiv 2506.17766), which reports that finding genes
rises from 0.50 to 0.64 (Matthews' correlation) when a network is first trained on sequences of the genome.

Protocol: the task ``genes``, in windows of 2,048 bases; 20, 100 and all labelled training loci, fewer being a
part of more. S4D in both directions, four blocks of width 64. Pretraining rebuilds masked bases of all
training windows, without labels, and is done once per seed; every number of loci gets as many steps of
finetuning, and as many from scratch. Matched scratch has the compute of pretraining and finetuning together.
In all stages of all arms half of the windows are turned to the other strand. Weights are chosen on validation
loci, whose labels are not counted.

Expected: the fewer loci, the more self-pretraining is worth; whether it gets above hexamers
(``genes_simple.tsv``) is open, and AUGUSTUS is out of reach.

What differs: an arm of a chromosome of the fly and coding bases, not the human genome and nine classes; a
network of 150,000 parameters. Settings are fixed in this file before any run; none was tuned on these data.

The study, about 16 hours of one core for three seeds, is kept beside this file:
``PYTHONPATH=experiments selfpretrain study genes:GeneFinding --scale small --seeds 3 --results experiments``.
What ``fit`` made of the same loci, two hours of one core, is kept in ``genes_fit.tsv``: ``python
experiments/genes.py``.
"""

import argparse
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from statistics import fmean

from selfpretrain import PositionClassifier
from selfpretrain.config import Count, spec
from selfpretrain.errors import SpecError
from selfpretrain.mixers.s4d import S4D
from selfpretrain.runner.experiment import Cell, Finished
from selfpretrain.studies.arms.base import recipes_by_column
from selfpretrain.studies.base import Scale, Study
from selfpretrain.studies.common.plots import due_runs, panel
from selfpretrain.studies.recipes.arms import MATCHED, SCRATCH, SPT, ArmRecipes
from selfpretrain.studies.recipes.defaults import denoising_objective, small_arms, smoke_arms, with_settings
from selfpretrain.system.files import Json
from selfpretrain.tasks.genes import Genes
from selfpretrain.training.cost import COUNTED, Planner

LOCI = (20, 100, None)
"""Labelled loci; None: all 415 of training."""
SMOKE_LOCI = (5, 10, None)
SETTINGS = (
    *("model.depth=4", "pretrain.budget.steps=4000", "pretrain.evals=4"),
    *("finetune.budget.steps=1000", "finetune.evals=8", "scratch.budget.steps=1000", "scratch.evals=8"),
)
"""What differs from the defaults of ``selfpretrain compare``."""
SEEDS = 3
MINUTES = 60
"""Time limit of ``fit``, for each number of loci and seed."""


@spec
class GeneFinding(Study):
    """Three arms per number of labelled loci."""

    contrasts = ((SPT, MATCHED), (SPT, SCRATCH))
    figure = "lines"

    task: Genes
    arms: ArmRecipes
    loci: tuple[int | None, ...]
    seeds: Count = SEEDS

    @classmethod
    def at_scale(cls, scale: Scale, seeds: int) -> "GeneFinding":
        """Return the study on the chromosome, or on synthetic loci for smoke tests."""
        if scale == "paper":
            raise SpecError("genes: no paper reports this; use --scale small")
        task = Genes() if scale == "small" else Genes().tiny()
        planned = task.stubbed()
        arms = with_settings(small_arms(planned, S4D(), denoising_objective(planned, "masked")), SETTINGS)
        augmentation = task.augmentation
        assert augmentation is not None, "strands can be turned"
        arms = (smoke_arms(arms) if scale == "smoke" else arms).with_augmentation(augmentation)
        return cls(task, arms, LOCI if scale == "small" else SMOKE_LOCI, seeds)

    def cells(self, planner: Planner = COUNTED) -> Iterator[Cell]:
        """Yield the cells seed by seed; the pretraining of a seed is the same for all numbers of loci."""
        for seed in range(self.seeds):
            for loci in self.loci:
                yield from self._cells(loci, seed, planner)

    def measures(self, finished: Finished) -> list[Json]:
        """Return a plot of Matthews' correlation by number of loci, for every arm."""
        names = [_name(loci) for loci in self.loci]
        curves: dict[str, list[float]] = {SCRATCH: [], MATCHED: [], SPT: []}
        for cell in (cell for loci in self.loci for cell in self._cells(loci, 0, COUNTED)):
            runs = due_runs(finished, cell.recipe, self.seeds)
            curves[cell.column].append(fmean(finished.result(run)["scores"]["test"]["MCC"] for run in runs))
        points = {column: (names, values) for column, values in curves.items()}
        return [panel("genes", "labelled loci", "Matthews' correlation on test", points)]

    def _cells(self, loci: int | None, seed: int, planner: Planner) -> Iterator[Cell]:
        labelled = planner.task(replace(self.task, loci=loci))
        stages = {
            name: replace(getattr(self.arms, name), source=labelled) for name in ("finetune", "scratch")
        }
        task = planner.task(self.task)
        columns = recipes_by_column(task, replace(self.arms, **stages), seed, planner)
        for column, recipe in columns.items():
            yield Cell(f"s4d · {_name(loci)} loci", column, recipe)


def _name(loci: int | None) -> str:
    return "all" if loci is None else str(loci)


def main() -> None:
    """Fit with a time limit on every number of loci; finished ones are in the table, and stay."""
    parser = argparse.ArgumentParser(description="fit on the task genes")
    parser.add_argument("--minutes", type=float, default=MINUTES)
    names = [_name(loci) for loci in LOCI]
    parser.add_argument("--loci", nargs="+", choices=names, default=names)
    parser.add_argument("--seeds", type=int, nargs="+", default=list(range(SEEDS)))
    parser.add_argument("--output", type=Path, default=Path(__file__).with_name("genes_fit.tsv"))
    options = parser.parse_args()
    if not options.output.exists():
        options.output.write_text("loci\tseed\taccuracy\tMCC\tkept\n")
    finished = {tuple(line.split("\t")[:2]) for line in options.output.read_text().splitlines()}
    for seed in options.seeds:
        for loci in options.loci:
            if (loci, str(seed)) not in finished:
                line = _fit(None if loci == "all" else int(loci), seed, options.minutes)
                with options.output.open("a") as file:
                    file.write(line + "\n")


def _fit(loci: int | None, seed: int, minutes: float) -> str:
    task = Genes(loci=loci)
    model = PositionClassifier(minutes=minutes, random_state=seed).fit(task)
    scores = model.evaluate(task)
    values = (f"{scores[name].value:.4f}" for name in ("accuracy", "MCC"))
    return "\t".join((_name(loci), str(seed), *values, model.kept_))


if __name__ == "__main__":
    main()
