"""Does a plain Transformer on Long Range Arena fail, or was it only trained from scratch?

Source: Amos et al. (2024), Table 1.

Protocol: one Transformer per task; from scratch with the budget of finetuning, from scratch with the compute
of pretraining and finetuning together (tied), and self-pretrained with the masked and with the causal
objective. The causal arm's network is causal in both of its stages.

Expected: about 30 points over the scratch numbers quoted there, masked and causal alike.

What differs: the paper quotes its scratch numbers from Tay et al. (2021) and has no tied arm; here all arms
are run alike, with validation apart from test.
"""

from collections.abc import Iterator
from dataclasses import replace

from ..mixers.attention import Attention
from ..runner.experiment import Cell
from ..spec import spec
from ..tasks.base import Task
from ._table_study import LRA, SCRATCH, SPEECH, SPT, TIED, Table, usual_arms

MASKED, CAUSAL = "SPT, masked", "SPT, causal"
PRINTED = {SCRATCH: "Transformer", MASKED: "Transformers + Masked SPT", CAUSAL: "Transformers + Causal SPT"}


@spec
class TransformerOnLra(Table):
    """Four arms per task."""

    contrasts = ((MASKED, TIED), (CAUSAL, TIED), (MASKED, SCRATCH), (CAUSAL, SCRATCH))
    figure = "bars"
    paper = "amos2024"
    tasks = (*LRA, SPEECH)

    def row(self, label: str, task: Task) -> Iterator[Cell]:
        """Scratch arms see both sides, as masked pretraining does."""
        masked = usual_arms(task, self.arms(task, Attention(), "transformer-dagger", "masked"))
        causal = usual_arms(task, self.arms(task, Attention(), "transformer-dagger", "causal"))
        arms = {SCRATCH: masked[SCRATCH], TIED: masked[TIED], MASKED: masked[SPT], CAUSAL: causal[SPT]}
        for column, recipe in arms.items():
            cell = Cell("Transformer", column, recipe)
            printed = ("Table 1", PRINTED[column], label) if column in PRINTED and label != SPEECH else None
            yield replace(cell, printed=printed)


study = TransformerOnLra
