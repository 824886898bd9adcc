"""Is it the start of queries and keys that self-pretraining hands over?

Source: Coser & Orvieto (2025), Table 4.

Protocol: one layer; finetuning starts from nothing, from the pretrained projections to queries and keys,
from everything but these, or from everything. Once with independent starts of Q, K, V and O, and once with
identical ones, as in the code that the paper used.

Expected: queries and keys alone give most of the gain.

What differs: the independent start, and the arm with everything but queries and keys, are ours; so is text,
which is pretrained causally at the small scale.
"""

from dataclasses import replace

from ..config import spec
from ..mixers.attention import Attention
from ..tasks.base import Task
from ..training.cost import Planner
from ..training.recipe import Recipe
from ..training.transfer import EVERYTHING_BUT_THE_HEAD, QUERIES_AND_KEYS, Transfer
from .common.table_study import IDENTICAL_START, IMAGE, PATHFINDER, TEXT, PaperCell, TableRow, TableStudy
from .recipes.arms import SCRATCH

QK = "Q and K"
REST = "all but Q and K"
ALL = "everything"
MOVED: dict[str, Transfer] = {
    QK: QUERIES_AND_KEYS,
    REST: Transfer(fresh=("head.*", "blocks.*.mixer.[qk].*")),
    ALL: EVERYTHING_BUT_THE_HEAD,
}
PRINTED = {SCRATCH: "from scratch", QK: "queries and keys from SPT", ALL: "all weights from SPT"}
INDEPENDENT = "independent start"
IDENTICAL = "identical start"
ONE_LAYER = "model.depth=1"


@spec
class QueriesAndKeys(TableStudy):
    """Four arms per initialisation."""

    contrasts = ((QK, SCRATCH), (ALL, SCRATCH), (REST, SCRATCH), (ALL, QK))
    paper = "coser2025"
    tasks = (IMAGE, PATHFINDER, TEXT)
    small_objective = {TEXT: "causal"}
    architectures = (
        TableRow(INDEPENDENT, Attention(), "transformer", settings=(ONE_LAYER,)),
        TableRow(IDENTICAL, Attention(), "transformer", settings=(ONE_LAYER, IDENTICAL_START)),
    )
    names = {IMAGE: "CIFAR10"}

    def recipes(self, label: str, task: Task, architecture: TableRow, planner: Planner) -> dict[str, Recipe]:
        """Return one recipe per set of transferred weights, from none to all."""
        arms = self.arms(label, task, architecture)
        recipes = {SCRATCH: Recipe(task, arms.scratch_model, (arms.scratch,))}
        for column, transfer in MOVED.items():
            finetune = replace(arms.finetune, transfer=transfer)
            recipes[column] = Recipe(task, arms.model, (arms.pretrain, finetune))
        return recipes

    def paper_cell(self, label: str, architecture: TableRow, column: str) -> PaperCell | None:
        """Return the place in the paper, where tasks are rows and all starts are identical."""
        is_printed = architecture.name == IDENTICAL and label != TEXT and column in PRINTED
        return ("Table 4", self.names.get(label, label), PRINTED[column]) if is_printed else None


study = QueriesAndKeys
