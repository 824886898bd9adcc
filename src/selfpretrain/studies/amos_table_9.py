"""Does self-pretraining help at every size of the network?

Source: Amos et al. (2024), Table 9 (Image).

Protocol: widths and depths that give the sizes, everything else equal; from scratch with the compute of
pretraining and finetuning together, and self-pretrained with the masked objective.

Expected: a gain at every size.

What differs: the paper does not print how its sizes were made; widths and depths here are ones that fit its
labels.
"""

from collections.abc import Iterator
from dataclasses import replace

from ..mixers.attention import Attention
from ..mixers.base import Mixer
from ..mixers.s4 import S4
from ..runner.experiment import Cell
from ..spec import spec
from ..tasks.base import Task
from ._table_study import IMAGE, SPT, TIED, Table, usual_arms, with_model

Sizes = dict[str, tuple[int, int]]
"""Width and depth by the label of the size."""

PAPER: dict[str, tuple[Mixer, Sizes]] = {
    "Transformer": (
        Attention(),
        {"100K": (64, 3), "300K": (96, 4), "1M": (144, 6), "3M": (256, 6), "10M": (448, 6)},
    ),
    "S4": (S4(), {"100K": (64, 6), "300K": (128, 6), "1M": (256, 6), "3M": (512, 6), "10M": (880, 6)}),
}
SMALL: dict[str, tuple[Mixer, Sizes]] = {
    "Transformer": (Attention(), {"10K": (24, 2), "35K": (32, 4), "70K": (64, 2), "140K": (64, 4)})
}

FAMILIES = {"Transformer": "transformer-rotary", "S4": "s4"}


@spec
class Sizing(Table):
    """Two arms per size."""

    contrasts = ((SPT, TIED),)
    figure = "lines"
    paper = "amos2024"
    tasks = (IMAGE,)

    def row(self, label: str, task: Task) -> Iterator[Cell]:
        """At the small scale the Transformer alone."""
        for name, (mixer, sizes) in (PAPER if self.scale == "paper" else SMALL).items():
            arms = self.arms(task, mixer, FAMILIES[name], "masked")
            for size, (width, depth) in sizes.items():
                model = replace(arms.model, width=width, depth=depth)
                made = usual_arms(task, with_model(arms, model))
                family = {"Transformer": "Transformer+Rotary"}.get(name, name)
                for column, after in {TIED: "", SPT: " + Masked SPT"}.items():
                    key = ("Table 9", family + after, size) if self.scale == "paper" else None
                    yield Cell(f"{name} · {size}", column, made[column], printed=key)


study = Sizing
