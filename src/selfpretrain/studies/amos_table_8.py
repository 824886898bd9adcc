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

from ..mixers.attention import Attention
from ..mixers.base import Mixer
from ..mixers.s4d import S4D
from ..runner.experiment import Cell
from ..spec import spec
from ..tasks.base import Task
from ..training.recipe import Recipe
from ._table_study import IMAGE, TEXT, Table
from .recipes.printed import Denoising

SHARES = (0, 20, 40, 60)
MODELS: dict[str, tuple[Mixer, str]] = {
    "Transformer": (Attention(), "transformer-rotary"),
    "S4": (S4D(), "s4"),
}


@spec
class Shares(Table):
    """Four shares per architecture."""

    contrasts = (("20 %", "0 %"), ("40 %", "0 %"), ("60 %", "0 %"))
    figure = "bars"
    paper = "amos2024"
    tasks = (IMAGE, TEXT)

    def row(self, label: str, task: Task) -> Iterator[Cell]:
        """On two cores text alone, pretrained causally: masking learns too slowly there."""
        if self.scale != "paper" and label != TEXT:
            return
        objective: Denoising = "masked" if self.scale == "paper" else "causal"
        for name, (mixer, family) in MODELS.items():
            arms = self.arms(task, mixer, family, objective)
            for share in SHARES:
                finetune = self.percent(arms.finetune, label, 100 - share)
                stages = (self.percent(arms.pretrain, label, share), finetune) if share else (finetune,)
                recipe = Recipe(task, arms.model, stages)
                row = "S4D" if name == "S4" and self.scale != "paper" else name
                yield Cell(row, f"{share} %", recipe, printed=("Table 8", f"{share} %", f"{label}, {name}"))


study = Shares
