"""Is nearness what self-pretraining finds, and what is left of its gain without any?

Source: our question; Coser & Orvieto (2025) see that pretrained attention is local.

Protocol: attention to all positions, and to 4 or 16 on either side; on the images as they are, and with
their positions in another order, the same for all, in blocks of 1 and of 8 positions.

Expected: if nearness is all that is learnt, a window does from scratch what pretraining does, and nothing is
gained on scattered positions.

What differs: no paper asked.
"""

from collections.abc import Iterator

from ..mixers.attention import Attention
from ..mixers.base import Mixer
from ..mixers.window import Window
from ..runner.experiment import Cell
from ..spec import spec
from ..tasks._shuffled import Shuffled
from ..tasks.base import Task
from ._table_study import IMAGE, SPT, TIED, Table, usual_arms

MIXERS: dict[str, Mixer] = {
    "attention to all": Attention(),
    "to 16 on either side": Window(reach=16),
    "to 4 on either side": Window(reach=4),
}


@spec
class Locality(Table):
    """Two arms per window."""

    contrasts = ((SPT, TIED),)
    figure = "bars"
    tasks = (IMAGE,)

    def row(self, label: str, task: Task) -> Iterator[Cell]:
        """Windows on the images as they are; full attention on all orders."""
        for name, mixer in MIXERS.items():
            orders = (task, Shuffled(task, 8), Shuffled(task, 1))
            for given in orders if isinstance(mixer, Attention) else orders[:1]:
                made = usual_arms(given, self.arms(given, mixer, "like:transformer-dagger", "masked"))
                yield from (Cell(name, column, made[column]) for column in (TIED, SPT))


study = Locality
