"""From a study to its report: what it will cost, running it, and the files a reader opens."""

import hashlib
import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from ..data.schema import SPLITS
from ..registry import name_of
from ..report.page import write
from ..spec import describe
from ..system import distributed
from ..system.files import FORMAT
from ..system.progress import Watch
from ..tasks.base import Task
from ..training.mixer_checks import check_recipes
from ..training.stage_folder import WEIGHTS, Folder
from .archive import RESTORED
from .executors.processes import interruptible, work
from .plan import Cell, Job, chosen, estimate, home, jobs, parts, waiting
from .results import manifest, record
from .workspace import Bench, Machine, silent

if TYPE_CHECKING:
    from ..studies.base import Study


@contextmanager
def together(machine: Machine) -> Iterator[Machine]:
    """The machine with the processes that torchrun started, listening to Ctrl-C."""
    with distributed.process_group(machine.bench.device) as device, interruptible() as stop:
        bench = replace(machine.bench, device=device, stop=stop.is_set)
        workers = 1 if distributed.world_size() > 1 else machine.workers
        yield replace(machine, bench=bench, workers=workers, quiet=machine.quiet or not distributed.is_main())


def carry_out(
    study: "Study",
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
    if distributed.is_main():
        plan_tables(study, cells, machine, remarks)
    perform(jobs(chosen(cells, only), machine.bench), machine)
    return report_tables(study, cells, machine)


def plan_tables(study: "Study", cells: list[Cell], machine: Machine, remarks: Sequence[str] = ()) -> None:
    """Write what is to come into the folder of every task, so that reports can be made at any time."""
    notes = [*remarks, *check_recipes(cell.recipe for cell in cells)]
    for some in parts(cells):
        _write_record(study, some, home(study, some, machine.bench), machine, notes)


def report_tables(study: "Study", cells: list[Cell], machine: Machine) -> list[Path]:
    """Make the reports of every task from what is on disk; their folders."""
    folders = []
    for some in parts(cells):
        folder = home(study, some, machine.bench)
        if distributed.is_main():
            _add_baselines(some[0].recipe.task, folder, machine.bench)
            write(folder.path)
        folders.append(folder.path)
    return folders


def perform(todo: list[Job], machine: Machine) -> None:
    """Run the stages that are not on disk yet, showing how far they are."""
    left = waiting(todo, machine)
    if not left:
        return
    check_recipes(job.recipe for job in left)
    for folder in (Folder(machine.bench.runs / "stages" / job.name) for job in left):
        if distributed.is_main() and folder.finished and not folder.has(WEIGHTS):  # they are needed now
            folder.drop("result.json")
            folder.drop(RESTORED)
    costs = {job.name: estimate(job).flops for job in left}
    with Watch(costs, len(todo), machine.quiet) as watch:
        bench = replace(machine.bench, tell=watch.tell if distributed.is_main() else silent)
        work(todo, bench, machine.workers)


def _write_record(
    study: "Study", cells: list[Cell], folder: Folder, machine: Machine, notes: list[str]
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
    from ..tasks.inspect.baselines import baselines  # scikit-learn takes a second to import

    digest = hashlib.sha256(json.dumps([describe(task), task.version()], sort_keys=True).encode()).hexdigest()
    folder, name = Folder.make(bench.runs / "baselines"), f"{name_of(task)}-{digest[:10]}.json"
    if not folder.has(name):
        folder.write(name, {"format": FORMAT, "scores": baselines(task)})
    return dict(folder.read(name)["scores"])
