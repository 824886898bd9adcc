"""Are hand-made starts of state space models still needed once a model is self-pretrained?

Source: Amos et al. (2024), Table 7 and Figure 2.

Protocol: S4 and DLR; started as designed, or with every parameter drawn from N(0, 0.1); from scratch with
the compute of pretraining and finetuning together, and self-pretrained.

Expected: from scratch the random start costs points, after self-pretraining two or three on average.

What differs: the paper's random start covers gains of norms as well; so it does here. Its DLR has four to
seven times the parameters of its S4; here too, at equal width. At the small scale the networks are causal,
and pretrained with the causal objective.
"""

from collections.abc import Iterator
from dataclasses import replace

from ..mixers.dlr import DLR
from ..mixers.s4 import S4
from ..runner.experiment import Cell
from ..spec import spec
from ..tasks.base import Task
from ._table_study import IMAGE, LISTOPS, PATHX, SCRATCH, SPT, TEXT, TIED, Table, usual_arms, with_model
from .recipes.printed import Denoising


@spec
class Priors(Table):
    """Two starts and three arms per architecture."""

    contrasts = ((SPT, TIED), (SPT, SCRATCH))
    figure = "bars"
    paper = "amos2024"
    tasks = (LISTOPS, TEXT, IMAGE, PATHX)

    def row(self, label: str, task: Task) -> Iterator[Cell]:
        """On two cores text alone, pretrained causally: masking learns too slowly there."""
        if self.scale != "paper" and label != TEXT:
            return
        objective: Denoising = "masked" if self.scale == "paper" else "causal"
        for name, mixer in {"S4": S4(), "DLR": DLR()}.items():
            kind = name.lower()
            random = self.arms(task, mixer, f"{kind}-random", objective)
            starts = {
                name: self.arms(task, mixer, kind, objective),
                f"{name}, random": with_model(random, replace(random.model, init="random")),
            }
            for row, started in starts.items():
                for column, recipe in usual_arms(task, started).items():
                    key = row.replace(", random", " + Rand Init") + (" + SPT" if column == SPT else "")
                    yield Cell(
                        row, column, recipe, printed=None if column == TIED else ("Table 7", key, label)
                    )


study = Priors
