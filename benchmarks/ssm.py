"""State space kernels, convolution and layer: ours beside the published code.

    python benchmarks/ssm.py [--s4 DIR] [--dlr DIR] [--mega DIR] [--only s4,ema] [--lengths 1024,4096,16384]

DIR are checkouts, see published.py; without them ours alone is measured. Forward and backward pass, one
thread, float32, the published code on its plain PyTorch path. passes.py says how is measured; times are with
freed memory kept for both, as ``spt`` keeps it, and with the allocator's default for both. Errors are
max |x - x64| / max |x64| of the output and, in brackets, of the worst gradient, against the same code and
parameters in float64, with 16 channels. From 16384 positions on, the published S4 and S4D kernels are
measured on a quarter of the channels and scaled (marked *): the whole would need 11 GB.

Every figure goes to --out at once; the same command goes on from there.
"""

import argparse
import copy
import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

os.environ["OMP_NUM_THREADS"] = "1"

import torch
from rich.console import Console
from rich.table import Table
from torch import Tensor, nn

import published
from passes import Fed, Figures, median_times, memory, one_pass
from selfpretrain import __version__
from selfpretrain.mixers.base import LayerContext
from selfpretrain.mixers.ops.longconv import two_sided_conv
from selfpretrain.registry import find
from selfpretrain.system.startup import keep_memory

BATCH, SMALL, WARM = 8, 16, 64
ROUNDS = (2, 15)
"""Passes per side behind a median."""
SCALED_FROM, SHARE = 16_384, 4
Make = Callable[[int, int], nn.Module]  # (width, length) -> a module without inputs


@dataclass(frozen=True)
class Case:
    """One thing to measure."""

    name: str
    says: str
    source: str  # which published code
    width: int
    ours: Make
    theirs: Callable[[ModuleType, int, int], nn.Module]  # (code, width, length)


class Kernel(nn.Module):
    """A layer of ours, asked for its kernel."""

    def __init__(self, mixer: str, place: LayerContext, states: int) -> None:
        super().__init__()
        self.layer, self.length = find("mixers", mixer)(states=states).build(place), place.length

    def forward(self) -> Tensor:
        return self.layer.kernel(self.length)


class Convolution(nn.Module):
    """Our convolution in both directions, with the skip connection."""

    def __init__(self, kernel: nn.Parameter, skip: nn.Parameter) -> None:
        super().__init__()
        self.kernel, self.skip = kernel, skip

    def forward(self, x: Tensor) -> Tensor:
        return two_sided_conv(x, self.kernel[0], self.kernel[1]) + self.skip * x


def our_kernel(mixer: str, states: int = 64, rows: int = 1) -> Make:
    return lambda width, length: Kernel(mixer, LayerContext(width, length, causal=rows == 1), states)


def our_layer(width: int, length: int) -> nn.Module:
    return Fed(find("mixers", "s4")().build(LayerContext(width, length)), BATCH, length, width)


def fresh_kernel(width: int, length: int) -> tuple[nn.Parameter, nn.Parameter]:
    decay = torch.linspace(0, 5, length).neg().exp()
    return nn.Parameter(torch.randn(2, width, length) * decay), nn.Parameter(torch.randn(width))


def our_convolution(width: int, length: int) -> nn.Module:
    return Fed(Convolution(*fresh_kernel(width, length)), BATCH, length, width)


def their_layer(code: ModuleType, width: int, length: int) -> nn.Module:
    return Fed(published.s4_layer(code, width, length), BATCH, length, width)


def their_convolution(code: ModuleType, width: int, length: int) -> nn.Module:
    return Fed(published.convolution(code, *fresh_kernel(width, length)), BATCH, length, width)


CASES = {
    case.name: case
    for case in (
        Case("s4", "S4 kernel, H 128, N 64", "s4", 128, our_kernel("s4"), published.s4_kernel),
        Case("s4-two", "S4, both directions", "s4", 128, our_kernel("s4", rows=2), published.s4_kernels),
        Case("s4d", "S4D kernel, H 128, N 64", "s4", 128, our_kernel("s4d"), published.s4d_kernel),
        Case("dlr", "DLR kernel, H 128, N 1024", "dlr", 128, our_kernel("dlr", 1024), published.dlr_kernel),
        Case("ema", "EMA kernel, H 256, 16 terms", "mega", 256, our_kernel("ema", 16), published.ema_kernel),
        Case("conv", "FFT convolution, B 8, H 128", "s4", 128, our_convolution, their_convolution),
        Case("layer", "S4 layer, B 8, H 128", "s4", 128, our_layer, their_layer),
    )
}
SCALED = ("s4", "s4-two", "s4d")
"""Cases of which a part of the channels is enough: their time and memory grow with the width alone."""


def makers(case: Case, checkouts: dict[str, Path]) -> dict[str, Make]:
    """The sides that can be measured: theirs needs the checkout."""
    found = {"ours": case.ours}
    if case.source in checkouts:
        code = published.load(case.source, checkouts[case.source])
        found["theirs"] = lambda width, length: case.theirs(code, width, length)
    return found


def share(case: Case, side: str, length: int) -> int:
    """What part of the width is measured in place of the whole."""
    return SHARE if side == "theirs" and case.name in SCALED and length >= SCALED_FROM else 1


def error(make: Make, length: int) -> tuple[float, float]:
    """Largest error relative to the largest value: of the output, and of the worst gradient."""
    torch.manual_seed(0)
    module = make(SMALL, length)
    wide = copy.deepcopy(module).double()
    weight = torch.randn_like(module().detach())
    y, y64 = one_pass(module, weight), one_pass(wide, weight)
    pairs = [(p.grad, q.grad) for p, q in zip(module.parameters(), wide.parameters(), strict=True)]
    return distance(y, y64), max(distance(g, g64) for g, g64 in pairs if g is not None)


def distance(x: Tensor, x64: Tensor) -> float:
    return float((x - x64).detach().abs().max() / x64.detach().abs().max())


def measure(case: Case, what: str, length: int, arguments: argparse.Namespace) -> dict[str, object]:
    """What a fresh process answers."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    sides = makers(case, checkouts(arguments))
    if what in ("tuned", "default"):
        if what == "tuned" and not keep_memory():
            return {}
        parts = {side: share(case, side, length) for side in sides}
        modules = {side: make(case.width // parts[side], length) for side, make in sides.items()}
        found = median_times(modules, arguments.seconds, ROUNDS)
        return {side: seconds * parts[side] for side, seconds in found.items()}
    if what == "error":
        return {side: error(make, length) for side, make in sides.items()}
    side = what.removeprefix("memory ")
    if side not in sides:
        return {}
    part = share(case, side, length)
    return {side: part * memory(lambda n: sides[side](case.width // part, n), WARM, length)}


def checkouts(arguments: argparse.Namespace) -> dict[str, Path]:
    return {name: Path(vars(arguments)[name]) for name in published.FILES if vars(arguments)[name]}


KINDS = ("tuned", "default", "memory ours", "memory theirs", "error")


def time_row(case: Case, length: int, found: dict[str, dict]) -> list[str]:
    cells = [case.says, size(case, length)]
    for kind in ("tuned", "default"):
        cells += [*(amount(found[kind], side, 1e3) for side in ("ours", "theirs")), ratio(found[kind])]
    return cells


def memory_row(case: Case, length: int, found: dict[str, dict]) -> list[str]:
    both = found["memory ours"] | found["memory theirs"]
    cells = [case.says, size(case, length), *(amount(both, side, 1e-6) for side in ("ours", "theirs"))]
    cells.append(ratio(both))
    for side in ("ours", "theirs"):
        value, worst = found["error"].get(side, (None, None))
        cells.append("-" if value is None else f"{value:.1e} ({worst:.1e})")
    return cells


def size(case: Case, length: int) -> str:
    return f"{length}{'*' if share(case, 'theirs', length) > 1 else ''}"


def amount(found: dict, side: str, factor: float) -> str:
    return f"{found[side] * factor:,.1f}" if side in found else "-"


def ratio(found: dict) -> str:
    return f"{found['theirs'] / found['ours']:.1f}x" if found.get("ours") and found.get("theirs") else "-"


def main() -> None:
    """Measure what is asked for, one fresh process per figure, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for name in published.FILES:
        parser.add_argument(f"--{name}", metavar="DIR", help=f"checkout that holds {published.FILES[name]}")
    parser.add_argument("--only", default=",".join(CASES), help="cases, comma-separated")
    parser.add_argument("--lengths", default="1024,4096,16384")
    parser.add_argument("--what", default=",".join(KINDS), help="figures, comma-separated")
    parser.add_argument("--seconds", type=float, default=8.0, help="processor time per pair of medians")
    parser.add_argument("--out", type=Path, help="JSON of all figures; those in it are not measured again")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child:
        name, what, length = arguments.child.split("/")
        print(json.dumps(measure(CASES[name], what, int(length), arguments)))
        return
    print(f"selfpretrain {__version__}, torch {torch.__version__}")
    for name, checkout in checkouts(arguments).items():
        print(f"{name}: {published.version(name, checkout)}")
    for table in collect(arguments):
        Console(width=140).print(table)


def collect(arguments: argparse.Namespace) -> tuple[Table, Table]:
    """All figures, those in --out as they are, in two tables."""
    figures = Figures(arguments.out)
    head = ("case", "L", "ours", "published", "ratio")
    spent = Table(*head, "ours", "published", "ratio", title="Time in ms: memory kept | allocator's default")
    needed = Table(*head, "ours", "published", title="Memory in MB | error of output (gradient)")
    for case in (CASES[name] for name in arguments.only.split(",")):
        for length in map(int, arguments.lengths.split(",")):
            asked = arguments.what.split(",")
            found = {
                what: figures.find(f"{case.name}/{what}/{length}") if what in asked else {} for what in KINDS
            }
            spent.add_row(*time_row(case, length, found))
            needed.add_row(*memory_row(case, length, found))
    return spent, needed


if __name__ == "__main__":
    main()
