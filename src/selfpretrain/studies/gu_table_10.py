"""What does S4 score on Long Range Arena from scratch?

Source: Gu et al. (2022), Table 10, and the later numbers that Amos et al. (2024) quote.

Protocol: S4, bidirectional, from scratch: with the budget of finetuning, and with the compute of pretraining
and finetuning together.

Expected: 86 % on average over six tasks.

What differs: selection by validation on every task, text included, where the published code uses the test
split. The two benchmarks of that paper, speed and memory of layers, are ``spt bench lssl`` and ``spt bench
attention``.
"""

from collections.abc import Iterator

from ..mixers.s4 import S4
from ..runner.experiment import Cell
from ..spec import spec
from ..tasks.base import Task
from ._table_study import IMAGE, LRA, SCRATCH, TEXT, TIED, Table, usual_arms


@spec
class S4OnLra(Table):
    """Two budgets."""

    contrasts = ((TIED, SCRATCH),)
    figure = "bars"
    paper = "gu2022"
    recipes = "gu"
    tasks = LRA

    def row(self, label: str, task: Task) -> Iterator[Cell]:
        """On two cores images and text alone, with half of the usual budget."""
        if self.scale != "paper" and label not in (IMAGE, TEXT):
            return
        made = usual_arms(task, self.arms(task, S4(), "s4", "masked", share=0.5))
        for column in (SCRATCH, TIED):
            key = ("Table 10", "S4 (updated)", label) if column == TIED else None
            yield Cell("S4", column, made[column], printed=key)


study = S4OnLra
