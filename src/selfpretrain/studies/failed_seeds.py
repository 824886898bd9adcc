"""How often does training never leave chance, from scratch and with self-pretraining?

Source: our question; published runs of Long Range Arena mostly have one seed, and reports of runs that
never leave chance are common for PathX.

Protocol: scratch, scratch with the compute of self-pretraining, and masked self-pretraining; a run has failed
where its test score is within two standard errors of always answering with the commonest class.

Expected: fewer failures with self-pretraining.

What differs: no paper counts them.
"""

import numpy as np

from ..config import spec
from ..mixers.attention import Attention
from ..runner.experiment import Finished
from ..system.files import Json
from ..tasks.base import Task
from ..training.evaluate import load_test
from .common.plots import due_runs
from .common.table_study import LRA, TableRow, TableStudy


@spec
class FailedSeeds(TableStudy):
    """Three arms per task."""

    tasks = LRA
    architectures = (TableRow("Transformer", Attention(), "transformer-dagger"),)

    def measures(self, finished: Finished) -> list[Json]:
        """Return a plot of the share of failed seeds by arm and task."""
        series: dict[str, list[float]] = {}
        by_task = self.own_cells()
        for cells in by_task.values():
            limit = chance_accuracy(cells[0].recipe.task)
            for cell in cells:
                runs = due_runs(finished, cell.recipe, self.seeds)
                scores = [finished.result(recipe)["scores"]["test"]["score"] for recipe in runs]
                series.setdefault(cell.column, []).append(float(np.mean([s < limit for s in scores])))
        x = list(by_task)
        curves = [{"label": column, "x": x, "y": shares} for column, shares in series.items()]
        return [{"title": "Runs at chance", "x": "", "y": "share of seeds", "series": curves}]


def chance_accuracy(task: Task) -> float:
    """Return the test accuracy of chance level: share of the commonest class plus two standard errors."""
    targets = load_test(task).targets.numpy()
    targets = targets[targets >= 0].astype(int)
    share = np.bincount(targets).max() / len(targets)
    return float(share + 2 * np.sqrt(share * (1 - share) / len(targets)))


study = FailedSeeds
