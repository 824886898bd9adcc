"""What does S4 score on Long Range Arena from scratch?

Source: Gu et al. (2022), Table 10: the original numbers, whose settings are in Table 11, and the updated
ones.

Protocol: S4, bidirectional, from scratch: with the budget of finetuning, and with the compute of pretraining
and finetuning together.

Expected: 86 % on average over six tasks.

What differs: selection by validation on every task, text included, where the published code uses the test
split; the updated settings, at the paper's scale, are those of the code published with Amos et al. (2024).
The two benchmarks of that paper, speed and memory of layers, are ``selfpretrain bench lssl`` and
``selfpretrain bench attention``.
"""

from collections.abc import Iterator

from ..config import spec
from ..mixers.s4 import S4
from .common.table_study import IMAGE, LRA, TEXT, TableRow, TableStudy
from .recipes.arms import MATCHED, SCRATCH


@spec
class S4OnLra(TableStudy):
    """Two arms: scratch, and scratch with the FLOPs of self-pretraining and finetuning."""

    contrasts = ((MATCHED, SCRATCH),)
    paper = "gu2022"
    tasks = averaged = LRA
    small_tasks = (TEXT, IMAGE)
    columns = (SCRATCH, MATCHED)
    share = 0.5
    table = "Table 10"
    paper_rows = {("S4", SCRATCH): "S4 (original)", ("S4, updated", SCRATCH): "S4 (updated)"}

    def rows(self, label: str) -> Iterator[TableRow]:
        """Yield S4 with the published settings and, at the paper scale, with the updated ones."""
        yield TableRow("S4", S4(), "s4")
        if self.scale == "paper":
            yield TableRow("S4, updated", S4(), "s4-updated")


study = S4OnLra
