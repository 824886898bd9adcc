"""Does the identical start of queries, keys, values and output explain part of the gain of self-pretraining?

Source: our question. The code published with Amos et al. (2024) copies one matrix four times, so attention
starts out looking at equal content; Coser & Orvieto (2025) used the same code.

Protocol: a Transformer whose four projections start independently, and one where they start as one matrix;
from scratch, from scratch with the compute of pretraining and finetuning together, and self-pretrained.

Expected: if it is a handicap that pretraining washes out, the gain is larger with the identical start.

What differs: no paper asked.
"""

from ..config import spec
from ..mixers.attention import Attention
from .common.table_study import IDENTICAL_START, IMAGE, INDEPENDENT_START, TEXT, TableRow, TableStudy
from .recipes.arms import MATCHED, SCRATCH, SPT


@spec
class IdenticalStart(TableStudy):
    """Three arms per initialisation."""

    contrasts = ((SPT, MATCHED), (SPT, SCRATCH), (MATCHED, SCRATCH))
    tasks = (TEXT, IMAGE)
    small_objective = {TEXT: "causal"}
    architectures = (
        TableRow("independent start", Attention(), "transformer-dagger", settings=(INDEPENDENT_START,)),
        TableRow("identical start", Attention(), "transformer-dagger", settings=(IDENTICAL_START,)),
    )


study = IdenticalStart
