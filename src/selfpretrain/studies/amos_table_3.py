"""Does self-pretraining help on speech, and does it make causal and bidirectional models alike?

Source: Amos et al. (2024), Table 3 (Speech Commands, sCIFAR, BIDMC).

Protocol: Transformer and S4; bidirectional with the masked objective and causal with the causal one; from
scratch with the budget of finetuning, from scratch with the compute of pretraining and finetuning together,
and self-pretrained. BIDMC as the paper divides it, and with patients kept apart.

Expected: five points for the Transformer on speech; the gap between causal and bidirectional S4 narrows
from 2.5 to 1.4 points.

What differs: at the small scale spoken digits as MFCC stand in for Speech Commands as raw samples, and
sCIFAR and BIDMC are left out; the paper picked the worst epoch of pretraining on speech by mistake of sign,
and its division of BIDMC has overlapping windows on both sides.
"""

from collections.abc import Iterator
from dataclasses import replace

from ..config import spec
from ..mixers.attention import Attention
from ..mixers.s4 import S4
from .common.table_study import BIDMC, BIDMC_APART, SPEECH, PaperCell, TableRow, TableStudy
from .recipes.arms import MATCHED, SPT


@spec
class Signals(TableStudy):
    """Two directions and three arms per architecture."""

    paper = "amos2024"
    tasks = (SPEECH, "sCIFAR", *BIDMC, *BIDMC_APART)
    architectures = (
        TableRow("Transformer", Attention(), "transformer-rotary"),
        TableRow("S4", S4(), "s4"),
    )
    share = 0.5

    def rows(self, label: str) -> Iterator[TableRow]:
        """Yield both directions on speech, as in the paper, else the masked one alone."""
        for architecture in self.architectures:
            yield replace(architecture, variant=", bidirectional", objective="masked")
            if label == SPEECH:
                yield replace(architecture, variant=", causal", objective="causal")

    def paper_cell(self, label: str, architecture: TableRow, column: str) -> PaperCell | None:
        """Return the place in the paper, where directions are columns and arms are rows."""
        if column == MATCHED or label in BIDMC_APART:
            return None
        row = {"Transformer": "Transformers"}.get(architecture.name, architecture.name)
        speech = {"causal": "SC Causal", "masked": "SC Bi."}[architecture.objective or "masked"]
        return "Table 3", row + " + SPT" * (column == SPT), speech if label == SPEECH else label


study = Signals
