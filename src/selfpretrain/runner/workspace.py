"""Where stages are run: a folder, a device, and how many at once."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

import torch

from ..errors import SpecError
from ..registry import name_of
from ..system import distributed
from ..system.hardware import usable_cores
from ..system.signals import interruptible
from ..training.recipe import Recipe, fingerprint
from ..training.run_dir import RunDir
from ..training.trainer import Stop


def never() -> bool:
    """Do not stop."""
    return False


@dataclass(frozen=True)
class Workspace:
    """A folder of runs, and what works in it."""

    runs: Path
    device: str = "cpu"
    workers: int = 1  # stages at once
    threads: int = 1  # of each, for large models on the CPU; small ones get one
    executor: str = "auto"  # of the shelf of executors; auto: processes where they are worth it
    executor_settings: Mapping[str, str] = field(default_factory=dict)
    trackers: tuple[str, ...] = ()  # of the shelf of trackers; they hear every event
    quiet: bool = False
    command: str = ""  # what the user typed, to be repeated
    stop: Stop = never  # asked after every step

    @classmethod
    def of(cls, runs: Path, device: str = "auto", workers: str = "auto") -> "Workspace":
        """The machine at hand, as far as the flags allow.

        Raises:
            SpecError: if there is no such device, or the number of workers is not one.
        """
        device = _device(device)
        count = _workers(workers, device)
        executor = "auto" if workers == "auto" or count == 1 else "processes"
        threads = max(1, usable_cores() // count)
        return cls(runs, device, count, threads, executor)

    def stage(self, recipe: Recipe) -> RunDir:
        """Where the last stage of a recipe leaves its results."""
        parts = (recipe.task_of(recipe.last), recipe.model.mixer, recipe.last.objective)
        return self.named("-".join([*map(name_of, parts), fingerprint(recipe)]))

    def named(self, stage: str) -> RunDir:
        """Where a stage leaves its results, by its name."""
        return RunDir(self.runs / "stages" / stage)


@contextmanager
def at_work(workspace: Workspace) -> Iterator[Workspace]:
    """The workspace with the processes that torchrun started, listening to Ctrl-C."""
    with distributed.process_group(workspace.device) as device, interruptible() as stop:
        if distributed.world_size() > 1:  # they take every stage together
            workspace = replace(workspace, workers=1, executor="serial")
        quiet = workspace.quiet or not distributed.is_main()
        yield replace(workspace, device=device, quiet=quiet, stop=stop)


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
