"""State space kernels, convolution and layer: ours beside the published code.

    python benchmarks/ssm.py [--s4 DIR] [--dlr DIR] [--mega DIR] [--only s4,ema] [--lengths 1024,4096,16384]

DIR are checkouts, see published.py; without them ours alone is measured. Forward and backward pass, one
thread, float32, the published code on its plain PyTorch path.

Times are medians of processor time, both sides taking turns in one process: with freed memory kept for
both, as ``spt`` keeps it, and with the allocator's default for both. Memory is the growth of the peak of the
resident set in a fresh process with the default allocator. Errors are max |x - x64| / max |x64| of the output
and, in brackets, of the worst gradient, against the same code and parameters in float64, with 16 channels.
From 16384 positions on, the published S4 and S4D kernels are measured on a quarter of the channels and
scaled (marked *): the whole would need 11 GB. A figure that misses 80 % of its goal, or an error beyond it,
is red.

Every figure goes to --out at once; the same command goes on from there.
"""

import argparse
import copy
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

os.environ["OMP_NUM_THREADS"] = "1"

import published
import torch
from rich.console import Console
from rich.table import Table
from torch import Tensor, nn

from selfpretrain import __version__
from selfpretrain.mixers.base import LayerContext
from selfpretrain.mixers.ops.longconv import two_sided_conv
from selfpretrain.registry import find
from selfpretrain.system.hardware import peak_memory
from selfpretrain.system.startup import keep_memory

BATCH, SMALL, WARM = 8, 16, 64
FEWEST, MOST = 2, 15
"""Passes per side behind a median."""
SCALED_FROM, SHARE = 16_384, 4
Make = Callable[[int, int], nn.Module]  # (width, length) -> a module without inputs


@dataclass(frozen=True)
class Goal:
    """How much better than the published code: time (tuned, default allocator), memory; and our error."""

    speed: float | None = None
    default: float | None = None
    memory: float | None = None
    error: float | None = None


GOALS = {
    ("s4", 1024): Goal(4, None, 10, 2e-5),
    ("s4", 4096): Goal(25, None, 40, 2e-5),
    ("s4", 16384): Goal(80, None, 100, 2e-5),
    ("s4d", 4096): Goal(25, None, 15, 1e-6),
    ("s4d", 16384): Goal(50, None, 15, 1e-6),
    ("dlr", 1024): Goal(2.5, None, 2, 2e-6),
    ("dlr", 4096): Goal(3.5, None, 2, 2e-6),
    ("dlr", 16384): Goal(5, None, 6, 2e-6),
    ("ema", 4096): Goal(35, None, 20, 1e-6),
    ("conv", 4096): Goal(1.6, 3.3, 1.6, 1e-6),
    ("layer", 4096): Goal(10, 17, 6, 1e-5),
}


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


class Fed(nn.Module):
    """A layer with its input, which gets a gradient too."""

    def __init__(self, layer: nn.Module, width: int, length: int) -> None:
        super().__init__()
        self.layer, self.x = layer, nn.Parameter(torch.randn(BATCH, length, width))

    def forward(self) -> Tensor:
        y = self.layer(self.x)
        return y[0] if isinstance(y, tuple) else y


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
    return Fed(find("mixers", "s4")().build(LayerContext(width, length)), width, length)


def fresh_kernel(width: int, length: int) -> tuple[nn.Parameter, nn.Parameter]:
    decay = torch.linspace(0, 5, length).neg().exp()
    return nn.Parameter(torch.randn(2, width, length) * decay), nn.Parameter(torch.randn(width))


def our_convolution(width: int, length: int) -> nn.Module:
    return Fed(Convolution(*fresh_kernel(width, length)), width, length)


def their_layer(code: ModuleType, width: int, length: int) -> nn.Module:
    return Fed(published.s4_layer(code, width, length), width, length)


def their_convolution(code: ModuleType, width: int, length: int) -> nn.Module:
    return Fed(published.convolution(code, *fresh_kernel(width, length)), width, length)


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


def one_pass(module: nn.Module, weight: Tensor | None = None) -> Tensor:
    """Forward and backward; the output."""
    module.zero_grad(set_to_none=True)
    y = module()
    torch.autograd.backward(y, torch.ones_like(y) if weight is None else weight.to(y))
    return y.detach()


def times(case: Case, sides: dict[str, Make], length: int, seconds: float) -> dict[str, float]:
    """Median processor time of a pass per side, in turns."""
    modules = {name: make(case.width // share(case, name, length), length) for name, make in sides.items()}
    taken: dict[str, list[float]] = {name: [] for name in modules}
    for module in modules.values():
        one_pass(module)
    start = time.process_time()
    for turn in range(MOST):
        if turn >= FEWEST and time.process_time() - start > seconds:
            break
        for name, module in modules.items():
            begin = time.process_time()
            one_pass(module)
            taken[name].append((time.process_time() - begin) * share(case, name, length))
    return {name: statistics.median(found) for name, found in taken.items()}


def memory(case: Case, make: Make, length: int, part: int) -> float:
    """Growth of the peak of the resident set by a pass, in bytes."""
    one_pass(make(case.width // part, WARM))
    module = make(case.width // part, length)
    before = peak_memory()
    one_pass(module)
    return (peak_memory() - before) * part


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
        return times(case, sides, length, arguments.seconds)
    if what == "error":
        return {side: error(make, length) for side, make in sides.items()}
    side = what.removeprefix("memory ")
    return {side: memory(case, sides[side], length, share(case, side, length))} if side in sides else {}


def checkouts(arguments: argparse.Namespace) -> dict[str, Path]:
    return {name: Path(vars(arguments)[name]) for name in published.FILES if vars(arguments)[name]}


KINDS = ("tuned", "default", "memory ours", "memory theirs", "error")


def ask(what: str) -> dict:
    """Measure with this script in a fresh process; if it fails, say so and go on."""
    command = [sys.executable, *sys.argv, "--child", what]
    environment = os.environ | {"PYTHONWARNINGS": "ignore"}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    if done.returncode:
        said = (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]
        print(f"{what}: {said}", file=sys.stderr)
        return {}
    return json.loads(done.stdout.splitlines()[-1])


def time_row(case: Case, length: int, found: dict[str, dict]) -> list[str]:
    goal = GOALS.get((case.name, length), Goal())
    cells = [case.says, size(case, length)]
    for kind, wanted in (("tuned", goal.speed), ("default", goal.default)):
        cells += [amount(found[kind], side, 1e3) for side in ("ours", "theirs")] + [
            ratio(found[kind], wanted)
        ]
    return cells


def memory_row(case: Case, length: int, found: dict[str, dict]) -> list[str]:
    goal = GOALS.get((case.name, length), Goal())
    both = found["memory ours"] | found["memory theirs"]
    cells = [case.says, size(case, length), *(amount(both, side, 1e-6) for side in ("ours", "theirs"))]
    cells.append(ratio(both, goal.memory))
    for side, wanted in (("ours", goal.error), ("theirs", None)):
        value, worst = found["error"].get(side, (None, None))
        text = "-" if value is None else f"{value:.1e} ({worst:.1e})"
        cells.append(
            text if value is None or wanted is None else judged(text, value <= wanted, f"{wanted:.0e}")
        )
    return cells


def size(case: Case, length: int) -> str:
    return f"{length}{'*' if share(case, 'theirs', length) > 1 else ''}"


def amount(found: dict, side: str, factor: float) -> str:
    return f"{found[side] * factor:,.1f}" if side in found else "-"


def ratio(found: dict, wanted: float | None) -> str:
    if not found.get("ours") or not found.get("theirs"):
        return "-"
    value = found["theirs"] / found["ours"]
    return judged(f"{value:.1f}x", value >= 0.8 * wanted, f"{wanted:g}x") if wanted else f"{value:.1f}x"


def judged(text: str, good: bool, goal: str) -> str:
    return f"[{'green' if good else 'red'}]{text}, goal {goal}[/]"


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
    known = json.loads(arguments.out.read_text()) if arguments.out and arguments.out.exists() else {}
    head = ("case", "L", "ours", "published", "ratio")
    spent = Table(*head, "ours", "published", "ratio", title="Time in ms: memory kept | allocator's default")
    needed = Table(*head, "ours", "published", title="Memory in MB | error of output (gradient)")
    for case in (CASES[name] for name in arguments.only.split(",")):
        for length in map(int, arguments.lengths.split(",")):
            found = {}
            for what in KINDS:
                key = f"{case.name}/{what}/{length}"
                if key not in known and what in arguments.what.split(","):
                    known[key] = ask(f"{case.name}/{what}/{length}")
                    if arguments.out:
                        arguments.out.write_text(json.dumps(known, indent=1) + "\n")
                found[what] = known.get(key, {})
            spent.add_row(*time_row(case, length, found))
            needed.add_row(*memory_row(case, length, found))
    return spent, needed


if __name__ == "__main__":
    main()
