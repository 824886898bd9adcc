"""What is self-pretraining worth where many sequences are known and few of them have a label?

Source: our question, after the claim of self-pretraining on genomes (2025) that a quarter of the labels with
self-pretraining beats all of them without.

Protocol: a Transformer of one block on handwritten digits; 1, 5, 10, 30 and 100 % of the training labels,
drawn anew for every seed, fewer being a part of more; pretraining sees all training sequences, without
labels, and is done once per seed; every fraction gets as many steps of finetuning, and as many from scratch,
as all labels do. Simple methods get as many labels.

Expected: the fewer labels, the more self-pretraining is worth.

What differs: digits, not genomes; weights are chosen on a validation split whose 300 labels are not counted.
"""

from collections.abc import Iterator
from dataclasses import replace

from ..errors import SpecError
from ..mixers.attention import Attention
from ..runner.experiment import Cell, Finished
from ..spec import Count, spec
from ..system.files import Json
from ..tasks.digits import Digits
from ..training.recipe import Stage
from .base import Scale, Study
from .recipes.arms import SCRATCH, SPT, TIED, Arms, resized, usual_arms
from .recipes.defaults import denoiser, small, toys

SHARES = (0.01, 0.05, 0.1, 0.3, 1.0)
COUNTED = 10
"""Baselines need a label of every class, whatever the share."""


@spec
class LabelFraction(Study):
    """Three arms per share of the labels."""

    contrasts = ((SPT, TIED), (SPT, SCRATCH))
    figure = "lines"

    task: Digits
    arms: Arms
    seeds: Count = 3

    @classmethod
    def at(cls, scale: Scale, seeds: int) -> "LabelFraction":
        """On all 1,000 digits, or on 200 of them with a toy.

        Raises:
            SpecError: at the scale of papers, for none prints it.
        """
        if scale == "paper":
            raise SpecError("label-fraction: no paper prints this; use --scale small")
        task = Digits() if scale == "small" else Digits().tiny()
        arms = resized(width=32, depth=1)(small(task, Attention(), denoiser(task, "masked")))
        return cls(task, arms if scale == "small" else toys(arms), seeds)

    def cells(self) -> Iterator[Cell]:
        """Seed by seed."""
        for seed in range(self.seeds):
            for share in SHARES:
                finetune, scratch = (
                    self._on(stage, share) for stage in (self.arms.finetune, self.arms.scratch)
                )
                arms = replace(self.arms, finetune=finetune, scratch=scratch)
                for column, recipe in usual_arms(self.task, arms, seed).items():
                    yield Cell(f"{share:.0%} of labels", column, recipe)

    def measures(self, finished: Finished) -> list[Json]:
        """A curve over labels for every arm and every simple method."""
        from ..tasks.inspect.baselines import baseline_scores  # scikit-learn takes a second to import

        counts = [round(share * self.task.train) for share in SHARES]
        known = [baseline_scores(replace(self.task, labels=max(n, COUNTED))) for n in counts]
        curves = {name: [100 * scores[name] for scores in known] for name in known[0]}
        cells = list(self.cells())
        for column in (SCRATCH, TIED, SPT):
            rows = [
                [c.recipe for c in cells if c.column == column][i :: len(SHARES)] for i in range(len(SHARES))
            ]
            scores = [[finished.result(r)["scores"]["test"]["accuracy"] for r in recipes] for recipes in rows]
            curves[column] = [100 * sum(each) / len(each) for each in scores]
        series = [{"label": name, "x": counts, "y": curve} for name, curve in curves.items()]
        return [{"title": "digits", "x": "labels", "y": "accuracy in %", "series": series}]

    def _on(self, stage: Stage, share: float) -> Stage:
        labels = max(1, round(share * self.task.train))
        return replace(stage, fraction=share, batch=min(stage.batch, labels))


study = LabelFraction
