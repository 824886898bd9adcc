"""From a study to its report: what it will cost, running it, and the files a reader opens."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import torch

from . import cost, world
from .contract import vet
from .errors import SpecError
from .launch import usable_cores
from .progress import Watch, duration
from .recipe import Recipe, fingerprint
from .record import manifest, record
from .report.write import write
from .run import Bench, silent
from .shelf import name_of
from .store import FORMAT, Folder
from .study import Cell, Job, Study, home, jobs
from .work import interruptible, work


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


@contextmanager
def together(machine: Machine) -> Iterator[Machine]:
    """The machine with the processes that torchrun started, listening to Ctrl-C."""
    with world.joined(machine.bench.device) as device, interruptible() as stop:
        bench = replace(machine.bench, device=device, stop=stop.is_set)
        workers = 1 if world.size() > 1 else machine.workers
        yield replace(machine, bench=bench, workers=workers, quiet=machine.quiet or not world.first())


def carry_out(study: Study, machine: Machine) -> Path:
    """Run what is not on disk yet, and write the study's folder; its path."""
    cells = list(study.cells())
    notes = vet(cell.recipe for cell in cells)
    folder = home(study, cells, machine.bench)
    if world.first():
        _write_record(study, cells, folder, machine, notes)
    perform(jobs(cells, machine.bench), machine)
    if world.first():
        _add_baselines(study, folder)
        write(folder.path)
    return folder.path


def perform(todo: list[Job], machine: Machine) -> None:
    """Run the stages that are not on disk yet, showing how far they are."""
    left = [job for job in todo if not _done(job, machine)]
    vet(job.recipe for job in left)
    costs = {job.name: estimate(job).flops for job in left}
    with Watch(costs, len(todo), machine.quiet) as watch:
        bench = replace(machine.bench, tell=watch.tell if world.first() else silent)
        work(todo, bench, machine.workers)


def estimate(job: Job) -> cost.Plan:
    """What a stage costs; seeds differ by nothing that matters."""
    return cost.plan(replace(job.recipe, seed=0))


def forecast(study: Study, machine: Machine) -> tuple[list[list[str]], str]:
    """What would be run: one row per stage that differs by more than its seed, and the total in words."""
    todo = jobs(list(study.cells()), machine.bench)
    left = [job for job in todo if not _done(job, machine)]
    vet(job.recipe for job in left)
    kinds: dict[str, list[Job]] = {}
    for job in left:
        kinds.setdefault(fingerprint(replace(job.recipe, seed=0)), []).append(job)
    rows, seconds, flops = [], 0.0, 0.0
    for same in kinds.values():
        recipe = same[0].recipe
        plan, each = cost.plan(recipe), _seconds(recipe)
        seconds, flops = seconds + each * len(same), flops + plan.flops * len(same)
        stages = " > ".join(name_of(stage.objective) for stage in recipe.stages)
        steps = "until time is up" if plan.steps is None else f"{plan.steps:,}"
        sizes = (f"{len(same)}", steps, f"{plan.parameters:,}", f"{plan.flops:.3g}", duration(each))
        rows.append([name_of(recipe.model.mixer), stages, *sizes])
    spent = f"{len(left)} stages to run, {len(todo) - len(left)} already on disk: {flops:.3g} FLOPs"
    return rows, f"{spent}, about {duration(seconds / machine.workers)} with {machine.workers} at once"


def _seconds(recipe: Recipe) -> float:
    steps = cost.plan(recipe).steps
    return recipe.last.budget.seconds or 0.0 if steps is None else steps * cost.seconds_per_step(recipe)


def _done(job: Job, machine: Machine) -> bool:
    return Folder(machine.bench.runs / "stages" / job.name).finished


def _write_record(
    study: Study, cells: list[Cell], folder: Folder, machine: Machine, notes: list[str]
) -> None:
    if folder.has("study.json"):
        folder.read("study.json")  # complains if another version wrote it
        return
    prints = manifest(study.task)
    folder.write("manifest.json", {"format": FORMAT} | prints)
    content = record(study, cells, machine.bench, machine.command, prints)
    folder.write("study.json", content | {"notes": [*content["notes"], *notes]})


def _add_baselines(study: Study, folder: Folder) -> None:
    from .baseline import baselines  # scikit-learn takes a second to import

    content = folder.read("study.json")
    if not content["baselines"]:
        folder.write("study.json", content | {"baselines": baselines(study.task)})


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
