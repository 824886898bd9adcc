"""The two benchmarks of Gu et al. (2022), S4, appendix D.1: time and memory of a forward and backward pass.

``by_length`` is table 3, efficient Transformers beside a Transformer; ``by_width`` table 2, S4 beside LSSL.
Every measurement runs in a process of its own. Running out of memory or time is a measurement, too.
"""

import contextlib
import multiprocessing
import signal
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils import benchmark

from ..errors import Interrupted, SelfPretrainError, SpecError, first_line
from ..mixers.base import LayerContext, Mixer
from ..registry import find, name_of
from ..report.figures import scaling
from ..report.figures.scaling import Measurement
from ..system.files import FORMAT, explain_errors, write_bytes, write_json
from ..system.hardware import environment, limit_memory, peak_memory
from ..system.startup import keep_memory
from .model import count_parameters

WARM_UP_LENGTH = 16
MIN_SECONDS = 0.5  # total time of the timed passes
OUT_OF_MEMORY = "out of memory"
TOO_SLOW = "too slow"


@dataclass(frozen=True)
class Trial:
    """A stack of layers of one mixer, without norms and residual paths, and the batch to measure it on."""

    mixer: Mixer
    width: int
    length: int
    batch: int = 1
    depth: int = 1
    causal: bool = False
    device: str = "cpu"

    def build(self) -> nn.ModuleList:
        """Return the layers, freshly initialised."""
        rotary = self.mixer.positions == "rotary"
        context = LayerContext(self.width, self.length, self.causal, rotary, depth=self.depth)
        return nn.ModuleList(self.mixer.build(context) for _ in range(self.depth)).to(self.device)

    def measure(self, limit: float) -> Measurement:
        """Measure the layers in a new process, which is killed after ``limit`` seconds."""
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload([__name__])
        receiver, sender = context.Pipe(duplex=False)
        process = context.Process(target=_run_child, args=(self, sender), daemon=True)
        process.start()
        sender.close()
        try:
            in_time = receiver.poll(limit)
            found = receiver.recv() if in_time else {"reason": f"{TOO_SLOW}: more than {limit:g} s"}
        except EOFError:
            process.join()
            code = process.exitcode
            killed = code == -signal.SIGKILL  # by the kernel, when memory runs out
            found = {"reason": OUT_OF_MEMORY if killed else f"fails: its process ended with {code}"}
        finally:
            process.kill()
            process.join()
        return self.result(found)

    def result(self, found: dict[str, Any]) -> Measurement:
        """Return the measurement of this trial with these results."""
        return Measurement(name_of(self.mixer), self.length, self.width, self.batch, self.depth, **found)


def by_length(mixers: Sequence[Mixer], lengths: Sequence[int], like: Trial) -> list[Trial]:
    """Return trials of every mixer at every length, smallest first, otherwise like ``like``."""
    return [replace(like, mixer=mixer, length=length) for length in sorted(lengths) for mixer in mixers]


def by_width(widths: Sequence[int], like: Trial) -> list[Trial]:
    """Return trials of LSSL with D states and S4 with D/2, which have as many parameters, at widths D.

    Raises:
        SpecError: if a width is not a multiple of 4: states of S4 are pairs.
    """
    for width in widths:
        if width % 4:
            raise SpecError(f"width {width} is not a multiple of 4: S4 has half as many states, in pairs")
    return [
        replace(like, mixer=find("mixers", name)(states=states), width=width)
        for width in sorted(widths)
        for name, states in (("lssl", width), ("s4", width // 2))
    ]


def run(trials: Sequence[Trial], limit: float, folder: Path, log: Callable[[str], None]) -> list[Measurement]:
    """Measure trials in turn, and write bench.json and the figure (bench.svg, bench.png).

    Raises:
        Interrupted: on Ctrl-C, after writing the measurements so far.
        StoreError: if the folder cannot be written.
    """
    with explain_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
    found: list[Measurement] = []
    try:
        for trial in trials:
            skip = trial.result({"reason": "not tried: a smaller size was too much"})
            too_much = (it.mixer for it in found if it.reason.startswith((OUT_OF_MEMORY, TOO_SLOW)))
            found.append(skip if skip.mixer in too_much else trial.measure(limit))
            log(found[-1].line())
    except KeyboardInterrupt:
        raise Interrupted(f"stopped; what was measured is in {folder}; from the start again") from None
    finally:
        content = {"environment": environment(trials[0].device), "readings": scaling.rows(found)}
        write_json(folder / "bench.json", {"format": FORMAT} | content)
        for kind, image in scaling.figure(found).items():
            write_bytes(folder / f"bench.{kind}", image)
    return found


# Everything below runs in the measuring process.
def _run_child(trial: Trial, connection: Connection) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # only the parent handles Ctrl-C; it kills this process
    torch.set_num_threads(1)
    torch.manual_seed(0)
    try:
        connection.send(_measure(trial))
    except SelfPretrainError as error:
        connection.send({"reason": str(error)})
    except Exception as error:
        line = first_line(error)
        # The CPU allocator raises a plain RuntimeError.
        of_memory = isinstance(error, MemoryError | torch.OutOfMemoryError) or (
            "memory" in line and "alloc" in line
        )
        connection.send({"reason": OUT_OF_MEMORY if of_memory else f"fails: {line}"})


def _measure(trial: Trial) -> dict[str, Any]:
    """Return parameters, median seconds of a pass, and the growth of peak memory by a pass, in bytes."""
    on_gpu = trial.device.startswith("cuda")
    if not on_gpu:
        keep_memory()
        limit_memory()
    x = torch.randn(trial.batch, trial.length, trial.width, device=trial.device, requires_grad=True)
    with contextlib.suppress(Exception):  # a mixer may fail at this length and work at the measured one
        # Loads libraries, so that the measured peak is that of the layers alone.
        short = replace(trial, length=min(WARM_UP_LENGTH, trial.length))
        _pass(short.build(), x[:, : short.length].detach().requires_grad_())
    layers = trial.build()
    if on_gpu:
        torch.cuda.reset_peak_memory_stats(trial.device)
    peak = partial(torch.cuda.max_memory_allocated, trial.device) if on_gpu else peak_memory
    before = peak()
    _pass(layers, x)
    growth = peak() - before
    # On a CPU, process time rather than wall time: other programs count less. On a GPU, synchronised time.
    clock = benchmark.timer if on_gpu else time.process_time
    timer = benchmark.Timer("run(layers, x)", globals={"run": _pass, "layers": layers, "x": x}, timer=clock)
    seconds = timer.blocked_autorange(min_run_time=MIN_SECONDS).median
    return {"parameters": count_parameters(layers), "seconds": seconds, "bytes": growth}


def _pass(layers: nn.ModuleList, x: Tensor) -> None:
    layers.zero_grad(set_to_none=True)
    x.grad = None
    y = x
    for layer in layers:
        y = layer(y, None)
    y.sum().backward()
