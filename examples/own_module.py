"""A layer of your own, an ordinary torch module, beside one that ships.

python examples/own_module.py [--scale small] [--runs FOLDER]

From the command line, in the folder of this file: ``selfpretrain compare --task digits --mixers
own_module:Conv``, and ``selfpretrain check own_module:Conv`` tests whether it looks ahead or mixes in
padding.
"""

import argparse
from pathlib import Path

from torch import Tensor, nn

import selfpretrain


class Conv(nn.Module):
    """Convolution over nine positions, then a linear layer."""

    def __init__(self, width: int, causal: bool = False) -> None:
        super().__init__()
        self.conv = nn.Conv1d(width, width, 9, padding=8 if causal else 4, groups=width)
        self.out = nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        """Map (batch, length, width) to the same shape; padded positions are zeros."""
        return self.out(self.conv(x.mT)[..., : x.shape[1]].mT)


def main() -> None:
    """Compare it with attention, trained in the same three ways."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--scale", choices=("smoke", "small"), default="smoke")
    parser.add_argument("--runs", type=Path, default=Path("runs"))
    flags = parser.parse_args()

    results = selfpretrain.compare(
        "digits",
        mixers=("attention", "own_module:Conv"),
        seeds=1 if flags.scale == "smoke" else 3,
        scale=flags.scale,
        workspace=selfpretrain.Workspace(flags.runs),  # one stage after the other, in this process
    )
    for run in results.to_rows():
        print(f"{run['row']:12} {run['column']:16} seed {run['seed']}: {100 * run['score']:5.1f} %")
    print(f"report: {results.folder / 'report.html'}")


if __name__ == "__main__":
    main()
