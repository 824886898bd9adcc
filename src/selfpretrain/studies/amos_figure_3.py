"""Does self-pretraining gain more where there are fewer training sequences?

Source: Amos et al. (2024), Figure 3 and section 3.4.

Protocol: nested parts of the training split; pretraining and finetuning see the same part, pretraining with
as many steps as on the whole; the scratch arm has the compute of both together.

Expected: small gains on all the data, up to 30 % on the smallest part.

What differs: the paper's scratch arm is not tied, and its appendix C.1.4 has batches and learning rates of
its own; here those of Table 5 are taken. S4D stands in for S4 at the small scale, beside a Transformer;
text is pretrained causally there, and the smallest part holds 100 sequences.
"""

from collections.abc import Iterator
from dataclasses import replace

from ..mixers.attention import Attention
from ..mixers.base import Mixer
from ..mixers.s4 import S4
from ..mixers.s4d import S4D
from ..runner.experiment import Cell
from ..spec import spec
from ..tasks.base import Task
from ..training.recipe import Budget, Stage
from ._table_study import IMAGE, SPT, TEXT, TIED, Table, usual_arms
from .recipes.arms import Arms

PARTS = (0.005, 0.01, 0.05, 0.1, 0.5, 1.0)
SMALL_PARTS = (0.05, 0.2, 0.5, 1.0)
STEPS = {TEXT: 40_000, IMAGE: 10_000}
"""Of pretraining in the paper."""


@spec
class DataScale(Table):
    """Two arms per part of the data."""

    contrasts = ((SPT, TIED),)
    figure = "lines"
    paper = "amos2024"
    tasks = (IMAGE, TEXT)

    def row(self, label: str, task: Task) -> Iterator[Cell]:
        """On two cores text alone."""
        if self.scale != "paper" and label != TEXT:
            return
        paper = self.scale == "paper"
        mixers: dict[str, Mixer] = {"S4": S4()} if paper else {"Transformer": Attention(), "S4D": S4D()}
        for name, mixer in mixers.items():
            arms = self.arms(task, mixer, "s4", "masked" if paper else "causal")
            for part in PARTS if paper else SMALL_PARTS:
                made = usual_arms(task, self._on(arms, part, label))
                for column in (TIED, SPT):
                    yield Cell(f"{name} · {100 * part:g} %", column, made[column])

    def _on(self, arms: Arms, part: float, label: str) -> Arms:
        def on(stage: Stage) -> Stage:
            return replace(stage, fraction=part)

        pretrain = on(arms.pretrain)
        if self.scale == "paper":
            pretrain = replace(pretrain, budget=Budget(steps=STEPS[label]))
        return replace(arms, pretrain=pretrain, finetune=on(arms.finetune), scratch=on(arms.scratch))


study = DataScale
