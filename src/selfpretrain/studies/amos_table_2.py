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

from ..mixers.attention import Attention
from ..mixers.mega import Mega
from ..mixers.pythia import Pythia
from ..mixers.s4 import S4
from ..mixers.spade import Spade
from ..spec import spec
from ._table_study import (
    IMAGE,
    LISTOPS,
    PATHFINDER,
    PATHX,
    RETRIEVAL,
    TEXT,
    Architecture,
    TableStudy,
)
from .recipes.arms import SPT, TIED, Arms, with_model


def unpretrained(arms: Arms) -> Arms:
    """From random weights: those that were trained on other text need a download."""
    return with_model(arms, arms.scratch_model)


PYTHIA = Architecture("Pythia, random weights", Pythia(), "pythia", objective="causal", change=unpretrained)


@spec
class StateOfTheArt(TableStudy):
    """Two arms per architecture."""

    contrasts = ((SPT, TIED),)
    figure = "bars"
    paper = "amos2024"
    tasks = (TEXT, LISTOPS, RETRIEVAL, IMAGE, PATHFINDER, PATHX)
    small_tasks = (TEXT,)
    architectures = (
        Architecture("Transformer", Attention(), "transformer-rotary"),
        Architecture("S4", S4(), "s4"),
        Architecture("MEGA", Mega(), "like:transformer-rotary", small=Mega(keys=32)),
        Architecture("SPADE", Spade(), "like:transformer-rotary", small=Spade(size=16)),
    )
    share = 0.5
    table = "Table 2"
    printed = {
        ("Transformer", TIED): "Transformers + Rotary",
        ("Transformer", SPT): "Transformers + Rotary + Masked SPT",
        ("S4", TIED): "S4",
        ("S4", SPT): "S4 + Masked SPT",
        ("MEGA", TIED): "MEGA",
        ("SPADE", TIED): "SPADE",
        ("Pythia, random weights", TIED): "Pythia 70M (Rand Init)",
    }

    def rows(self, label: str) -> Iterator[Architecture]:
        """With Pythia where it can be had, and was run."""
        yield from self.architectures
        if self.scale == "paper" and label != PATHX and importlib.util.find_spec("transformers"):
            yield PYTHIA


study = StateOfTheArt
