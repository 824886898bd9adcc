"""Does another pooling let labels alone find the curve, and does the gain of self-pretraining survive it?

Source: our question.

Related: Coser et al. (2026), arXiv 2605.21070, whose abstract, all that we have read of it, says that labels
can be locally blind to directions of attention that reconstruction sees. Notes of others on its text have it
that the proof is for labels which see the mean of all positions; its tables we could not read.

Protocol: a Transformer whose head sees the mean of all positions, the last one, the maximum, or a mean with
weights that one learned query gives; from scratch with the compute of pretraining and finetuning together,
and self-pretrained.

Expected: if the mean is the blindness, another pooling leaves chance from scratch, and little is left to
gain.

What differs: no paper asked. At the small scale every pooling has two rows: pictures of paths with the
settings of the demonstration (``selfpretrain compare`` without a task), which are short and were chosen with
the mean, and longer, with the settings that the task brings along. In trials on validation
(docs/log.md) self-pretrained networks that show their head the last position alone were at 52 and 56 %
with the short ones. No setting was chosen for another pooling. The objective is causal, so that the last
position is the only one that has seen everything. All poolings start from the same pretraining; in the short
rows it was done twice, on two processors that round differently.
"""

from collections.abc import Iterator

from ..config import spec
from ..mixers.attention import Attention
from ..objectives.common.heads import Pooling
from .common.table_study import IMAGE, PATHFINDER, TableRow, TableStudy
from .recipes.arms import MATCHED, SPT
from .recipes.defaults import DEMO, DEMO_OBJECTIVE

POOLINGS: dict[str, Pooling] = {
    "mean of positions": "mean",
    "last position": "last",
    "maximum over positions": "max",
    "attention over positions": "attention",
}
"""Row -> pooling of the head."""


@spec
class PoolingStudy(TableStudy):
    """Two arms per pooling."""

    columns = (MATCHED, SPT)
    tasks = (PATHFINDER, IMAGE)
    small_tasks = (PATHFINDER,)
    small_objective = {PATHFINDER: DEMO_OBJECTIVE}
    bundled_seeds = 5

    def rows(self, label: str) -> Iterator[TableRow]:
        """Yield the Transformer with every pooling; at the small scale trained briefly, then longer."""
        small = self.scale == "small"
        for suffix, settings in (("", DEMO), (", longer", ())) if small else (("", ()),):
            for name, pooling in POOLINGS.items():
                pooled = (*settings, f"model.pooling={pooling}")
                yield TableRow(name + suffix, Attention(), "transformer-rotary", settings=pooled)


study = PoolingStudy
