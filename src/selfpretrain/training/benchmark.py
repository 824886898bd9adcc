"""Benchmark of mixers: time and memory of one layer, forward and backward, as length or width grows.

Every measurement runs in its own process, so that mixers do not share memory, and running out of memory or
time is recorded too. Each round measures all cells in turn, so that other load on the machine affects all of
them.
"""

import contextlib
import multiprocessing
import signal
import statistics
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils import benchmark

from ..config import with_setting
from ..errors import Interrupted, SelfPretrainError, SpecError, nearest
from ..mixers.base import LayerContext, Mixer
from ..registry import find, name_of, names
from ..report.figures import scaling
from ..report.figures.scaling import Measurement, Report
from ..runner.run_dir import RunDir
from ..shapes import Vectors
from ..system.files import FORMAT, explain_errors, write_text
from ..system.hardware import environment, limit_memory, peak_memory
from ..system.startup import keep_memory
from .cost import fitting

BENCHMARKS = {"attention": ("1k,2k,4k", "128"), "lssl": ("1k", "64,128,256")}
"""Benchmarks with their default lengths and widths."""
MATCH_MODES = ("width", "params")
STEP = 8
"""Matched widths are multiples of this, so that heads keep an even size."""
WARM = 16
"""Length of the warm-up pass, which loads libraries before memory is measured."""
ENOUGH = 0.5
"""Minimum total time of the timed passes of a measurement, in seconds."""
LIMIT = 60.0
"""Time limit of a measurement in seconds, set-up and at least three passes included."""
LARGE = "out of memory"
"""Prefix of the failure of a layer that needs too much memory; larger sizes are then skipped."""
SLOW = "too slow"
"""Prefix of the failure of a layer that exceeds the time limit; larger sizes are then skipped."""


@dataclass(frozen=True)
class Trial:
    """A mixer at one width and length, to be measured."""

    mixer: Mixer
    place: LayerContext
    setting: "Setting"

    def layer(self) -> nn.Module:
        """Return the freshly initialised stack of layers."""
        return Layers(self.mixer.build(self.place) for _ in range(self.setting.depth))


class Layers(nn.ModuleList):
    """A stack of layers without residual paths or norms."""

    def forward(self, x: Vectors) -> Vectors:
        """Apply the layers in turn, without padding."""
        for layer in self:
            x = layer(x, None)
        return x


@dataclass(frozen=True)
class Setting:
    """Settings shared by all cells of a benchmark."""

    batch: int = 4  # batch size
    causal: bool = False
    device: str = "cpu"
    limit: float = LIMIT  # time limit of a measurement, in seconds
    depth: int = 1  # number of layers

    def cell(self, mixer: Mixer, width: int, length: int) -> Trial:
        """Return the cell of a mixer at this width and length."""
        place = LayerContext(width, length, self.causal, rotary=mixer.positions == "rotary")
        return Trial(mixer, place, self)


def parse_mixers(text: str) -> list[str]:
    """Parse a comma-separated list of mixer names; ``all`` means every mixer of the package."""
    return names("mixers") if text.strip() == "all" else [name.strip() for name in text.split(",")]


def apply_settings(mixers: list[Any], settings: dict[str, str]) -> list[Any]:
    """Return the mixers with settings changed, e.g. ``{"s4.states": "256"}``.

    Raises:
        SpecError: if there is no such mixer or setting.
    """
    for key, text in settings.items():
        name, _, path = key.partition(".")
        if name not in map(name_of, mixers):
            known = ", ".join(map(name_of, mixers))
            raise SpecError(f"--set {key}: begin with one of the mixers ({known}), e.g. s4.states=256")
        mixers = [with_setting(mixer, path, text) if name_of(mixer) == name else mixer for mixer in mixers]
    return mixers


def plan(
    name: str,
    mixers: list[Any],
    sizes: tuple[str | None, str | None],
    setting: Setting,
    match: str = "width",
) -> list[Trial]:
    """Return the cells of a benchmark, from command-line arguments.

    Args:
        name: a key of ``BENCHMARKS``.
        mixers: mixers to compare; ignored by "lssl".
        sizes: lengths and widths, e.g. ``("1k,2k,4k", "128")``; None for the defaults.
        match: what is equal for all mixers, "width" or "params".

    Raises:
        SpecError: if there is no such benchmark, mixer, match or size.
    """
    if name not in BENCHMARKS:
        raise SpecError(f"no benchmark called {name!r}{nearest(name, BENCHMARKS)}")
    if match not in MATCH_MODES:
        raise SpecError(f"--match {match}: there is no such match{nearest(match, MATCH_MODES)}")
    lengths, widths = (
        parse_sizes(text or usual) for text, usual in zip(sizes, BENCHMARKS[name], strict=True)
    )
    if name == "lssl":
        if len(lengths) > 1:
            raise SpecError("bench lssl grows the width alone: give one --lengths")
        return by_width(widths, lengths[0], setting, match == "params")
    if len(widths) > 1:
        raise SpecError("bench attention grows the length: give one --width")
    if wrong := [name_of(mixer) for mixer in mixers if not isinstance(mixer, Mixer)]:
        raise SpecError(f"{wrong[0]} is no mixer; `spt list mixers` shows those that are here")
    return by_length(mixers, lengths, widths[0], setting, match == "params")


def parse_sizes(text: str) -> list[int]:
    """Parse comma-separated sizes: ``parse_sizes("512,1k")`` is [512, 1024].

    Raises:
        SpecError: if one of them is not an integer of at least 1.
    """
    sizes = []
    for word in text.lower().split(","):
        digits = word.strip().removesuffix("k").rstrip()
        if not digits.isdecimal() or int(digits) < 1:
            raise SpecError(f"size {word!r} is no number; write for example 512,1k,16k")
        sizes.append(int(digits) * (1024 if "k" in word else 1))
    return sizes


def by_length(
    mixers: list[Mixer], lengths: list[int], width: int, setting: Setting, match: bool = False
) -> list[Trial]:
    """Return the cells of every mixer at every length.

    Source: Gu et al. (2022), S4, table 3, which uses four layers and matches parameters by more S4 states.
    """
    cells = [setting.cell(mixer, width, length) for length in lengths for mixer in mixers]
    if not match:
        return cells
    goal = n_parameters(setting.cell(find("mixers", "attention")(), width, lengths[0]))
    return [_try_match(cell, goal) for cell in cells]


def by_width(widths: list[int], length: int, setting: Setting, match: bool = False) -> list[Trial]:
    """Return the cells of LSSL with N = D states and S4 with N = D (matched: D/2) at every width D.

    Source: Gu et al. (2022), S4, table 2, where half as many states give the same number of parameters.
    """
    return [
        setting.cell(find("mixers", name)(states=states), width, length)
        for width in widths
        for name, states in (("lssl", width), ("s4", width // 2 if match else width))
    ]


def match_parameters(cell: Trial, goal: int) -> Trial:
    """Return the cell at the width, a multiple of ``STEP``, that comes nearest to ``goal`` parameters."""

    def with_width(width: int) -> Trial:
        return replace(cell, place=replace(cell.place, width=width))

    return with_width(fitting(lambda width: n_parameters(with_width(width)), float(goal), STEP))


def _try_match(cell: Trial, goal: int) -> Trial:
    try:
        return match_parameters(cell, goal)
    except SelfPretrainError:  # measuring it raises the same error, which is then recorded
        return cell


def n_parameters(cell: Trial) -> int:
    """Return the number of parameters of a cell's layers; torch's random state is not changed."""
    with torch.random.fork_rng(devices=[]):
        return _n_parameters(cell.layer())


def measure(cells: list[Trial], repeats: int, folder: Path, on_progress: Callable[[str], None]) -> Report:
    """Measure all cells ``repeats`` times in turn, and write bench.json, .csv, .md, .svg and .png.

    Cells that are too slow or too large are not tried again, nor is their mixer at larger sizes.

    Raises:
        Interrupted: on Ctrl-C, after writing the measurements so far.
        StoreError: if the folder cannot be written.
    """
    RunDir.make(folder)
    readings_by_cell: list[list[Measurement]] = [[] for _ in cells]
    too_large: list[Trial] = []
    try:
        for round_number in range(repeats):
            for cell, readings in zip(cells, readings_by_cell, strict=True):
                if round_number and readings[0].seconds is None:
                    continue  # failed in the first round
                readings.append(_skip_reason(cell, too_large) or measure_once(cell))
                if readings[-1].reason.startswith((LARGE, SLOW)):
                    too_large.append(cell)
                on_progress(f"{round_number + 1}/{repeats}  {readings[-1].line()}")
    except KeyboardInterrupt:
        _write(_report(readings_by_cell), cells[0].setting.device, folder)
        raise Interrupted(f"stopped; what was measured is in {folder}; from the start again") from None
    report = _report(readings_by_cell)
    _write(report, cells[0].setting.device, folder)
    return report


def _skip_reason(cell: Trial, too_large: list[Trial]) -> Measurement | None:
    """Return the failure of a cell whose mixer was too slow or too large at a smaller size, else None."""
    for failed in too_large:
        smaller = failed.place.length <= cell.place.length and failed.place.width <= cell.place.width
        if smaller and failed.mixer == cell.mixer:
            size = f"length {failed.place.length:,}, width {failed.place.width:,}"
            return _measurement(cell, {"reason": f"not tried: it was too much at {size}"})
    return None


def measure_once(cell: Trial) -> Measurement:
    """Measure a cell once in a new process; the result has time and memory, or the reason of the failure."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([__name__])
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=_run_child, args=(cell, sender), daemon=True)
    process.start()
    sender.close()
    try:
        timed_out = not receiver.poll(cell.setting.limit)
        answer = {"reason": f"{SLOW}: more than {cell.setting.limit:g} s"} if timed_out else receiver.recv()
    except EOFError:
        process.join()
        killed = process.exitcode == -signal.SIGKILL
        answer = {"reason": LARGE if killed else f"fails: its process ended with {process.exitcode}"}
    finally:
        process.kill()
        process.join()
    return _measurement(cell, answer)


def _measurement(cell: Trial, answer: dict[str, Any]) -> Measurement:
    place = cell.place
    setting = cell.setting
    return Measurement(
        name_of(cell.mixer), place.length, place.width, setting.batch, depth=setting.depth, **answer
    )


def _report(readings_by_cell: list[list[Measurement]]) -> Report:
    return Report(tuple(_median(readings) for readings in readings_by_cell if readings))


def _median(readings: list[Measurement]) -> Measurement:
    seconds = [r.seconds for r in readings if r.seconds is not None]
    sizes = [r.bytes for r in readings if r.bytes is not None]
    if not seconds or not sizes:
        return readings[0]
    return replace(
        readings[0],
        seconds=statistics.median(seconds),
        bytes=round(statistics.median(sizes)),
        rounds=len(seconds),
    )


def _write(report: Report, device: str, folder: Path) -> None:
    lines = [asdict(reading) for reading in report.readings]
    RunDir(folder).write(
        "bench.json", {"format": FORMAT, "environment": environment(device), "readings": lines}
    )
    write_text(folder / "bench.csv", scaling.document(report))
    write_text(folder / "bench.md", scaling.markdown(report))
    for kind, image in scaling.figures(report).items():
        with explain_errors(folder):
            (folder / f"bench.{kind}").write_bytes(image)


def _n_parameters(layer: nn.Module) -> int:
    return sum(p.numel() for p in layer.parameters())


# Everything below runs in the measuring process.
def _run_child(cell: Trial, connection: Connection) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # only the parent handles Ctrl-C; it kills this process
    torch.set_num_threads(1)
    torch.manual_seed(0)
    try:
        connection.send(_measure_layer(cell))
    except SelfPretrainError as error:
        connection.send({"reason": str(error)})
    except (MemoryError, torch.OutOfMemoryError):
        connection.send({"reason": LARGE})
    except Exception as error:
        first_line = (str(error).splitlines() or [""])[0]
        # The CPU allocator raises a plain RuntimeError.
        out_of_memory = "memory" in first_line and "alloc" in first_line
        failure = f"fails: {type(error).__name__}: {first_line}"
        connection.send({"reason": LARGE if out_of_memory else failure})


def _measure_layer(cell: Trial) -> dict[str, Any]:
    """Return parameters, median seconds of a pass, and the growth of peak memory by a pass, in bytes."""
    device = cell.setting.device
    on_gpu = device.startswith("cuda")
    if not on_gpu:
        keep_memory()
        limit_memory()
    _warm_up(cell)
    layer = cell.layer().to(device)
    x = _input(cell, cell.place.length)
    if on_gpu:
        torch.cuda.reset_peak_memory_stats(device)
    before = _peak(device)
    _pass(layer, x)
    growth = _peak(device) - before
    # On a CPU, process time rather than wall time: other programs count less. On a GPU, synchronised time.
    clock = benchmark.timer if on_gpu else time.process_time
    timer = benchmark.Timer("run(layer, x)", globals={"run": _pass, "layer": layer, "x": x}, timer=clock)
    seconds = timer.blocked_autorange(min_run_time=ENOUGH).median
    return {"parameters": _n_parameters(layer), "seconds": seconds, "bytes": growth}


def _peak(device: str) -> int:
    """Return the peak memory so far, in bytes."""
    return torch.cuda.max_memory_allocated(device) if device.startswith("cuda") else peak_memory()


def _warm_up(cell: Trial) -> None:
    """Load libraries by a pass of a short layer, so that the measured peak is that of the layer alone."""
    short = min(WARM, cell.place.length)
    with contextlib.suppress(Exception):  # a mixer may fail at this length and work at the measured one
        layer = replace(cell, place=replace(cell.place, length=short)).layer().to(cell.setting.device)
        _pass(layer, _input(cell, short))


def _input(cell: Trial, length: int) -> Tensor:
    x = torch.randn(cell.setting.batch, length, cell.place.width, device=cell.setting.device)
    return x.requires_grad_()


def _pass(layer: nn.Module, x: Tensor) -> None:
    layer.zero_grad(set_to_none=True)
    x.grad = None
    layer(x).sum().backward()
