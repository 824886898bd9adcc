"""Does a plain Transformer on Long Range Arena fail, or was it only trained from scratch?

Source: Amos et al. (2024), Table 1 and Figure 1.

Protocol: one Transformer per task; from scratch with the budget of finetuning, from scratch with the compute
of pretraining and finetuning together (matched), and self-pretrained with the masked and with the causal
objective. The causal arm's network is causal in both of its stages.

Expected: about 30 points over the scratch numbers quoted there, masked and causal alike.

What differs: the paper quotes its scratch numbers from Tay et al. (2021) and has no matched arm; here all
arms are run alike, with validation apart from test. A further arm, as long as the matched one, has labels
and masked denoising at once: Miralles-González et al. (2025), arXiv 2501.14850, reach such scores without
pretraining, by training techniques against little data (rotary positions among them), and a fair comparison
lets scratch have the signal of the inputs."""

from collections.abc import Iterator
from dataclasses import replace

from ..config import spec
from ..mixers.attention import Attention
from ..mixers.s4d import S4D
from ..tasks.base import Task
from ..tasks.image_patches import ImagePatches
from ..training.cost import Planner
from ..training.recipe import Recipe
from .arms.base import USUAL, recipes_by_column
from .common.table_study import IMAGE, LISTOPS, LRA, PATHFINDER, SPEECH, TEXT, PaperCell, TableRow, TableStudy
from .recipes.arms import MATCHED, SCRATCH, SPT
from .recipes.tables import Denoising

MASKED = "SPT, masked"
CAUSAL = "SPT, causal"
JOINT = "scratch (matched), denoising at once"  # column of the arm "joint"
DIRECTIONS: tuple[Denoising, Denoising] = ("masked", "causal")
PRINTED = {SCRATCH: "Transformer", MASKED: "Transformers + Masked SPT", CAUSAL: "Transformers + Causal SPT"}


@spec
class TransformerOnLra(TableStudy):
    """Five arms per task."""

    contrasts = (
        (MASKED, MATCHED),
        (CAUSAL, MATCHED),
        (MASKED, SCRATCH),
        (CAUSAL, SCRATCH),
        (MASKED, JOINT),
    )
    paper = "amos2024"
    tasks = LRA
    small_tasks = (LISTOPS, TEXT, IMAGE, PATHFINDER, SPEECH)
    stand_ins = TableStudy.stand_ins | {IMAGE: ImagePatches(train=5_000)}  # digits are near their ceiling
    averaged = LRA
    architectures = (TableRow("Transformer", Attention(), "transformer-dagger"),)

    def rows(self, label: str) -> Iterator[TableRow]:
        """Yield the paper's Transformer and, below the paper scale, S4D for comparison."""
        yield from self.architectures
        if self.scale != "paper":
            yield TableRow("S4D", S4D(), "s4", ours=True)

    def recipes(self, label: str, task: Task, architecture: TableRow, planner: Planner) -> dict[str, Recipe]:
        """Return the recipes; scratch arms are bidirectional, like masked pretraining."""
        both = [self.arms(label, task, replace(architecture, objective=each)) for each in DIRECTIONS]
        masked = recipes_by_column(task, both[0], planner=planner, chosen=(*USUAL, "joint"))
        causal = recipes_by_column(task, both[1], planner=planner)
        found = {
            SCRATCH: masked[SCRATCH],
            MATCHED: masked[MATCHED],
            MASKED: masked.get(SPT),
            CAUSAL: causal.get(SPT),
            JOINT: masked.get(JOINT),
        }
        # Some further mixers cannot be pretrained.
        return {column: recipe for column, recipe in found.items() if recipe}

    def paper_cell(self, label: str, architecture: TableRow, column: str) -> PaperCell | None:
        """Return the place in Table 1, which lacks speech and the arms that we added."""
        return ("Table 1", PRINTED[column], label) if column in PRINTED and label != SPEECH else None


study = TransformerOnLra
