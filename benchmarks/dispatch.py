"""What it costs to hand out stages that do nothing, per executor, beside plain pools and plain Ray.

    python benchmarks/dispatch.py [--stages 1000] [--ray 20]

Times are milliseconds per stage, from the first to the last, with what it takes to start: a process of ours
imports PyTorch. Ray gives every stage a process of its own, so that its memory is given back; that is
measured on fewer stages. Ownership is what a stage in a folder pays: a lock on this machine, a lease for all.
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
from selfpretrain.runner.plan import Job
from selfpretrain.runner.scheduler import Scheduler
from selfpretrain.runner.workspace import Workspace
from selfpretrain.studies.compare import prepare
from selfpretrain.training.stage_folder import Folder


def nothing(*_: Any) -> None: ...


def nothing_there(*_: Any) -> tuple[str, str]:
    return "done", ""


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


def in_ray(jobs: list[Job], workspace: Workspace, few: int) -> dict[str, float]:
    import ray

    from selfpretrain.runner.executors import ray as ours

    ray.init(num_cpus=2, include_dashboard=False, logging_level="error", object_store_memory=100_000_000)
    plain = ray.remote(num_cpus=1)(nothing)
    print("Ray is there", flush=True)
    found = {"plain Ray": timed(len(jobs), lambda: ray.get([plain.remote(job.name) for job in jobs]))}
    fresh = ray.remote(num_cpus=1, max_calls=1)(nothing)
    found["plain Ray, a process each"] = timed(
        few, lambda: ray.get([fresh.remote(job.name) for job in jobs[:few]])
    )
    ours.carry_out, ours.ended = nothing_there, lambda job, *_: ours.Ended(job, "done")
    ours.DetachedJob.of = classmethod(lambda _, job: job)
    found["ray"] = timed(few, lambda: Scheduler(jobs[:few], ours.Ray(workspace), lambda: False).run())
    ray.shutdown()
    return found


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--stages", type=int, default=1000)
    parser.add_argument("--ray", type=int, default=20)
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
        print(json.dumps(found, indent=1), flush=True)
        print(json.dumps(in_ray(jobs, workspace, asked.ray), indent=1))


if __name__ == "__main__":
    main()
