"""Are hand-made starts of state space models still needed once a model is self-pretrained?

Source: Amos et al. (2024), Table 7 and Figure 2.

Protocol: S4 and DLR; started as designed, or with every parameter drawn from N(0, 0.1); from scratch with
the budget of finetuning, from scratch with the compute of pretraining and finetuning together, and
self-pretrained.

Expected: from scratch the random start costs points, after self-pretraining two or three on average.

What differs: the paper's random start covers gains of norms as well; so it does here. Its DLR has four to
seven times the parameters of its S4; here too, at equal width. At the small scale the networks are causal,
and pretrained with the causal objective.
"""

from collections.abc import Iterator
from dataclasses import replace

from ..config import spec
from ..mixers.dlr import DLR
from ..mixers.s4 import S4
from .common.table_study import IMAGE, LISTOPS, PATHX, TEXT, PaperCell, TableRow, TableStudy
from .recipes.arms import MATCHED, SPT


@spec
class Priors(TableStudy):
    """Two initialisations and three arms per architecture."""

    paper = "amos2024"
    tasks = averaged = (LISTOPS, TEXT, IMAGE, PATHX)
    small_tasks = (TEXT,)
    small_objective = {TEXT: "causal"}
    architectures = (TableRow("S4", S4(), "s4"), TableRow("DLR", DLR(), "dlr"))

    def rows(self, label: str) -> Iterator[TableRow]:
        """Yield each architecture with its own initialisation and with a random one."""
        for architecture in self.architectures:
            yield architecture
            yield replace(
                architecture,
                variant=", random",
                family=f"{architecture.family}-random",
                settings=("model.init=random",),
            )

    def paper_cell(self, label: str, architecture: TableRow, column: str) -> PaperCell | None:
        """Return the place in the paper, where arms are rows."""
        row = architecture.row.replace(", random", " + Rand Init")
        return None if column == MATCHED else ("Table 7", row + " + SPT" * (column == SPT), label)


study = Priors
