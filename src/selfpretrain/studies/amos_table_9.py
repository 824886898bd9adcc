"""Does self-pretraining help at every size of the network?

Source: Amos et al. (2024), Table 9 (Image).

Protocol: widths and depths that give the sizes, everything else equal; from scratch with the budget of
finetuning, from scratch with the compute of pretraining and finetuning together, and self-pretrained with the
masked objective.

Expected: a gain at every size.

What differs: the paper does not print how its sizes were made; widths and depths here are ones that fit its
labels, with 64 states throughout, where a footnote says that S4's grew with its size. At the small scale
pictures of paths are asked about, too.
"""

from collections.abc import Iterator
from dataclasses import replace

from ..config import spec
from ..mixers.attention import Attention
from ..mixers.s4 import S4
from .common.table_study import IMAGE, PATHFINDER, PaperCell, TableRow, TableStudy
from .recipes.arms import MATCHED, SPT
from .recipes.tables import read_table

ARCHITECTURES = {
    "Transformer": TableRow("Transformer", Attention(), "transformer-rotary"),
    "S4": TableRow("S4", S4(), "s4"),
}


@spec
class Sizing(TableStudy):
    """Three arms per size."""

    figure = "lines"
    paper = "amos2024"
    tasks = (IMAGE,)
    small_tasks = (IMAGE, PATHFINDER)

    def rows(self, label: str) -> Iterator[TableRow]:
        """Yield each architecture in every size; at the small scale the Transformer alone."""
        for size in read_table("amos2024_table_9_sizes"):
            if (size["scale"] == "paper") == (self.scale == "paper"):
                architecture = ARCHITECTURES[size["architecture"]]
                settings = (f"model.width={size['width']}", f"model.depth={size['depth']}")
                yield replace(architecture, variant=f" · {size['size']}", settings=settings)

    def paper_cell(self, label: str, architecture: TableRow, column: str) -> PaperCell | None:
        """Return the place in the paper, where sizes are columns and arms are rows."""
        family = {"Transformer": "Transformer+Rotary"}.get(architecture.name, architecture.name)
        row = family + " + Masked SPT" * (column == SPT)
        is_printed = self.scale == "paper" and column != MATCHED
        return ("Table 9", row, architecture.variant.removeprefix(" · ")) if is_printed else None


study = Sizing
