"""What do the kernels of a state space model look like after self-pretraining?

Source: Amos et al. (2024), Figure 4.

Protocol: S4, bidirectional, started as designed and self-pretrained with the masked objective, before any
finetuning; the largest |K| of any channel and direction at every lag, in every layer.

Expected: decay that differs between layers and tasks, where the start's is always the same.

What differs: at the small scale lags reach 63, and the paper shows odd layers of six only. In long sequences
the first lags are shown one by one, so that the grid of PathX, 128 lags apart, is seen, and all of them in
bins.
"""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from ..config import spec
from ..mixers.s4 import S4
from ..runner.experiment import Finished
from ..system.files import Json
from ..training.model import Network
from ..training.recipe import build_network
from .common.plots import Points, panel
from .common.table_study import IMAGE, LISTOPS, PATHX, TEXT, TableRow, TableStudy
from .recipes.arms import MATCHED, SPT

LAGS = 1024
"""Maximum number of lags shown one by one."""
BINS = 256
"""Number of bins for longer kernels."""


@spec
class Kernels(TableStudy):
    """Two arms; the result is the plot of the pretrained kernels."""

    columns = (MATCHED, SPT)
    tasks = (IMAGE, TEXT, PATHX, LISTOPS)
    small_tasks = (TEXT,)
    architectures = (TableRow("S4", S4(), "s4"),)
    share = 0.5

    def measures(self, finished: Finished) -> list[Json]:
        """Return plots of the kernel envelopes of the first seed, at the start and after pretraining."""
        plots = []
        for label, cells in self.own_cells().items():
            for cell in cells:
                if cell.column == SPT:
                    pretraining = cell.recipe.upto(0)
                    fresh = build_network(finished.as_run(pretraining))
                    states = {"HiPPO": fresh, "SPT": finished.network(pretraining)}
                    plots += _panels(label, states, cell.recipe.task.form.length)
        return plots


def _panels(label: str, states: dict[str, Network], length: int) -> list[Json]:
    layers = {
        name: [envelope(block.get_submodule("mixer"), length) for block in net.blocks]
        for name, net in states.items()
    }
    depth = len(next(iter(layers.values())))
    views = {"": (LAGS, LAGS)}  # suffix of the title -> lags to show, and most points of a curve
    if length > LAGS:
        views[", all lags"] = (length, BINS)
    return [
        panel(
            f"{label}: largest |K| of any channel, layer {i + 1}{suffix}",
            "lag in positions",
            "largest |K|",
            {name: _largest_by_bin(curves[i][:lags], most) for name, curves in layers.items()},
        )
        for suffix, (lags, most) in views.items()
        for i in range(depth)
    ]


@torch.no_grad()
def envelope(layer: nn.Module, length: int) -> Float[Tensor, "L"]:
    """Return the largest |K| over channels and directions at every lag."""
    kernel: Tensor = layer.kernel(length)  # type: ignore[operator]  # of a convolutional mixer
    return kernel.abs().amax((0, 1))


def _largest_by_bin(largest: Tensor, bins: int) -> Points:
    width = -(-len(largest) // bins)
    return range(0, len(largest), width), [float(part.max()) for part in largest.split(width)]


study = Kernels
