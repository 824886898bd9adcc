"""A layer of your own beside one that ships: a running mean of the sequence.

python examples/own_layer.py [--scale small] [--runs FOLDER]

From the command line, in the folder of this file: ``selfpretrain compare --task digits --mixers
own_layer:Mean``, and ``selfpretrain check own_layer:Mean`` tries whether it looks ahead or mixes in padding.
"""

import argparse
from pathlib import Path

import torch
from torch import Tensor, nn

import selfpretrain
from selfpretrain.config import spec
from selfpretrain.mixers.base import LayerContext, Mixer


@spec
class Mean(Mixer):
    """Every position hears the mean of the real positions, or of those before it when causal."""

    positions = "sinusoidal"

    def build(self, context: LayerContext) -> nn.Module:
        """The layer."""
        return MeanLayer(context)


class MeanLayer(nn.Module):
    """y[t] = W mean(x[0..t]), or of all positions."""

    def __init__(self, context: LayerContext) -> None:
        super().__init__()
        self.causal, self.out = context.causal, nn.Linear(context.width, context.width)

    def forward(self, x: Tensor, padding_mask: Tensor | None = None) -> Tensor:
        """Positions where ``padding_mask`` is False are padding, which must not be heard."""
        real = torch.ones_like(x[..., :1]) if padding_mask is None else padding_mask[..., None].to(x.dtype)
        total, count = (x * real).cumsum(1), real.cumsum(1)
        if not self.causal:
            total, count = total[:, -1:], count[:, -1:]
        return self.out(total / count.clamp(min=1)).expand_as(x)


def main() -> None:
    """Compare it with attention, trained in the same three ways."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--scale", choices=("smoke", "small"), default="smoke")
    parser.add_argument("--runs", type=Path, default=Path("runs"))
    flags = parser.parse_args()

    seeds = 1 if flags.scale == "smoke" else 3
    results = selfpretrain.compare(
        "digits",
        mixers=("attention", Mean()),
        seeds=seeds,
        scale=flags.scale,
        workspace=selfpretrain.Workspace(flags.runs),  # one stage after the other, in this process
    )
    for run in results.to_rows():
        print(f"{run['row']:12} {run['column']:16} seed {run['seed']}: {100 * run['score']:5.1f} %")
    print(f"report: {results.folder / 'report.html'}")


if __name__ == "__main__":
    main()
