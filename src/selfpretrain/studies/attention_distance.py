"""Does self-pretraining make attention look near?

Source: our question.

Related: Coser et al. (2026), arXiv 2605.21070, whose abstract, all that we have read of it, speaks of
proximity in pretrained attention. Coser & Orvieto (2025) do not.

Protocol: mean distance between a position and those it attends to, weighted by attention, averaged over
validation sequences, heads and positions of a layer; freshly started, after pretraining, after finetuning,
and from scratch.

Expected: pretrained attention looks nearer than a fresh one, and nearer than one trained from scratch.

What differs: one seed; distances are in positions of the sequence, also where it is an image.
"""

import torch

from ..config import spec
from ..mixers.attention import Attention
from ..runner.experiment import Finished
from ..system.files import Json
from ..tasks.base import Task
from ..training.model import Network
from ..training.recipe import build_network
from .common.table_study import IMAGE, LISTOPS, TEXT, TableRow, TableStudy
from .recipes.arms import MATCHED, SPT

SEQUENCES = 64
"""Number of validation sequences that are measured."""


@spec
class AttentionDistance(TableStudy):
    """Two arms, and the attention distance of their networks."""

    columns = (MATCHED, SPT)
    tasks = (LISTOPS, TEXT, IMAGE)
    architectures = (TableRow("Transformer", Attention(), "transformer-dagger"),)

    def measures(self, finished: Finished) -> list[Json]:
        """Return plots of the attention distance by layer, one curve per state of training."""
        plots = []
        for label, of_task in self.own_cells().items():
            cells = {cell.column: cell.recipe for cell in of_task}
            networks = {
                "fresh": build_network(finished.as_run(cells[MATCHED])),
                "from scratch": finished.network(cells[MATCHED]),
                "pretrained": finished.network(cells[SPT].upto(0)),
                "finetuned": finished.network(cells[SPT]),
            }
            task = cells[SPT].task
            distances = {name: attention_distance(network, task) for name, network in networks.items()}
            series = [{"label": k, "x": list(range(1, len(y) + 1)), "y": y} for k, y in distances.items()]
            plots.append({"title": label, "x": "layer", "y": "mean distance in positions", "series": series})
        return plots


@torch.no_grad()
def attention_distance(network: Network, task: Task) -> list[float]:
    """Return the mean distance of every layer in positions: sum_s a[t, s] |t - s|.

    It is averaged over positions t without padding, heads and ``SEQUENCES`` validation sequences.
    """
    data = task.load("val")
    batch = data.batch(torch.arange(min(SEQUENCES, len(data))))
    weights: list[torch.Tensor] = []
    hooks = [
        block.get_submodule("mixer").register_forward_pre_hook(
            lambda layer, arguments: weights.append(layer.weights(*arguments))
        )
        for block in network.blocks
    ]
    network.features(batch.inputs, batch.padding_mask)
    for hook in hooks:
        hook.remove()
    position = torch.arange(weights[0].shape[-1], dtype=torch.float32)
    distances = (position[:, None] - position).abs()
    real = batch.real()[:, None].float()
    means = [((w * distances).sum(-1) * real).sum() / (real.sum() * w.shape[1]) for w in weights]
    return [round(float(mean), 3) for mean in means]


study = AttentionDistance
