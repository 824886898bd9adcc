"""Does self-pretraining gain more where there are fewer training sequences?

Source: Amos et al. (2024), Figure 3 and section 3.4.

Protocol: nested parts of the training split; pretraining and finetuning see the same part, pretraining with
as many steps as on the whole; the scratch arm has the compute of both together.

Expected: small gains on all the data, up to 30 % on the smallest part.

What differs: the paper's scratch arm is not tied, and its appendix C.1.4 has batches and learning rates of
its own; here those of Table 5 are taken. S4D stands in for S4 at the small scale, beside a Transformer;
text is pretrained causally there, and the smallest part holds 100 sequences.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace

from ..mixers.attention import Attention
from ..mixers.s4 import S4
from ..mixers.s4d import S4D
from ..spec import spec
from ..training.recipe import Budget, Stage
from ._table_study import IMAGE, TEXT, Architecture, TableStudy
from .recipes.arms import SPT, TIED, Arms

PARTS = (0.005, 0.01, 0.05, 0.1, 0.5, 1.0)
SMALL_PARTS = (0.05, 0.2, 0.5, 1.0)
STEPS = {TEXT: 40_000, IMAGE: 10_000}
"""Of pretraining in the paper."""
PAPER = (Architecture("S4", S4(), "s4"),)
SMALL = (Architecture("Transformer", Attention(), "s4"), Architecture("S4D", S4D(), "s4"))


@spec
class DataScale(TableStudy):
    """Two arms per part of the data."""

    contrasts = ((SPT, TIED),)
    figure = "lines"
    paper = "amos2024"
    tasks = (IMAGE, TEXT)
    small_tasks = (TEXT,)
    small_objective = {TEXT: "causal"}

    def rows(self, label: str) -> Iterator[Architecture]:
        """A row for every part."""
        for architecture in PAPER if self.scale == "paper" else SMALL:
            for part in PARTS if self.scale == "paper" else SMALL_PARTS:
                steps = STEPS[label] if self.scale == "paper" else None
                yield replace(architecture, variant=f" · {100 * part:g} %", change=_on(part, steps))


def _on(part: float, steps: int | None) -> Callable[[Arms], Arms]:
    """Train on a part of the data, and pretrain for so many steps."""

    def on(stage: Stage) -> Stage:
        return replace(stage, fraction=part)

    def change(arms: Arms) -> Arms:
        pretrain = replace(arms.pretrain, budget=Budget(steps=steps)) if steps else arms.pretrain
        return replace(arms, pretrain=on(pretrain), finetune=on(arms.finetune), scratch=on(arms.scratch))

    return change


study = DataScale
