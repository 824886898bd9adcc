"""Does the identical start of queries, keys, values and output explain part of the gain of self-pretraining?

Source: our question. The code published with Amos et al. (2024) copies one matrix four times, so attention
starts out looking at equal content; Coser & Orvieto (2025) used the same code.

Protocol: a Transformer whose four projections start independently, and one where they start as one matrix;
from scratch, from scratch with the compute of pretraining and finetuning together, and self-pretrained.

Expected: if it is a handicap that pretraining washes out, the gain is larger with the identical start.

What differs: no paper asked.
"""

from collections.abc import Iterator
from dataclasses import replace

from ..mixers.attention import Attention
from ..runner.experiment import Cell
from ..spec import spec
from ..tasks.base import Task
from ._table_study import IMAGE, SCRATCH, SPT, TEXT, TIED, Table, usual_arms, with_model
from .recipes.printed import Denoising


@spec
class IdenticalStart(Table):
    """Three arms per start."""

    contrasts = ((SPT, TIED), (SPT, SCRATCH), (TIED, SCRATCH))
    figure = "bars"
    tasks = (TEXT, IMAGE)

    def row(self, label: str, task: Task) -> Iterator[Cell]:
        """Text is pretrained causally at the small scale."""
        objective: Denoising = "causal" if label == TEXT and self.scale != "paper" else "masked"
        arms = self.arms(task, Attention(), "transformer-dagger", objective)
        for start in ("independent", "identical"):
            model = replace(arms.model, mixer=Attention(start=start))
            for column, recipe in usual_arms(task, with_model(arms, model)).items():
                yield Cell(f"{start} start", column, recipe)


study = IdenticalStart
