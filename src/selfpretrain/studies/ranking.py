"""Do architectures keep their order over tasks, from scratch and self-pretrained?

Source: our question, after the claim of Amos et al. (2024) that training from scratch misjudges
architectures.

Protocol: four kinds of architecture on every task at hand; from scratch with the compute of pretraining and
finetuning together, and self-pretrained with the masked objective; average ranks over tasks.

Expected: ranks differ less after self-pretraining.

What differs: no paper ranks with intervals.
"""

from collections.abc import Iterator

from ..mixers.attention import Attention
from ..mixers.base import Mixer
from ..mixers.gru import GRU
from ..mixers.linear import Linear
from ..mixers.s4d import S4D
from ..runner.experiment import Cell
from ..spec import spec
from ..tasks.base import Task
from ._table_study import LRA, SPT, TIED, Table, usual_arms

MIXERS: dict[str, Mixer] = {
    "Transformer": Attention(),
    "Linear Transformer": Linear(),
    "GRU": GRU(states=64),
    "S4D": S4D(),
}


@spec
class RankingOverTasks(Table):
    """Two arms per architecture."""

    contrasts = ((SPT, TIED),)
    figure = "bars"
    tasks = LRA

    def row(self, label: str, task: Task) -> Iterator[Cell]:
        """Half of the usual small budget."""
        for name, mixer in MIXERS.items():
            made = usual_arms(task, self.arms(task, mixer, "like:transformer-dagger", "masked", share=0.5))
            yield from (Cell(name, column, made[column]) for column in (TIED, SPT))


study = RankingOverTasks
