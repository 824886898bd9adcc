"""From a study to its report: what it will cost, running it, and the files a reader opens."""

import hashlib
import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import torch

from . import __version__, cost, world
from .batch import SPLITS
from .contract import vet
from .errors import SpecError
from .launch import usable_cores
from .ledger import RESTORED
from .progress import Watch, duration
from .recipe import Recipe, describe, fingerprint
from .record import manifest, record
from .report.write import write
from .run import WEIGHTS, Bench, silent
from .shelf import name_of
from .store import FORMAT, Folder
from .study import Cell, Job, Study, chosen, home, jobs, parts
from .tasks.base import Task
from .work import interruptible, work

COSTS = "costs.json"


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


@contextmanager
def remembered(machine: Machine) -> Iterator[None]:
    """With what earlier commands in the same folder of runs found out about costs; new findings are added."""
    folder, by = Folder(machine.bench.runs), [__version__, torch.__version__]
    kept = folder.read(COSTS) if folder.has(COSTS) else {}
    if kept.get("by") == by:
        cost.known.update({key: cost.Plan(**plan) for key, plan in kept["plans"].items()})
    before = len(cost.known)
    try:
        yield
    finally:
        if len(cost.known) > before and world.first():
            plans = {key: asdict(plan) for key, plan in cost.known.items()}
            folder.write(COSTS, {"format": FORMAT, "by": by, "plans": plans})


def carry_out(
    study: Study,
    machine: Machine,
    cells: list[Cell] | None = None,
    only: str | None = None,
    remarks: Sequence[str] = (),
) -> list[Path]:
    """Run what is not on disk yet, and write one folder per task; their paths.

    Args:
        cells: of the study, where settings have been chosen since; None: as the study yields them.
        only: run these cells alone (see ``study.chosen``); the others are reported as missing.
        remarks: what the reports should say besides, e.g. how settings were chosen.
    """
    cells = list(study.cells()) if cells is None else cells
    if world.first():
        plan_tables(study, cells, machine, remarks)
    perform(jobs(chosen(cells, only), machine.bench), machine)
    return report_tables(study, cells, machine)


def plan_tables(study: Study, cells: list[Cell], machine: Machine, remarks: Sequence[str] = ()) -> None:
    """Write what is to come into the folder of every task, so that reports can be made at any time."""
    notes = [*remarks, *vet(cell.recipe for cell in cells)]
    for some in parts(cells):
        _write_record(study, some, home(study, some, machine.bench), machine, notes)


def report_tables(study: Study, cells: list[Cell], machine: Machine) -> list[Path]:
    """Make the reports of every task from what is on disk; their folders."""
    folders = []
    for some in parts(cells):
        folder = home(study, some, machine.bench)
        if world.first():
            _add_baselines(some[0].recipe.task, folder, machine.bench)
            write(folder.path)
        folders.append(folder.path)
    return folders


def perform(todo: list[Job], machine: Machine) -> None:
    """Run the stages that are not on disk yet, showing how far they are."""
    left = waiting(todo, machine)
    if not left:
        return
    vet(job.recipe for job in left)
    for folder in (Folder(machine.bench.runs / "stages" / job.name) for job in left):
        if world.first() and folder.finished and not folder.has(WEIGHTS):  # they are needed now
            folder.drop("result.json")
            folder.drop(RESTORED)
    costs = {job.name: estimate(job).flops for job in left}
    with Watch(costs, len(todo), machine.quiet) as watch:
        bench = replace(machine.bench, tell=watch.tell if world.first() else silent)
        work(todo, bench, machine.workers)


def waiting(todo: list[Job], machine: Machine) -> list[Job]:
    """The stages that must be trained; those whose weights are gone are, where another starts from them."""
    left: dict[str, Job] = {}
    for job in reversed(todo):  # a stage comes after the one it starts from
        folder = Folder(machine.bench.runs / "stages" / job.name)
        needed = any(other.after == job.name for other in left.values())
        scores = folder.read("result.json")["scores"] if folder.finished else {}
        tested = folder.finished and (not job.tested or "test" in scores)
        if not tested or (needed and not folder.has(WEIGHTS)):
            left[job.name] = job
    return list(reversed(left.values()))


def estimate(job: Job) -> cost.Plan:
    """What a stage costs; seeds differ by nothing that matters."""
    return cost.plan(replace(job.recipe, seed=0))


def forecast(cells: list[Cell], machine: Machine, gpu: str = "") -> tuple[list[list[str]], str]:
    """What would be run: one row per stage that differs by more than its seed, and the total in words.

    Args:
        gpu: also say how long it might take on this one of ``cost.GPUS``.
    """
    todo = jobs(cells, machine.bench)
    left = waiting(todo, machine)
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
        where = (name_of(recipe.task_of(recipe.last)), name_of(recipe.model.mixer))
        rows.append([*where, stages, *sizes])
    asked = sum(len(cell.recipe.stages) for cell in cells)
    spent = (
        f"{asked} stages asked for, {len(todo)} different ones: {len(todo) - len(left)} already on disk, "
        f"{len(left)} to run: {flops:.3g} FLOPs"
    )
    here = f"about {duration(seconds / machine.workers)} with {machine.workers} at once on this machine"
    there = f"; on one {gpu} {duration(cost.gpu_seconds(flops, gpu))} ({cost.ASSUMED})" if gpu else ""
    return rows, f"{spent}, {here}{there}"


def _seconds(recipe: Recipe) -> float:
    steps = cost.plan(recipe).steps
    return recipe.last.budget.seconds or 0.0 if steps is None else steps * cost.seconds_per_step(recipe)


def _write_record(
    study: Study, cells: list[Cell], folder: Folder, machine: Machine, notes: list[str]
) -> None:
    before = folder.read("study.json") if folder.has("study.json") else {}
    if before:
        prints = {split: folder.read("manifest.json")[split] for split in SPLITS}
    else:
        prints = manifest(cells[0].recipe.task)
        folder.write("manifest.json", {"format": FORMAT} | prints)
    content = record(study, cells, machine.bench, machine.command, prints)
    content["notes"] += notes
    lasting = {key: before[key] for key in ("created", "command", "baselines") if key in before}
    if content | lasting != before:
        folder.write("study.json", content | lasting)


def _add_baselines(task: Task, folder: Folder, bench: Bench) -> None:
    content = folder.read("study.json")
    if not content["baselines"]:
        folder.write("study.json", content | {"baselines": _baselines(task, bench)})


def _baselines(task: Task, bench: Bench) -> dict[str, float]:
    """What simple methods score on a task, worked out once for all studies of a folder of runs."""
    from .baseline import baselines  # scikit-learn takes a second to import

    digest = hashlib.sha256(json.dumps([describe(task), task.version()], sort_keys=True).encode()).hexdigest()
    folder, name = Folder.make(bench.runs / "baselines"), f"{name_of(task)}-{digest[:10]}.json"
    if not folder.has(name):
        folder.write(name, {"format": FORMAT, "scores": baselines(task)})
    return dict(folder.read(name)["scores"])


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
