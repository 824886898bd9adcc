"""The workspace of a run: runs folder, device, number of workers, executor and trackers."""

import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

import torch

from ..errors import SpecError
from ..registry import find
from ..system import distributed
from ..system.hardware import usable_cores
from ..system.startup import catch_signals
from ..training.recipe import Recipe, stage_id
from ..training.train import Stop, never
from .run_dir import RunDir


@dataclass(frozen=True)
class Workspace:
    """A runs folder, and the device, workers, executor and trackers used in it."""

    runs: Path
    device: str = "cpu"
    workers: int = 1  # stages trained in parallel
    threads: int = 1  # CPU threads per stage, for large models; small models use one
    executor: str = "auto"  # executor name; auto: processes if that is faster, else serial
    executor_settings: Mapping[str, str] = field(default_factory=dict)
    trackers: tuple[str, ...] = ()  # tracker names; each receives every event
    quiet: bool = False
    command: str = ""  # command line of the user, recorded in reports
    stop: Stop = never  # checked after every optimizer step

    @classmethod
    def of(cls, runs: str | Path, device: str = "auto", workers: str | int = "auto") -> "Workspace":
        """Return a workspace on this machine.

        Raises:
            SpecError: if there is no such device, or the number of workers is invalid.
        """
        device = _device(device)
        count = _workers(str(workers), device)
        executor = "auto" if workers == "auto" or count == 1 else "processes"
        threads = max(1, usable_cores() // count)
        return cls(Path(runs), device, count, threads, executor)

    @property
    def stage_device(self) -> str:
        """Device of the stages: a GPU if the executor's settings ask for one, whatever this machine has."""
        flags = {name.replace("_", "-"): value for name, value in self.executor_settings.items()}
        of_slurm = any(  # other flags of sbatch that ask for GPUs, e.g. gres=gpu:a100:1
            name.startswith("gpus-") or (name.startswith(("gres", "tres-")) and "gpu" in value)
            for name, value in flags.items()
        )
        return "cuda" if of_slurm or self.number("gpus", 0.0) else self.device

    @property
    def elsewhere(self) -> bool:
        """Return whether stages run on other machines."""
        return self.executor != "auto" and bool(find("executors", self.executor).elsewhere)

    def number(self, name: str, default: float) -> float:
        """Return a numeric setting of the executor.

        Raises:
            SpecError: if it is not a number, or below 0.
        """
        text = self.executor_settings.get(name, str(default))
        try:
            number = float(text)
        except ValueError:
            number = math.nan
        if not 0 <= number < math.inf:
            raise SpecError(f"--with {name}={text}: give a number from 0")
        return number

    def stage(self, recipe: Recipe) -> RunDir:
        """Return the folder of the last stage of a recipe; with a plan, ask ``folder`` for its id."""
        return self.folder(stage_id(recipe))

    def folder(self, stage: str) -> RunDir:
        """Return the folder of a stage by its id."""
        return RunDir(self.runs / "stages" / stage)


@contextmanager
def run_context(workspace: Workspace) -> Iterator[Workspace]:
    """Join torchrun's process group, if any, and yield the workspace with Ctrl-C as its stop condition."""
    with distributed.process_group(workspace.device) as device, catch_signals() as stop:
        if distributed.world_size() > 1:  # data parallel: all processes train the same stage
            workspace = replace(workspace, workers=1, executor="serial")
        quiet = workspace.quiet or not distributed.is_main()
        trackers = workspace.trackers if distributed.is_main() else ()
        yield replace(workspace, device=device, quiet=quiet, trackers=trackers, stop=stop)


def _device(name: str) -> str:
    if name == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    try:
        device = torch.device(name)
    except RuntimeError as error:
        raise SpecError(f"device {name!r} is not one; use auto, cpu, cuda or cuda:1") from error
    if device.type not in ("cpu", "cuda"):
        raise SpecError(f"device {name!r}: only cpu and cuda are supported; use --device auto")
    if device.type == "cuda" and not torch.cuda.is_available():
        raise SpecError("there is no cuda device here; use --device auto")
    if device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count():
        raise SpecError(
            f"there is no {name} here, only {torch.cuda.device_count()} of them; use --device auto"
        )
    return name


def _workers(text: str, device: str) -> int:
    if text == "auto" and device == "cpu":
        return max(1, int(usable_cores()))
    if text == "auto":
        return max(1, torch.cuda.device_count() if device == "cuda" else 1)
    if not text.isdigit() or int(text) < 1:
        raise SpecError(f"--jobs {text}: give a number of at least 1, or auto")
    return int(text)
