"""Mixers beside public packages for the same layer: time and memory of a pass.

    python benchmarks/mixers.py [--only local,bigbird] [--length 4096] [--width 128] [--batch 2]
    python benchmarks/mixers.py --only library --length 256 --width 64 --batch 8

Forward and backward pass of one layer, one thread, float32, no padding, the same settings on both sides;
peers.py says what differs. Packages that are not installed are left out. "library" stands for the layers
taken out of transformers, beside the library's own PyTorch code with the same weights. passes.py says how is
measured, with freed memory kept for the times. Ratios say how many times as much the package needs; those
below 0.95 are red. Every figure goes to --out at once; the same command goes on from there.
"""

import argparse
import json
import os
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

os.environ["OMP_NUM_THREADS"] = "1"

import torch
from rich.console import Console
from rich.table import Table
from torch import nn

import peers
from passes import Fed, Figures, median_times, memory
from peers import Make
from selfpretrain import __version__
from selfpretrain.mixers.base import LayerContext
from selfpretrain.mixers.common.transformers_layer import TransformersMixer
from selfpretrain.registry import find, names
from selfpretrain.system.startup import keep_memory

HEADS, WARM = 4, 1024
"""Heads of every layer, and positions of the pass that loads libraries, before memory is looked at."""
EVEN = 0.95
"""Ratio below which ours needs more, and not only by chance."""


@dataclass(frozen=True)
class Case:
    """One mixer, and who else offers it."""

    mixer: str
    others: dict[str, Make] = field(default_factory=dict)  # by name of the package
    causal: bool = False

    @property
    def name(self) -> str:
        return f"{self.mixer}-causal" if self.causal else self.mixer

    def sides(self) -> dict[str, Make]:
        """Ours, and those that are installed."""
        return {"ours": self.ours} | {
            package: make for package, make in self.others.items() if there(package)
        }

    def ours(self, width: int, heads: int, length: int) -> nn.Module:
        return find("mixers", self.mixer)().build(LayerContext(width, length, self.causal))


CASES = {
    case.name: case
    for case in (
        Case("attention", {"torch (L x L matrix)": peers.squares, "torch": peers.torch_attention}),
        Case("local", {"local-attention": peers.local}),
        Case("window", {"transformers": peers.windowed(reach=128, first=0)}),
        Case("longformer", {"transformers": peers.windowed(reach=256, first=1)}),
        Case("bigbird", {"transformers": peers.bigbird}),
        Case("linformer", {"linformer": peers.linformer}),
        Case("linear", {"linear-attention-transformer": peers.linear}),
        Case("performer", {"performer-pytorch": peers.performer(causal=False)}),
        Case("performer", {"performer-pytorch": peers.performer(causal=True)}, causal=True),
        Case("nystromformer", {"nystrom-attention": peers.nystrom, "transformers": peers.nystrom_hf}),
        Case("reformer", {"reformer-pytorch": peers.reformer, "transformers": peers.reformer_hf}),
        Case("sinkhorn", {"sinkhorn-transformer": peers.sinkhorn}),
        Case("fnet", {"transformers": peers.fnet}),
        Case("mega", {"mega-pytorch": peers.mega}),
        Case("mamba2", {"transformers": peers.mamba2}, causal=True),
    )
}
LIBRARY = {
    name: Case(name, {"transformers": peers.library(name)}, causal=True)
    for name in names("mixers")
    if issubclass(find("mixers", name), TransformersMixer)
}


def there(package: str) -> bool:
    try:
        return bool(version(package.partition(" ")[0]))
    except PackageNotFoundError:
        return False


def fed(make: Make, length: int, arguments: argparse.Namespace) -> nn.Module:
    torch.manual_seed(0)
    layer = make(arguments.width, HEADS, length).train()
    return Fed(layer, arguments.batch, length, arguments.width)


def measure(what: str, arguments: argparse.Namespace) -> dict[str, float]:
    """What a fresh process answers: times of all sides, or the memory of one."""
    torch.set_num_threads(1)
    name, side = what.split("/")
    sides = (CASES | LIBRARY)[name].sides()
    if side:
        warm = min(WARM, arguments.length // 4)
        return {side: memory(lambda n: fed(sides[side], n, arguments), warm, arguments.length)}
    keep_memory()
    modules = {side: fed(make, arguments.length, arguments) for side, make in sides.items()}
    return median_times(modules, arguments.seconds)


def collect(arguments: argparse.Namespace) -> Table:
    """All figures, those in --out as they are."""
    figures = Figures(arguments.out)
    heads = ("mixer", "package", "ms, ours", "package", "ratio", "MB, ours", "package", "ratio")
    title = f"Forward and backward, L {arguments.length}, D {arguments.width}, B {arguments.batch}"
    table = Table(*heads, title=title)
    for name in [*LIBRARY] if arguments.only == "library" else arguments.only.split(","):
        sides = (CASES | LIBRARY)[name].sides()
        spent = figures.find(f"{name}/")
        needed = {side: value for side in sides for value in figures.find(f"{name}/{side}").values()}
        for side in list(sides)[1:]:
            table.add_row(name, side, *pair(spent, side, 1e3), *pair(needed, side, 1e-6))
    return table


def pair(found: dict[str, float], side: str, factor: float) -> tuple[str, str, str]:
    """Ours, theirs and how many times as much that is."""
    if "ours" not in found or side not in found:
        return "-", "-", "-"
    ours, theirs = found["ours"], found[side]
    colour = "red" if theirs < EVEN * ours else "green"
    return f"{ours * factor:,.0f}", f"{theirs * factor:,.0f}", f"[{colour}]{theirs / ours:.2f}[/]"


def main() -> None:
    """Measure what is asked for, one fresh process per case and per amount of memory, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default=",".join(CASES), help="mixers, comma-separated")
    parser.add_argument("--length", type=int, default=4096)
    parser.add_argument("--width", type=int, default=128)
    parser.add_argument("--batch", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=6.0, help="processor time per case")
    parser.add_argument("--out", type=Path, help="JSON of all figures; those in it are not measured again")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child:
        print(json.dumps(measure(arguments.child, arguments)))
        return
    packages = sorted({p.partition(" ")[0] for case in CASES.values() for p in case.others if there(p)})
    print(f"selfpretrain {__version__}, {', '.join(f'{p} {version(p)}' for p in packages)}")
    Console(width=120).print(collect(arguments))
    print(f"load of this machine: {', '.join(f'{load:.1f}' for load in os.getloadavg())}")


if __name__ == "__main__":
    main()
