"""Does a plain Transformer on Long Range Arena fail, or was it only trained from scratch?

Source: Amos et al. (2024), Table 1.

Protocol: one Transformer per task; from scratch with the budget of finetuning, from scratch with the compute
of pretraining and finetuning together (tied), and self-pretrained with the masked and with the causal
objective. The causal arm's network is causal in both of its stages.

Expected: about 30 points over the scratch numbers quoted there, masked and causal alike.

What differs: the paper quotes its scratch numbers from Tay et al. (2021) and has no tied arm; here all arms
are run alike, with validation apart from test.
"""

from dataclasses import replace

from ..mixers.attention import Attention
from ..spec import spec
from ..tasks.base import Task
from ..training.recipe import Recipe
from ._table_study import IMAGE, LISTOPS, LRA, SPEECH, TEXT, Architecture, Place, TableStudy
from .recipes.arms import SCRATCH, SPT, TIED, usual_arms
from .recipes.printed import Denoising

MASKED, CAUSAL = "SPT, masked", "SPT, causal"
DIRECTIONS: tuple[Denoising, Denoising] = ("masked", "causal")
PRINTED = {SCRATCH: "Transformer", MASKED: "Transformers + Masked SPT", CAUSAL: "Transformers + Causal SPT"}


@spec
class TransformerOnLra(TableStudy):
    """Four arms per task."""

    contrasts = ((MASKED, TIED), (CAUSAL, TIED), (MASKED, SCRATCH), (CAUSAL, SCRATCH))
    figure = "bars"
    paper = "amos2024"
    tasks = LRA
    small_tasks = (LISTOPS, TEXT, IMAGE, SPEECH)
    averaged = LRA
    architectures = (Architecture("Transformer", Attention(), "transformer-dagger"),)

    def recipes(self, label: str, task: Task, architecture: Architecture) -> dict[str, Recipe]:
        """Scratch arms see both sides, as masked pretraining does."""
        masked, causal = (
            usual_arms(task, self.arms(label, task, replace(architecture, objective=objective)))
            for objective in DIRECTIONS
        )
        return {SCRATCH: masked[SCRATCH], TIED: masked[TIED], MASKED: masked[SPT], CAUSAL: causal[SPT]}

    def place(self, label: str, architecture: Architecture, column: str) -> Place | None:
        """Speech is ours."""
        return ("Table 1", PRINTED[column], label) if column in PRINTED and label != SPEECH else None


study = TransformerOnLra
