"""Does a self-pretrained Transformer reach the state space models, and what do these gain?

Source: Amos et al. (2024), Table 2; MEGA and SPADE are quoted there from scratch only.

Protocol: rotary Transformer, S4, MEGA and SPADE with equal width, depth and budget; from scratch with the
compute of pretraining and finetuning together, and self-pretrained with the masked objective.

Expected: 8 to 15 points for the Transformer, about one for S4; for MEGA and SPADE nobody has said.

What differs: the paper's Transformer and S4 differ in size, and its MEGA, SPADE and S4 numbers from scratch
come from other pipelines. Pythia takes part only at the paper's scale.
"""

from collections.abc import Iterator
from dataclasses import replace

from ..mixers.attention import Attention
from ..mixers.base import Mixer
from ..mixers.mega import Mega
from ..mixers.s4 import S4
from ..mixers.spade import Spade
from ..shelf import spec
from ..study import Cell
from ..tasks.base import Task
from ._table import IMAGE, LISTOPS, PATHFINDER, PATHX, RETRIEVAL, SPT, TEXT, TIED, Table, usual_arms

MODELS: dict[str, tuple[Mixer, str]] = {
    "Transformer": (Attention(), "transformer-rotary"),
    "S4": (S4(), "s4"),
    "MEGA": (Mega(keys=32), "like:transformer-rotary"),
    "SPADE": (Spade(size=16), "like:transformer-rotary"),
}
PRINTED = {
    ("Transformer", TIED): "Transformers + Rotary",
    ("Transformer", SPT): "Transformers + Rotary + Masked SPT",
    ("S4", TIED): "S4",
    ("S4", SPT): "S4 + Masked SPT",
    ("MEGA", TIED): "MEGA",
    ("SPADE", TIED): "SPADE",
}


@spec
class StateOfTheArt(Table):
    """Two arms per architecture."""

    contrasts = ((SPT, TIED),)
    figure = "bars"
    paper = "amos2024"
    tasks = (TEXT, LISTOPS, RETRIEVAL, IMAGE, PATHFINDER, PATHX)

    def row(self, label: str, task: Task) -> Iterator[Cell]:
        """On two cores text alone, with half of the usual budget."""
        if self.scale != "paper" and label != TEXT:
            return
        for name, (mixer, family) in MODELS.items():
            made = usual_arms(task, self.arms(task, mixer, family, "masked", share=0.5))
            for column in (TIED, SPT):
                printed = PRINTED.get((name, column))
                cell = Cell(name, column, made[column])
                yield replace(cell, printed=("Table 2", printed, label) if printed else None)


study = StateOfTheArt
