"""What it costs to hand out stages that do nothing, per executor, beside a plain pool.

    python benchmarks/dispatch.py [--stages 1000] [--ray] [--slurm]

Times are milliseconds per stage, from the first to the last, with what it takes to start: a process of ours
imports PyTorch. Ownership is what a stage in a folder pays: a lock on this machine, a lease for all. Ray
starts a process for each of our stages, so that its memory is given back, and so does plain Ray where tasks
say so: of these there are twenty, and the clock starts when the cluster is up. Slurm (SLURM_CONF says which)
is handed all stages as arrays, and takes them back.
"""

import argparse
import json
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from contextlib import nullcontext
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from selfpretrain.registry import resolve
from selfpretrain.runner.executors import processes, serial
from selfpretrain.runner.executors.base import Ended
from selfpretrain.runner.plan import Job
from selfpretrain.runner.scheduler import Scheduler
from selfpretrain.runner.workspace import Workspace
from selfpretrain.studies.compare import prepare
from selfpretrain.training.stage_folder import Folder

FEW = 20


def nothing(*_: Any) -> None: ...


def timed(count: int, do: Callable[[], object]) -> float:
    began = time.perf_counter()
    do()
    return round((time.perf_counter() - began) / count * 1e3, 3)


def empty_jobs(count: int) -> list[Job]:
    study = prepare(resolve("tasks", "digits"), (resolve("mixers", "lstm"),), "masked", "smoke", 1)
    recipe = next(iter(study.cells())).recipe
    return [Job(replace(recipe, seed=i), f"stage-{i}", None, False) for i in range(count)]


def plain_pool(count: int) -> None:
    with ProcessPoolExecutor(2, get_context("spawn")) as pool:
        list(pool.map(nothing, range(count)))


def ownership(folder: Path, count: int, leased: bool) -> None:
    for i in range(count):
        stage = Folder.make(folder / f"{leased}-{i}")
        with stage.locked(), stage.leased(lambda: True) if leased else nullcontext():
            pass


def empty(*_: Any) -> tuple[str, str]:
    return "done", ""


def on_ray(jobs: list[Job], workspace: Workspace) -> dict[str, float]:
    import ray

    from selfpretrain.runner.executors import ray as ours

    ours.carry_out, ours.ended = empty, lambda job, outcome, workspace: Ended(job, "done")
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level="error")
    ray.get(ray.remote(nothing).remote())
    found = {}
    for name, count, calls in (("plain Ray", len(jobs), 0), ("plain Ray, a process per task", FEW, 1)):
        task = ray.remote(num_cpus=1, max_calls=calls)(nothing)
        found[name] = timed(
            count, lambda task=task, count=count: ray.get([task.remote() for _ in range(count)])
        )
    found["ray"] = timed(FEW, lambda: Scheduler(jobs[:FEW], ours.Ray(workspace), lambda: False).run())
    ray.shutdown()
    return found


def on_slurm(jobs: list[Job], workspace: Workspace) -> dict[str, float]:
    from selfpretrain.runner.executors.slurm import Slurm

    slurm = Slurm(workspace)
    return {
        "slurm: handed over": timed(len(jobs), lambda: slurm.foresee(jobs)),
        "slurm: taken back": timed(len(jobs), slurm.close),
    }


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--stages", type=int, default=1000)
    parser.add_argument("--ray", action="store_true")
    parser.add_argument("--slurm", action="store_true")
    asked = parser.parse_args()
    jobs, count = empty_jobs(asked.stages), asked.stages
    with tempfile.TemporaryDirectory() as folder:
        workspace = Workspace(Path(folder), workers=2, quiet=True)
        processes._work, serial.run_stage = nothing, nothing
        found = {"plain ProcessPoolExecutor": timed(count, lambda: plain_pool(count))}
        for name, kind in (("serial", serial.Serial), ("processes", processes.Processes)):
            found[name] = timed(
                count, lambda kind=kind: Scheduler(jobs, kind(workspace), lambda: False).run()
            )
        found["ownership: lock"] = timed(count, lambda: ownership(Path(folder), count, False))
        found["ownership: lock and lease"] = timed(count, lambda: ownership(Path(folder), count, True))
        found |= on_ray(jobs, workspace) if asked.ray else {}
        found |= on_slurm(jobs, workspace) if asked.slurm else {}
        print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
