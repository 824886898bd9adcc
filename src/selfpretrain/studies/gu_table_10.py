"""What does S4 score on Long Range Arena from scratch?

Source: Gu et al. (2022), Table 10, and the later numbers that Amos et al. (2024) quote.

Protocol: S4, bidirectional, from scratch: with the budget of finetuning, and with the compute of pretraining
and finetuning together.

Expected: 86 % on average over six tasks.

What differs: selection by validation on every task, text included, where the published code uses the test
split. The two benchmarks of that paper, speed and memory of layers, are ``spt bench lssl`` and ``spt bench
attention``.
"""

from ..mixers.s4 import S4
from ..spec import spec
from ._table_study import IMAGE, LRA, TEXT, Architecture, TableStudy
from .recipes.arms import SCRATCH, TIED


@spec
class S4OnLra(TableStudy):
    """Two budgets."""

    contrasts = ((TIED, SCRATCH),)
    figure = "bars"
    paper = "gu2022"
    paper_recipes = "gu"
    tasks = LRA
    small_tasks = (TEXT, IMAGE)
    columns = (SCRATCH, TIED)
    architectures = (Architecture("S4", S4(), "s4"),)
    share = 0.5
    table = "Table 10"
    printed = {("S4", TIED): "S4 (updated)"}


study = S4OnLra
