"""Is nearness what self-pretraining finds, and what is left of its gain without any?

Source: our question.

Related: Coser et al. (2026), arXiv 2605.21070, whose abstract, all that we have read of it, says that
pretrained attention is near.

Protocol: attention to all positions, and to a few on either side; on the images as they are, and with their
positions in another order, the same for all, one by one and in blocks.

Expected: if nearness is all that is learnt, a window does from scratch what pretraining does, and nothing is
gained on scattered positions.

What differs: no paper asked. At the small scale pictures of paths of four by four positions, blocks of a row,
and windows of one row on either side or of one position.
"""

from collections.abc import Iterator

from ..config import spec
from ..mixers.attention import Attention
from ..mixers.window import Window
from ..runner.experiment import Cell
from ..tasks.base import Task
from ..tasks.common.shuffled import Shuffled
from ..training.cost import COUNTED, Planner
from .common.table_study import IMAGE, PATHFINDER, TableRow, TableStudy
from .recipes.arms import MATCHED, SPT

EVERYWHERE = "attention to all"
FAMILY = "like:transformer-dagger"


@spec
class Locality(TableStudy):
    """Two arms per window."""

    columns = (MATCHED, SPT)
    tasks = (IMAGE,)
    small_tasks = (PATHFINDER,)

    def rows(self, label: str) -> Iterator[TableRow]:
        """Yield full attention, a wide and a narrow window."""
        yield TableRow(EVERYWHERE, Attention(), FAMILY)
        for reach in (16, 4) if label == IMAGE else (4, 1):
            yield TableRow(f"to {reach} on either side", Window(reach=reach), FAMILY)

    def task_cells(self, label: str, task: Task, planner: Planner = COUNTED) -> Iterator[Cell]:
        """Yield the cells on the original images and, for full attention, on permuted positions."""
        yield from super().task_cells(label, task, planner)
        for block in (8, 1) if label == IMAGE else (4, 1):
            shuffled = super().task_cells(label, Shuffled(task, block), planner)
            yield from (cell for cell in shuffled if cell.row == EVERYWHERE)


study = Locality
