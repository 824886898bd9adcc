"""Do the efficient Transformers of Long Range Arena keep their order once all are self-pretrained?

Source: our question; the rows are those of Gu et al. (2022), Table 10, and the upper half of Table 1 of
Amos et al. (2024), which quote Tay et al. (2021) from scratch only. But for the Transformer, no paper that
we know shows these architectures with self-pretraining.

Protocol: every architecture with the same width, depth, budget and learning rates; from scratch with the
compute of pretraining and finetuning together, and self-pretrained with the masked objective.

Expected: no more than that differences shrink.

What differs: one task; at the small scale pictures of paths, where the gain is large, with windows and blocks
cut to their 16 positions; learning rates were not tuned for each architecture.
"""

from ..config import spec
from ..mixers.attention import Attention
from ..mixers.base import Mixer
from ..mixers.bigbird import BigBird
from ..mixers.fnet import FNet
from ..mixers.linear import Linear
from ..mixers.linformer import Linformer
from ..mixers.local import Local
from ..mixers.longformer import Longformer
from ..mixers.luna import Luna
from ..mixers.mega import Mega
from ..mixers.nystromformer import Nystromformer
from ..mixers.performer import Performer
from ..mixers.reformer import Reformer
from ..mixers.sinkhorn import Sinkhorn
from ..mixers.sparse import Sparse
from ..mixers.synthesizer import Synthesizer
from .common.table_study import IMAGE, PATHFINDER, TableRow, TableStudy
from .recipes.arms import MATCHED, SPT

ZOO: dict[str, tuple[Mixer, Mixer]] = {
    "Transformer": (Attention(), Attention()),
    "Local Attention": (Local(), Local(size=4)),
    "Sparse Trans.": (Sparse(), Sparse(size=4, summary=1)),
    "Longformer": (Longformer(), Longformer(reach=2)),
    "BigBird": (BigBird(), BigBird(size=2)),
    "Linformer": (Linformer(), Linformer(rank=8)),
    "Reformer": (Reformer(), Reformer(size=4)),
    "Sinkhorn Trans.": (Sinkhorn(), Sinkhorn(size=4)),
    "Synthesizer": (Synthesizer(), Synthesizer()),
    "Linear Trans.": (Linear(), Linear()),
    "Performer": (Performer(), Performer(features=64)),
    "FNet": (FNet(), FNet()),
    "Nystromformer": (Nystromformer(), Nystromformer(landmarks=8)),
    "Luna-256": (Luna(), Luna(slots=8)),
    "MEGA": (Mega(), Mega(keys=32)),
}
"""Name -> mixer as in the benchmark, and at the small scale, with windows that divide 16 positions."""


@spec
class Zoo(TableStudy):
    """Two arms per architecture."""

    contrasts = ((SPT, MATCHED),)
    figure = "bars"
    paper = "gu2022"
    tasks = (IMAGE,)
    small_tasks = (PATHFINDER,)
    architectures = tuple(
        TableRow(name, whole, "like:transformer-dagger", small=short) for name, (whole, short) in ZOO.items()
    )
    table = "Table 10"
    printed = {(name, MATCHED): name for name in ZOO if name != "MEGA"}


study = Zoo
