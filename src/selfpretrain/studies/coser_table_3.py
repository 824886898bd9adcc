"""Does attention have to be learnt at all when training from scratch?

Source: Coser & Orvieto (2025), Table 3.

Protocol: from scratch; everything trained, attention left as it started, attention and MLP left as they
started. Embedding, norms and head are always trained.

Expected: frozen attention costs little on most tasks.

What differs: whether norms were trained there is not said; they are here. At the small scale scratch has the
compute of pretraining and finetuning together, so that no arm is stopped early.
"""

from dataclasses import replace

from ..config import spec
from ..mixers.attention import Attention
from ..tasks.base import Task
from ..training.cost import Planner
from ..training.recipe import Recipe
from .common.table_study import IMAGE, LISTOPS, PATHFINDER, RETRIEVAL, TEXT, PaperCell, TableRow, TableStudy
from .recipes.arms import matched_stage

TRAINED = "all trained"
FROZEN = {
    TRAINED: (),
    "attention frozen": ("blocks.*.mixer.*",),
    "attention and MLP frozen": ("blocks.*.mixer.*", "blocks.*.mlp.*"),
}


@spec
class Frozen(TableStudy):
    """Three arms per task."""

    contrasts = (("attention frozen", TRAINED), ("attention and MLP frozen", TRAINED))
    paper = "coser2025"
    tasks = (LISTOPS, IMAGE, PATHFINDER, RETRIEVAL, TEXT)
    architectures = (TableRow("Transformer", Attention(), "transformer"),)
    names = {IMAGE: "CIFAR10"}

    def recipes(self, label: str, task: Task, architecture: TableRow, planner: Planner) -> dict[str, Recipe]:
        """Return three recipes with equal steps: 100 epochs as in the paper, or the FLOPs of SPT (small)."""
        arms = self.arms(label, task, architecture)
        stage = arms.scratch if self.scale == "paper" else matched_stage(task, arms, planner)
        return {
            column: Recipe(task, arms.scratch_model, (replace(stage, freeze=patterns),))
            for column, patterns in FROZEN.items()
        }

    def paper_cell(self, label: str, architecture: TableRow, column: str) -> PaperCell:
        """Return the place in the paper, where tasks are rows."""
        return "Table 3", self.names.get(label, label), "from scratch" if column == TRAINED else column


study = Frozen
