"""Is the denoising task solved early, and does a pretrained network learn the labels faster?

Source: Amos et al. (2024), Figure 5 and appendix D.

Protocol: from Table 8, the runs with 0 and 40 % of the budget in pretraining. Training loss against the step,
and accuracy (of labels or of denoising) against the epoch on training and validation data, for scratch,
pretraining and finetuning.

Expected: pretraining flattens early; finetuning falls faster than training from scratch.

What differs: the paper shows no validation accuracy. Our training accuracy is that of the batches as they are
trained on, dropout included, averaged over a hundredth of the stage. At the small scale networks are causal
and pretrained causally.
"""

from ..config import spec
from ..mixers.attention import Attention
from ..runner.experiment import Finished
from ..system.files import Json
from ..tasks.base import Task
from ..training.cost import Planner
from ..training.recipe import Recipe
from .common.plots import Points, panel
from .common.shares import ShareStudy
from .common.table_study import TableRow

SCRATCH = "from scratch"
SPT = "SPT"


@spec
class Curves(ShareStudy):
    """Two arms: 0 and 40 % of the budget in pretraining."""

    contrasts = ((SPT, SCRATCH),)
    architectures = (TableRow("Transformer", Attention(), "transformer-rotary"),)

    def recipes(self, label: str, task: Task, architecture: TableRow, planner: Planner) -> dict[str, Recipe]:
        """Return the recipes of Table 8 for both shares."""
        shares = super().recipes(label, task, architecture, planner)
        return {SCRATCH: shares["0 %"], SPT: shares["40 %"]}

    def measures(self, finished: Finished) -> list[Json]:
        """Return plots of training loss by step and of accuracy by epoch, for the first seed."""
        plots = []
        for label, of_task in self.own_cells().items():
            cells = {cell.column: cell.recipe for cell in of_task}
            stages = {
                "from scratch": cells[SCRATCH],
                "pretraining": cells[SPT].upto(0),
                "finetuning": cells[SPT],
            }
            losses = {name: _losses(finished.log(recipe)) for name, recipe in stages.items()}
            plots.append(panel(label, "step", "training loss", losses))
            for kind, words in (("train", "training accuracy"), ("val", "validation accuracy")):
                accuracy = {name: _accuracy(finished, recipe, kind) for name, recipe in stages.items()}
                plots.append(panel(f"{label}: labels and denoising", "epoch", words, accuracy))
        return plots


def _losses(log: list[Json]) -> Points:
    lines = [line for line in log if line["kind"] == "train"]
    return [line["step"] for line in lines], [line["loss"] for line in lines]


def _accuracy(finished: Finished, recipe: Recipe, kind: str) -> Points:
    """Return accuracy in [0, 1] (R2 of real values) by epoch; older logs lack that of training."""
    result = finished.result(recipe)
    lines = [line for line in finished.log(recipe) if line["kind"] == kind]
    values = [(line, line.get("accuracy", line.get("r2"))) for line in lines]
    measured = [(line, value) for line, value in values if value is not None]
    epochs = [round(line["step"] * result["epochs"] / result["steps"], 2) for line, _ in measured]
    return epochs, [float(value) for _, value in measured]


study = Curves
