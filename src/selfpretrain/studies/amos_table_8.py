"""How should a fixed budget be shared between pretraining and finetuning?

Source: Amos et al. (2024), Table 8.

Protocol: a fixed number of epochs, of which 0, 20, 40 or 60 % go into pretraining and the rest into
finetuning; schedules are drawn out over each stage.

Expected: ten points on both tasks for the Transformer, little for S4, and not much between the shares.

What differs: epochs of pretraining and of finetuning cost about the same; learning rates of the stages are
those of the other studies. At the small scale networks are causal and pretrained causally, and S4D stands
in for S4.
"""

from collections.abc import Iterator
from dataclasses import replace

from ..config import spec
from ..mixers.attention import Attention
from ..mixers.s4d import S4D
from .common.shares import ShareStudy
from .common.table_study import PaperCell, TableRow


@spec
class Shares(ShareStudy):
    """Four shares of pretraining per architecture."""

    contrasts = (("20 %", "0 %"), ("40 %", "0 %"), ("60 %", "0 %"))
    paper = "amos2024"
    architectures = (
        TableRow("Transformer", Attention(), "transformer-rotary"),
        TableRow("S4", S4D(), "s4"),
    )

    def rows(self, label: str) -> Iterator[TableRow]:
        """Yield the architectures; S4D, which replaces S4 at the small scale, under its own name."""
        for architecture in self.architectures:
            stands_in = architecture.name == "S4" and self.scale != "paper"
            yield replace(architecture, name="S4D") if stands_in else architecture

    def paper_cell(self, label: str, architecture: TableRow, column: str) -> PaperCell:
        """Return the place in the paper, where shares are rows."""
        return "Table 8", column, f"{label}, {architecture.name.removesuffix('D')}"


study = Shares
