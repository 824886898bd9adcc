"""Does a self-pretrained Transformer reach the state space models, and what do these gain?

Source: Amos et al. (2024), Table 2; MEGA and SPADE are quoted there from scratch only.

Protocol: rotary Transformer, S4, MEGA and SPADE with equal width, depth and budget; from scratch with the
compute of pretraining and finetuning together, and self-pretrained with the masked objective.

Expected: 8 to 15 points for the Transformer, about one for S4; for MEGA and SPADE nobody has said.

What differs: the paper's Transformer and S4 differ in size, and its MEGA, SPADE and S4 numbers from scratch
come from other pipelines. Pythia takes part at the paper's scale, with random weights and the causal
objective (it needs the extra hf); PathX-256 is left out.
"""

import importlib.util
from collections.abc import Iterator
from dataclasses import replace

from ..mixers.attention import Attention
from ..mixers.base import Mixer
from ..mixers.mega import Mega
from ..mixers.pythia import Pythia
from ..mixers.s4 import S4
from ..mixers.spade import Spade
from ..runner.experiment import Cell
from ..spec import spec
from ..tasks.base import Task
from ._table_study import (
    IMAGE,
    LISTOPS,
    PATHFINDER,
    PATHX,
    RETRIEVAL,
    SPT,
    TEXT,
    TIED,
    Table,
    usual_arms,
    with_model,
)

MODELS: dict[str, tuple[Mixer, Mixer, str]] = {
    "Transformer": (Attention(), Attention(), "transformer-rotary"),
    "S4": (S4(), S4(), "s4"),
    "MEGA": (Mega(), Mega(keys=32), "like:transformer-rotary"),
    "SPADE": (Spade(), Spade(size=16), "like:transformer-rotary"),
}
"""At the paper's scale, for 64 positions, and the family of recipes."""
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
        for name, (whole, short, family) in MODELS.items():
            mixer = whole if self.scale == "paper" else short
            made = usual_arms(task, self.arms(task, mixer, family, "masked", share=0.5))
            for column in (TIED, SPT):
                printed = PRINTED.get((name, column))
                cell = Cell(name, column, made[column])
                yield replace(cell, printed=("Table 2", printed, label) if printed else None)
        if self.scale == "paper" and label != PATHX and importlib.util.find_spec("transformers"):
            yield from self.pythia(label, task)

    def pythia(self, label: str, task: Task) -> Iterator[Cell]:
        """From random weights: those that were trained on other text need a download."""
        arms = self.arms(task, Pythia(), "pythia", "causal")
        made = usual_arms(task, with_model(arms, arms.scratch_model))
        for column in (TIED, SPT):
            key = ("Table 2", "Pythia 70M (Rand Init)", label) if column == TIED else None
            yield Cell("Pythia, random weights", column, made[column], printed=key)


study = StateOfTheArt
