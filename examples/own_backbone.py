"""A whole network of your own, self-pretrained here, whose weights go on in your own program.

python examples/own_backbone.py [--scale auto] [--runs FOLDER]

The network is a residual network for pictures, with the layout of torchvision's: a stem, then ``layer1`` and
so on, each a sequence of blocks. Only ``Rows`` knows that pictures come as sequences of pixels. From the
command line, in the folder of this file: ``selfpretrain compare --task digits --mixers own_backbone:make``,
then ``selfpretrain model take ... --backbone weights.safetensors``.
"""

import argparse
import math
from pathlib import Path

from safetensors.torch import load_file
from torch import Tensor, nn

import selfpretrain


class BasicBlock(nn.Module):
    """Two convolutions and a residual path, with group norms: batch norms would mix sequences."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(width, width, 3, padding=1, bias=False)
        self.bn1 = nn.GroupNorm(1, width)
        self.conv2 = nn.Conv2d(width, width, 3, padding=1, bias=False)
        self.bn2 = nn.GroupNorm(1, width)

    def forward(self, x: Tensor) -> Tensor:
        """Map (batch, width, height, width of the picture) to the same shape."""
        y = self.bn1(self.conv1(x)).relu()
        return (x + self.bn2(self.conv2(y))).relu()


class ResNet(nn.Module):
    """A stem and ``depth`` stages of two blocks."""

    def __init__(self, width: int, depth: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(width, width, 3, padding=1)
        for stage in range(1, depth + 1):
            self.add_module(f"layer{stage}", nn.Sequential(BasicBlock(width), BasicBlock(width)))

    def forward(self, x: Tensor) -> Tensor:
        """Apply all stages."""
        for module in self.children():
            x = module(x)
        return x


class Rows(nn.Module):
    """A network for square pictures as one for sequences of their pixels, row by row."""

    def __init__(self, net: nn.Module, length: int) -> None:
        super().__init__()
        self.net = net
        self.side = math.isqrt(length)

    def forward(self, x: Tensor) -> Tensor:
        """Map (batch, pixels, width) to the same shape."""
        return self.net(x.mT.unflatten(2, (self.side, self.side))).flatten(2).mT


def make(width: int, depth: int, length: int) -> nn.Module:
    """Return the network: ``depth`` makes it a whole one, ``length`` fixes the size of the picture."""
    return Rows(ResNet(width, depth), length)


def main() -> None:
    """Train a classifier of digits with it, write its weights, and load them into a fresh network."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--scale", choices=("smoke", "auto"), default="smoke")
    parser.add_argument("--runs", type=Path, default=Path("runs"))
    flags = parser.parse_args()

    estimator = selfpretrain.SequenceClassifier(
        mixer="own_backbone:make", scale=flags.scale, runs=flags.runs
    ).fit("digits")
    print(f"accuracy {100 * estimator.score('digits'):.1f} %")
    weights = flags.runs / "weights.safetensors"
    print(estimator.save_backbone(weights))

    mine = make(width=16 if flags.scale == "smoke" else 64, depth=2, length=64)
    mine.load_state_dict(load_file(weights))
    print(f"trained: {mine.net}")


if __name__ == "__main__":
    main()
