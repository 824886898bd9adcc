"""Is it the start of queries and keys that self-pretraining hands over?

Source: Coser & Orvieto (2025), Table 4.

Protocol: one layer; finetuning starts from nothing, from the pretrained projections to queries and keys,
from everything but these, or from everything. Once with independent starts of Q, K, V and O, and once with
identical ones, as in the code that the paper used.

Expected: queries and keys alone give most of the gain.

What differs: the independent start, and the arm with everything but queries and keys, are ours; so is text,
which is pretrained causally at the small scale.
"""

from collections.abc import Iterator
from dataclasses import replace

from ..mixers.attention import Attention
from ..runner.experiment import Cell
from ..spec import spec
from ..tasks.base import Task
from ..training.recipe import Recipe
from ..training.transfer import EVERYTHING_BUT_THE_HEAD, QUERIES_AND_KEYS, Transfer
from ._table_study import IMAGE, PATHFINDER, SCRATCH, TEXT, Table, with_model
from .recipes.printed import Denoising

QK, REST, ALL = "Q and K", "all but Q and K", "everything"
MOVED: dict[str, Transfer] = {
    QK: QUERIES_AND_KEYS,
    REST: Transfer(fresh=("head.*", "blocks.*.mixer.[qk].*")),
    ALL: EVERYTHING_BUT_THE_HEAD,
}
NAMES = {IMAGE: "CIFAR10"}
PRINTED = {SCRATCH: "from scratch", QK: "queries and keys from SPT", ALL: "all weights from SPT"}


@spec
class QueriesAndKeys(Table):
    """Four arms per start."""

    contrasts = ((QK, SCRATCH), (ALL, SCRATCH), (REST, SCRATCH), (ALL, QK))
    figure = "bars"
    paper = "coser2025"
    recipes = "coser"
    tasks = (IMAGE, PATHFINDER, TEXT)

    def row(self, label: str, task: Task) -> Iterator[Cell]:
        """One layer throughout."""
        objective: Denoising = "causal" if label == TEXT and self.scale != "paper" else "masked"
        arms = self.arms(task, Attention(), "transformer", objective)
        for start in ("independent", "identical"):
            model = replace(arms.model, mixer=Attention(start=start), depth=1)
            mine = with_model(arms, model)
            columns = {SCRATCH: Recipe(task, mine.scratch_model, (mine.scratch,))}
            for column, transfer in MOVED.items():
                finetune = replace(mine.finetune, transfer=transfer)
                columns[column] = Recipe(task, mine.model, (mine.pretrain, finetune))
            for column, recipe in columns.items():
                there = start == "identical" and label != TEXT and column in PRINTED
                key = ("Table 4", NAMES.get(label, label), PRINTED[column]) if there else None
                yield Cell(f"{start} start", column, recipe, printed=key)


study = QueriesAndKeys
