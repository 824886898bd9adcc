"""Mixers on a CUDA device: the same results as on the CPU, and the time of kernels and layers.

    python benchmarks/gpu.py [--only results,kernels,layers] [--mixers s4,s4d] [--lengths 1024,16384]

One command for a machine with CUDA; elsewhere it ends with one line. It has not run on a GPU yet: the parts
that need none were tried on a CPU, everything else is untested.

results: output and gradients of every mixer against float64 on the CPU, as max |x - x64| / max |x64|: on the
CPU in float32; on the GPU in float64, in float32, and in float32 with TF32 allowed by the user; the kernel
alone under bfloat16 autocast. Kernels must stay exact in all of them.

kernels, layers: milliseconds of forward and backward, median of 20 passes by CUDA events: plain, replayed as
a CUDA graph, compiled; parameters in float32 and, for kernels, in float64. Width 256, batch 8, both
directions.
A guess to be replaced by a goal: 1 ms for the S4 kernel at 16384 positions.
"""

import argparse
import copy
import json
import statistics
import sys
from collections.abc import Callable
from pathlib import Path

import torch
from rich.console import Console
from rich.table import Table
from ssm import Fed, distance, one_pass
from torch import Tensor, nn

from selfpretrain import __version__
from selfpretrain.mixers.base import LayerContext
from selfpretrain.registry import find, names

WIDTH, SMALL, WARM, PASSES = 256, 16, 3, 20
PARTS = ("results", "kernels", "layers")
Answer = dict[str, float | str]


class KernelOf(nn.Module):
    """A layer, asked for its kernel."""

    def __init__(self, layer: nn.Module, length: int) -> None:
        super().__init__()
        self.layer, self.length = layer, length

    def forward(self) -> Tensor:
        return self.layer.kernel(self.length)


def layer(mixer: str, width: int, length: int) -> nn.Module:
    torch.manual_seed(0)
    kind = find("mixers", mixer)
    return kind().build(LayerContext(width, length, rotary=kind.positions == "rotary"))


def has_kernel(module: nn.Module) -> bool:
    return callable(getattr(module, "kernel", None))


def attempted(measure: Callable[[str, int, str], Answer], mixer: str, length: int) -> Answer:
    """The answer, or the first line of what went wrong."""
    try:
        return measure(mixer, length, "cuda")
    except Exception as error:  # the other mixers go on
        return {"failed": said(error)}


def said(error: Exception) -> str:
    return f"{type(error).__name__}: {(str(error).splitlines() or [''])[0][:60]}"


def results(mixer: str, length: int, device: str) -> Answer:
    """Largest errors of output and gradients, by where and how they were computed."""
    fed = Fed(layer(mixer, SMALL, length), SMALL, length)
    truth = answers(copy.deepcopy(fed).double())
    found = {
        "CPU": worst(answers(copy.deepcopy(fed)), truth),
        "GPU 64": worst(answers(copy.deepcopy(fed).double().to(device)), truth),
        "GPU 32": worst(answers(copy.deepcopy(fed).to(device)), truth),
    }
    torch.set_float32_matmul_precision("high")
    found["GPU TF32"] = worst(answers(copy.deepcopy(fed).to(device)), truth)
    if has_kernel(fed.layer):
        exact = fed.layer.double().kernel(length)
        with torch.autocast(torch.device(device).type, dtype=torch.bfloat16):
            rough = fed.layer.float().to(device).kernel(length)
        found["kernel, bf16"] = distance(rough.cpu(), exact)
    torch.set_float32_matmul_precision("highest")
    return found


def answers(module: nn.Module) -> list[Tensor]:
    """Output and all gradients, on the CPU."""
    y = one_pass(module)
    return [y.cpu(), *(p.grad.cpu() for p in module.parameters() if p.grad is not None)]


def worst(found: list[Tensor], truth: list[Tensor]) -> float:
    return max(distance(x, x64) for x, x64 in zip(found, truth, strict=True))


def kernels(mixer: str, length: int, device: str) -> Answer:
    """Milliseconds by precision and way of running."""
    module = layer(mixer, WIDTH, length)
    if not has_kernel(module):
        return {}
    kernel = KernelOf(module, length).to(device)
    return {f"{name} 32": timed(way, kernel) for name, way in WAYS.items()} | {
        f"{name} 64": timed(way, copy.deepcopy(kernel).double()) for name, way in WAYS.items()
    }


def layers(mixer: str, length: int, device: str) -> Answer:
    """Milliseconds by way of running, and the memory of the plain one."""
    fed = Fed(layer(mixer, WIDTH, length), WIDTH, length).to(device)
    found: Answer = {name: timed(way, fed) for name, way in WAYS.items()}
    before = torch.cuda.memory_allocated(device)
    torch.cuda.reset_peak_memory_stats(device)
    one_pass(fed)
    return found | {"MB": (torch.cuda.max_memory_allocated(device) - before) / 1e6}


def plain(module: nn.Module) -> Callable[[], object]:
    return lambda: one_pass(module)


def graphed(module: nn.Module) -> Callable[[], object]:
    """Forward and backward captured once, then replayed."""
    aside = torch.cuda.Stream()
    aside.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(aside):
        for _ in range(WARM):
            one_pass(module)
    torch.cuda.current_stream().wait_stream(aside)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        one_pass(module)
    return graph.replay


def compiled(module: nn.Module) -> Callable[[], object]:
    faster = torch.compile(module)
    return lambda: one_pass(faster)


WAYS = {"plain": plain, "graph": graphed, "compiled": compiled}


def timed(way: Callable[[nn.Module], Callable[[], object]], module: nn.Module) -> float | str:
    """Median milliseconds, or the first line of what went wrong."""
    try:
        work = way(module)
        for _ in range(WARM):
            work()
        return statistics.median(milliseconds(work) for _ in range(PASSES))
    except Exception as error:  # a way that does not work for a mixer is an answer
        return said(error)


def milliseconds(work: Callable[[], object]) -> float:
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    start.record()
    work()
    end.record()
    torch.cuda.synchronize()
    return start.elapsed_time(end)


def table(part: str, rows: dict[str, Answer]) -> Table:
    """One line per mixer and length."""
    heads = list(dict.fromkeys(key for row in rows.values() for key in row))
    made = Table("mixer/L", *heads, title=part)
    digits = ".1e" if part == "results" else ".3g"
    for name, row in rows.items():
        cells = (row.get(head, "-") for head in heads)
        made.add_row(name, *(cell if isinstance(cell, str) else f"{cell:{digits}}" for cell in cells))
    return made


def main() -> None:
    """Print a table per part, and write all figures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default=",".join(PARTS), help="parts, comma-separated")
    parser.add_argument("--mixers", default=",".join(names("mixers")))
    parser.add_argument("--lengths", default="1024,4096,16384")
    parser.add_argument("--out", type=Path, default=Path("gpu.json"))
    arguments = parser.parse_args()
    if not torch.cuda.is_available():
        sys.exit("error: there is no CUDA device here; this benchmark has nothing to measure")
    device = torch.cuda.get_device_name()
    print(f"selfpretrain {__version__}, torch {torch.__version__}, CUDA {torch.version.cuda}, {device}")
    found: dict[str, dict[str, Answer]] = {}
    for part in arguments.only.split(","):
        measure, rows = {"results": results, "kernels": kernels, "layers": layers}[part], {}
        for mixer in arguments.mixers.split(","):
            for length in [1024] if part == "results" else map(int, arguments.lengths.split(",")):
                rows[f"{mixer}/{length}"] = attempted(measure, mixer, length)
                found[part] = rows
                arguments.out.write_text(json.dumps({"device": device, "found": found}, indent=1) + "\n")
        Console().print(table(part, rows))


if __name__ == "__main__":
    main()
