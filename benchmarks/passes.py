"""Time and memory of a forward and backward pass: what the benchmarks of layers share.

Times are medians of processor time, all sides taking turns in one process. Memory is the growth of the peak
of the resident set by a pass, each side in a fresh process with the allocator's default.
"""

import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from selfpretrain.system.hardware import peak_memory


class Fed(nn.Module):
    """A layer with its input, which gets a gradient too."""

    def __init__(self, layer: nn.Module, batch: int, length: int, width: int) -> None:
        super().__init__()
        self.layer = layer
        self.x = nn.Parameter(torch.randn(batch, length, width))

    def forward(self) -> Tensor:
        """Return the output of the layer alone."""
        y = self.layer(self.x)
        return y[0] if isinstance(y, tuple) else y


def one_pass(module: nn.Module, weight: Tensor | None = None) -> Tensor:
    """Run forward and backward, and return the output."""
    module.zero_grad(set_to_none=True)
    y = module()
    torch.autograd.backward(y, torch.ones_like(y) if weight is None else weight.to(y))
    return y.detach()


def median_times(
    modules: dict[str, nn.Module], seconds: float, rounds: tuple[int, int] = (5, 25)
) -> dict[str, float]:
    """Return the median processor time of a pass per side; they take turns, at least and at most so often."""
    taken: dict[str, list[float]] = {side: [] for side in modules}
    for module in modules.values():
        one_pass(module)
    start = time.process_time()
    for turn in range(rounds[1]):
        if turn >= rounds[0] and time.process_time() - start > seconds:
            break
        for side, module in modules.items():
            begin = time.process_time()
            one_pass(module)
            taken[side].append(time.process_time() - begin)
    return {side: statistics.median(found) for side, found in taken.items()}


def memory(make: Callable[[int], nn.Module], warm: int, length: int) -> float:
    """Return how many bytes a pass at a length adds to the peak, after one at a shorter length."""
    one_pass(make(warm))
    module = make(length)
    before = peak_memory()
    one_pass(module)
    return peak_memory() - before


def ask(what: str) -> dict[str, Any]:
    """Measure with this script in a fresh process; if it fails, say so and go on."""
    command = [sys.executable, *sys.argv, "--child", what]
    environment = os.environ | {"PYTHONWARNINGS": "ignore"}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    if done.returncode:
        said = (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]
        print(f"{what}: {said}", file=sys.stderr)
        return {}
    return dict(json.loads(done.stdout.splitlines()[-1]))


class Figures:
    """Figures by name, each kept in a file as soon as it is there, and measured once."""

    def __init__(self, path: Path | None) -> None:
        self.path = path
        self.known = json.loads(path.read_text(encoding="utf-8")) if path and path.exists() else {}

    def find(self, what: str) -> dict[str, Any]:
        """Return a figure, measured in a fresh process unless it is known."""
        if what not in self.known:
            self.known[what] = ask(what)
            if self.path:
                self.path.write_text(json.dumps(self.known, indent=1) + "\n", encoding="utf-8")
        return dict(self.known[what])
