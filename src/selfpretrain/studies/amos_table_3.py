"""Does self-pretraining help on speech, and does it make causal and bidirectional models alike?

Source: Amos et al. (2024), Table 3 (Speech Commands, sCIFAR, BIDMC).

Protocol: Transformer and S4; bidirectional with the masked objective and causal with the causal one; from
scratch with the compute of pretraining and finetuning together, and self-pretrained.

Expected: five points for the Transformer on speech; the gap between causal and bidirectional S4 narrows
from 2.5 to 1.4 points.

What differs: at the small scale spoken digits as MFCC stand in for Speech Commands as raw samples, and
sCIFAR and BIDMC are left out; the paper picked the worst epoch of pretraining on speech by mistake of sign.
"""

from collections.abc import Iterator

from ..mixers.attention import Attention
from ..mixers.base import Mixer
from ..mixers.s4 import S4
from ..runner.experiment import Cell
from ..spec import spec
from ..tasks.base import Task
from ._table_study import BIDMC, SPEECH, SPT, TIED, Table, usual_arms
from .recipes.printed import Denoising

MODELS: dict[str, tuple[Mixer, str]] = {
    "Transformer": (Attention(), "transformer-rotary"),
    "S4": (S4(), "s4"),
}


@spec
class Signals(Table):
    """Two directions and two arms per architecture."""

    contrasts = ((SPT, TIED),)
    figure = "bars"
    paper = "amos2024"
    tasks = (SPEECH, "sCIFAR", *BIDMC)

    def row(self, label: str, task: Task) -> Iterator[Cell]:
        """The causal direction on speech alone, as in the paper."""
        directions: dict[str, Denoising] = {"bidirectional": "masked"}
        if label == SPEECH:
            directions["causal"] = "causal"
        for name, (mixer, family) in MODELS.items():
            for direction, objective in directions.items():
                made = usual_arms(task, self.arms(task, mixer, family, objective, share=0.5))
                for column in (TIED, SPT):
                    yield Cell(
                        f"{name}, {direction}",
                        column,
                        made[column],
                        printed=_printed(name, column, label, direction),
                    )


def _printed(name: str, column: str, label: str, direction: str) -> tuple[str, str, str]:
    row = {"Transformer": "Transformers"}.get(name, name) + (" + SPT" if column == SPT else "")
    where = {"causal": "SC Causal", "bidirectional": "SC Bi."}[direction] if label == SPEECH else label
    return "Table 3", row, where


study = Signals
