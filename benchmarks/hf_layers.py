"""Layers taken out of transformers: time and memory beside the same layer as the library runs it.

    python benchmarks/hf_layers.py [--only mamba,rwkv4] [--length 256] [--width 64] [--batch 8]

Forward and backward pass of one causal layer, one thread, float32, the same weights on both sides, no
kernels: the library's side is its plain PyTorch path, as it runs on a CPU. Times are medians of processor
time, both sides taking turns in one process; memory is the growth of the peak of the resident set by a pass,
each side in a fresh process.
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

os.environ["OMP_NUM_THREADS"] = "1"

import torch
from torch import Tensor, nn

from selfpretrain.mixers.base import LayerContext
from selfpretrain.mixers.common.transformers_layer import TransformersMixer
from selfpretrain.registry import find, names
from selfpretrain.system.hardware import peak_memory

SIDES = ("ours", "library")
WARM = 16
"""Positions of the pass that loads libraries, before memory is looked at."""
Pass = Callable[[Tensor], Tensor]


def offered() -> list[str]:
    return [name for name in names("mixers") if issubclass(find("mixers", name), TransformersMixer)]


def built(name: str, width: int, length: int) -> dict[str, tuple[nn.Module, Pass]]:
    """Both sides, with the same weights."""
    torch.manual_seed(0)
    mixer = find("mixers", name)()
    cell = mixer.build(LayerContext(width, length, causal=True)).past
    layer = copy.deepcopy(cell.layer)
    for part in layer.modules():
        vars(part).pop("_rnn_scan", None)
        if "_inference_fn" in vars(part):
            part._inference_fn = type(part)(part.config)._inference_fn

    def library(x: Tensor) -> Tensor:
        y = type(layer).forward(layer, x, **mixer.arguments(x))
        return y[0] if isinstance(y, tuple) else y

    return {"ours": (cell, lambda x: cell(x, ())[0]), "library": (layer, library)}


def one_pass(module: nn.Module, forward: Pass, shape: tuple[int, int, int]) -> float:
    """Processor time of a forward and backward pass."""
    x = torch.randn(shape, requires_grad=True)
    begin = time.process_time()
    forward(x).square().mean().backward()
    spent = time.process_time() - begin
    module.zero_grad(set_to_none=True)
    return spent


def times(name: str, arguments: argparse.Namespace) -> dict[str, float]:
    """Median processor time of a pass per side, in turns, after one that warms up."""
    sides = built(name, arguments.width, arguments.length)
    shape = arguments.batch, arguments.length, arguments.width
    taken: dict[str, list[float]] = {side: [] for side in sides}
    for _ in range(arguments.rounds + 1):
        for side, (module, forward) in sides.items():
            taken[side].append(one_pass(module, forward, shape))
    return {side: statistics.median(found[1:]) for side, found in taken.items()}


def memory(name: str, side: str, arguments: argparse.Namespace) -> float:
    """Growth of the peak of the resident set by a pass, in bytes."""
    module, forward = built(name, arguments.width, arguments.length)[side]
    one_pass(module, forward, (arguments.batch, WARM, arguments.width))
    before = peak_memory()
    one_pass(module, forward, (arguments.batch, arguments.length, arguments.width))
    return peak_memory() - before


def ask(what: str) -> dict[str, float]:
    """What a fresh process answers."""
    command = [sys.executable, *sys.argv, "--child", what]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def row(name: str) -> list[str]:
    spent = ask(f"{name}/")
    needed = {side: ask(f"{name}/{side}")[side] for side in SIDES}
    cells = [f"{1e3 * spent[side]:,.0f}" for side in SIDES] + [f"{spent['library'] / spent['ours']:.1f}"]
    cells += [f"{1e-6 * needed[side]:,.0f}" for side in SIDES]
    return [name, *cells, f"{needed['library'] / max(needed['ours'], 1):.1f}"]


def main() -> None:
    """Measure every layer in fresh processes and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="", help="mixers, comma-separated")
    parser.add_argument("--length", type=int, default=256)
    parser.add_argument("--width", type=int, default=64)
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--child", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child:
        torch.set_num_threads(1)
        name, side = arguments.child.split("/")
        print(json.dumps({side: memory(name, side, arguments)} if side else times(name, arguments)))
        return
    heads = ("mixer", "ms", "library", "times as fast", "MB", "library", "times less")
    print(f"| {' | '.join(heads)} |\n|{' --- |' * len(heads)}")
    for name in arguments.only.split(",") if arguments.only else offered():
        print(f"| {' | '.join(row(name))} |", flush=True)


if __name__ == "__main__":
    main()
