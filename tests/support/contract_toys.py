"""A mixer with one fault at a time, for the probes to find."""

import torch
import torch.nn.functional as F
from torch import nn

from selfpretrain.config import spec
from selfpretrain.mixers.base import LayerContext, Mixer
from selfpretrain.shapes import PaddingMask, Vectors

TABLE, FAR = 64, 700


@spec
class Faulty(Mixer):
    """Means of the past, and a fault."""

    fault: str = ""

    def build(self, context: LayerContext) -> nn.Module:
        """The layer."""
        return Means(context.width, self.fault)


@spec
class Future(Faulty):
    """The same with a look ahead, though it may be asked to be causal."""

    fault: str = "future"


class Loud(nn.Linear):
    """A layer that prints."""

    def __init__(self, width: int) -> None:
        super().__init__(width, width)

    def forward(self, x: Vectors) -> Vectors:
        """The layer's output, and a line."""
        print("shape", x.shape)
        return super().forward(x)


class Means(nn.Module):
    """The module of ``Faulty``, also made from a width alone."""

    def __init__(self, width: int, fault: str = "") -> None:
        super().__init__()
        self.fault, self.out = fault, nn.Linear(width, width)
        self.table = nn.Parameter(torch.zeros(TABLE, width)) if fault == "table" else None
        self.dead = nn.Parameter(torch.zeros(width)) if fault == "dead" else None
        self.norm = nn.BatchNorm1d(width) if fault in ("norm", "silent norm") else None
        self.zero = nn.Parameter(torch.zeros(width)) if fault == "zero" else None
        self.gate = nn.Linear(width, width) if fault.startswith("silent") else None
        if self.gate is not None:
            nn.init.zeros_(self.gate.weight)
        self.before = torch.zeros(width)

    def forward(self, x: Vectors, padding_mask: PaddingMask = None) -> Vectors:
        """Means of the past, with a fault."""
        u = x if padding_mask is None else x * padding_mask[..., None]
        y = self.out(u.cumsum(1) / torch.arange(1, 1 + x.shape[1])[:, None])
        return FAULTS[self.fault](self, x, u, y)


def _beside_the_output_before(layer: Means, y: Vectors) -> Vectors:
    before, layer.before = layer.before, y.detach()
    return y + before


def _beside_the_batch_before(layer: Means, y: Vectors) -> Vectors:
    before, layer.before = layer.before, y.detach().mean((0, 1))
    return y + before if layer.training else y


FAULTS = {
    "": lambda layer, x, u, y: y,
    "dead": lambda layer, x, u, y: y,
    "zero": lambda layer, x, u, y: y / (layer.zero == 0),
    "future": lambda layer, x, u, y: y + F.pad(u[:, 1:], (0, 0, 0, 1)),
    "padding": lambda layer, x, u, y: y + x.flip(1).cumsum(1).flip(1),
    "padded length": lambda layer, x, u, y: y / x.shape[1],
    "batch": lambda layer, x, u, y: y + u.sum((0, 1)),
    "norm": lambda layer, x, u, y: layer.norm(y.mT).mT,
    "noise": lambda layer, x, u, y: y + torch.rand_like(y),
    "table": lambda layer, x, u, y: y + layer.table[: x.shape[1]],
    "cut": lambda layer, x, u, y: y[:, :TABLE],
    "blocks": lambda layer, x, u, y: y + u.unflatten(1, (-1, 4)).flatten(1, 2),
    "single": lambda layer, x, u, y: y + layer.out(u.float()),
    "rounding": lambda layer, x, u, y: (
        y + torch.fft.irfft(torch.fft.rfft(u.float(), 99, 1), 99, 1)[:, : x.shape[1]]
    ),
    "future with a mask": lambda layer, x, u, y: FAULTS["" if u is x else "future"](layer, x, u, y),
    "future of a remainder": lambda layer, x, u, y: FAULTS["future" if x.shape[1] % 8 else ""](
        layer, x, u, y
    ),
    "silent": lambda layer, x, u, y: layer.gate(y),
    "silent future": lambda layer, x, u, y: layer.gate(FAULTS["future"](layer, x, u, y)),
    "silent batch": lambda layer, x, u, y: layer.gate(FAULTS["batch"](layer, x, u, y)),
    "silent padding": lambda layer, x, u, y: layer.gate(FAULTS["padding"](layer, x, u, y)),
    "faint future": lambda layer, x, u, y: 1e-5 * FAULTS["future"](layer, x.float(), u.float(), y),
    "silent norm": lambda layer, x, u, y: layer.gate(layer.norm(y.mT).mT),
    "past alone": lambda layer, x, u, y: F.pad(y[:, :-1], (0, 0, 1, 0)) + 1e-14 * x.mean(),  # rounding
    "output before": lambda layer, x, u, y: _beside_the_output_before(layer, y),
    "longest": lambda layer, x, u, y: y + (u != 0).any(2).sum(1).max(),
    "batch before": lambda layer, x, u, y: _beside_the_batch_before(layer, y),
    "nan": lambda layer, x, u, y: y * torch.nan,
    "far": lambda layer, x, u, y: y + F.pad(u[:, FAR + 1 :], (0, 0, FAR, 1)) if x.shape[1] > FAR + 1 else y,
    "far in training": lambda layer, x, u, y: FAULTS["far" if layer.training else ""](layer, x, u, y),
}
"""What is wrong, given inputs, inputs without padding, and sound outputs."""
