"""Is the denoising task solved early, and does a pretrained network learn the labels faster?

Source: Amos et al. (2024), Figure 5 and appendix D.

Protocol: the runs of Table 8 with 0 and 40 % of the budget in pretraining: loss while training, from
scratch, in pretraining and in finetuning, against the step.

Expected: pretraining flattens early; finetuning falls faster than training from scratch.

What differs: the paper draws accuracy on training data, here it is the training loss that was minimised. At
the small scale networks are causal and pretrained causally.
"""

from ..mixers.attention import Attention
from ..runner.experiment import Finished
from ..spec import spec
from ..system.files import Json
from ..tasks.base import Task
from ..training.recipe import Recipe
from ._table_study import IMAGE, TEXT, Architecture, TableStudy

SCRATCH, SPT = "from scratch", "SPT"
SHARE = 40
"""Percent of the budget that goes into pretraining."""


@spec
class Curves(TableStudy):
    """Two of the shares of Table 8."""

    contrasts = ((SPT, SCRATCH),)
    tasks = (IMAGE, TEXT)
    small_tasks = (TEXT,)
    small_objective = {TEXT: "causal"}
    architectures = (Architecture("Transformer", Attention(), "transformer-rotary"),)

    def recipes(self, label: str, task: Task, architecture: Architecture) -> dict[str, Recipe]:
        """The recipes of Table 8."""
        arms = self.arms(label, task, architecture)
        whole = self.percent(arms.finetune, label, 100)
        split = (self.percent(arms.pretrain, label, SHARE), self.percent(arms.finetune, label, 100 - SHARE))
        return {SCRATCH: Recipe(task, arms.model, (whole,)), SPT: Recipe(task, arms.model, split)}

    def measures(self, finished: Finished) -> list[Json]:
        """Training loss of the first seed against the step of its stage."""
        found = []
        for label, task in self.at_hand().items():
            cells = {cell.column: cell.recipe for cell in self.part(label, task)}
            logs = {
                "from scratch": finished.log(cells[SCRATCH]),
                "pretraining": finished.log(cells[SPT].upto(0)),
                "finetuning": finished.log(cells[SPT]),
            }
            series = [{"label": name, **_losses(log)} for name, log in logs.items()]
            found.append({"title": label, "x": "step", "y": "training loss", "series": series})
        return found


def _losses(log: list[Json]) -> Json:
    lines = [line for line in log if line["kind"] == "train"]
    return {"x": [line["step"] for line in lines], "y": [float(f"{line['loss']:.4g}") for line in lines]}


study = Curves
