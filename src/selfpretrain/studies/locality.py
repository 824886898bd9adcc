"""Is nearness what self-pretraining finds, and what is left of its gain without any?

Source: our question; Coser et al. (2026), arXiv 2605.21070, say that pretrained attention is near; we know
that paper by its summary alone.

Protocol: attention to all positions, and to 4 or 16 on either side; on the images as they are, and with
their positions in another order, the same for all, in blocks of 1 and of 8 positions.

Expected: if nearness is all that is learnt, a window does from scratch what pretraining does, and nothing is
gained on scattered positions.

What differs: no paper asked.
"""

from collections.abc import Iterator

from ..mixers.attention import Attention
from ..mixers.window import Window
from ..runner.experiment import Cell
from ..spec import spec
from ..tasks._shuffled import Shuffled
from ..tasks.base import Task
from ._table_study import IMAGE, Architecture, TableStudy
from .recipes.arms import SPT, TIED

EVERYWHERE = "attention to all"


@spec
class Locality(TableStudy):
    """Two arms per window."""

    contrasts = ((SPT, TIED),)
    figure = "bars"
    tasks = (IMAGE,)
    architectures = (
        Architecture(EVERYWHERE, Attention(), "like:transformer-dagger"),
        Architecture("to 16 on either side", Window(reach=16), "like:transformer-dagger"),
        Architecture("to 4 on either side", Window(reach=4), "like:transformer-dagger"),
    )

    def row(self, label: str, task: Task, architecture: Architecture) -> Iterator[Cell]:
        """Windows on the images as they are; full attention on all orders."""
        yield from super().row(label, task, architecture)
        if architecture.name == EVERYWHERE:
            for block in (8, 1):
                yield from super().row(label, Shuffled(task, block), architecture)


study = Locality
