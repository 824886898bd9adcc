"""Do architectures keep their order over tasks, from scratch and self-pretrained?

Source: our question, after the claim of Amos et al. (2024) that training from scratch misjudges
architectures.

Protocol: four kinds of architecture on every task at hand; from scratch with the compute of pretraining and
finetuning together, and self-pretrained with the masked objective; average ranks over tasks.

Expected: ranks differ less after self-pretraining.

What differs: no paper ranks with intervals.
"""

from ..config import spec
from ..mixers.attention import Attention
from ..mixers.gru import GRU
from ..mixers.linear import Linear
from ..mixers.s4d import S4D
from .common.table_study import LRA, TableRow, TableStudy
from .recipes.arms import MATCHED, SPT


@spec
class RankingOverTasks(TableStudy):
    """Two arms per architecture."""

    columns = (MATCHED, SPT)
    tasks = LRA
    architectures = (
        TableRow("Transformer", Attention(), "like:transformer-dagger"),
        TableRow("Linear Transformer", Linear(), "like:transformer-dagger"),
        TableRow("GRU", GRU(states=64), "like:transformer-dagger"),
        TableRow("S4D", S4D(), "like:transformer-dagger"),
    )
    share = 0.5


study = RankingOverTasks
