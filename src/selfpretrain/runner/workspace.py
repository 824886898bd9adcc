"""Where stages are run: a folder, a device, and how many at once."""

from dataclasses import dataclass
from pathlib import Path

import torch

from ..errors import SpecError
from ..registry import name_of
from ..system.files import Json
from ..system.hardware import usable_cores
from ..training.loop import Stop, Tell
from ..training.recipe import Recipe, fingerprint
from ..training.stage_folder import Folder


def silent(line: Json) -> None:
    """Tell nobody."""


def never() -> bool:
    """Do not stop."""
    return False


@dataclass(frozen=True)
class Bench:
    """Where stages are run and who is told."""

    runs: Path
    device: str = "cpu"
    threads: int = 1  # for large models on the CPU; small ones get one
    tell: Tell = silent  # hears of every start, line of the log and end
    stop: Stop = never  # asked after every step

    def folder(self, recipe: Recipe) -> Path:
        """Where the last stage of a recipe leaves its results."""
        parts = (recipe.task_of(recipe.last), recipe.model.mixer, recipe.last.objective)
        return self.runs / "stages" / "-".join([*map(name_of, parts), fingerprint(recipe)])


@dataclass(frozen=True)
class Machine:
    """Where studies are carried out."""

    bench: Bench
    workers: int
    quiet: bool = False
    command: str = ""  # what the user typed, to be repeated

    @classmethod
    def of(cls, runs: Path, device: str, workers: str) -> "Machine":
        """The machine at hand, as far as the flags allow.

        Raises:
            SpecError: if there is no such device, or the number of workers is not one.
        """
        device = _device(device)
        count = _workers(workers, device)
        Folder.make(runs)
        return cls(Bench(runs, device, max(1, usable_cores() // count)), count)


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
    if text == "auto":
        return usable_cores() if device == "cpu" else 1
    if not text.isdigit() or int(text) < 1:
        raise SpecError(f"--jobs {text}: give a number of at least 1, or auto")
    return int(text)
