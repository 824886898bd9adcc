"""What it costs to hand out stages that do nothing, per executor, beside a plain pool.

    python experiments/dispatch.py [--stages 1000] [--ray] [--slurm]

Times are milliseconds per stage, from the first to the last, with what it takes to start: a process of ours
imports PyTorch. A directory is what a stage pays to be claimed and published. Ray's clock starts when its
workers have imported PyTorch, which they keep from stage to stage. Slurm (SLURM_CONF says which) is handed
all stages as arrays, and takes them back.
"""

import argparse
import json
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from selfpretrain.registry import resolve
from selfpretrain.runner import stage
from selfpretrain.runner.executors import processes, serial
from selfpretrain.runner.plan import Job
from selfpretrain.runner.run import JobQueue
from selfpretrain.runner.run_dir import RunDir
from selfpretrain.runner.workspace import Workspace
from selfpretrain.studies.compare import build_comparison


def nothing(*_: Any) -> None: ...


def timed(count: int, do: Callable[[], object]) -> float:
    began = time.perf_counter()
    do()
    return round((time.perf_counter() - began) / count * 1e3, 3)


def empty_jobs(count: int) -> list[Job]:
    study = build_comparison(resolve("tasks", "digits"), (resolve("mixers", "lstm"),), "masked", "smoke", 1)
    recipe = next(iter(study.cells())).recipe
    return [Job(replace(recipe, seed=i), f"stage-{i}", None, False) for i in range(count)]


def plain_pool(count: int) -> None:
    with ProcessPoolExecutor(2, get_context("spawn")) as pool:
        list(pool.map(nothing, range(count)))


def directories(folder: Path, count: int) -> None:
    for i in range(count):
        stage = RunDir(folder / "stages" / f"empty-{i}")
        with stage.attempt(lambda: False) as attempt:
            attempt.write("result.json", {})
            attempt.publish()


def empty(stage: stage.RemoteStage) -> stage.Outcome:
    """Import what a stage needs, as one that is trained does, and do nothing."""
    from selfpretrain.runner import stage as _  # noqa: F401

    return "done", ""


def on_ray(jobs: list[Job], workspace: Workspace) -> dict[str, float]:
    import ray

    from selfpretrain.runner.executors import ray as ours

    ours.run, ours.replay = empty, nothing
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level="error")
    found = {}
    task = ray.remote(num_cpus=1)(nothing)
    ray.get([task.remote() for _ in range(4)])
    found["plain Ray"] = timed(len(jobs), lambda: ray.get([task.remote() for _ in jobs]))
    JobQueue(jobs[:8], ours.Ray(workspace), lambda: False).run()
    found["ray"] = timed(len(jobs), lambda: JobQueue(jobs, ours.Ray(workspace), lambda: False).run())
    ray.shutdown()
    return found


def on_slurm(jobs: list[Job], workspace: Workspace) -> dict[str, float]:
    from selfpretrain.runner.executors.slurm import Slurm

    slurm = Slurm(workspace)
    return {
        "slurm: handed over": timed(len(jobs), lambda: slurm.announce(jobs)),
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
        processes._run_job, serial.run_stage = nothing, nothing
        found = {"plain ProcessPoolExecutor": timed(count, lambda: plain_pool(count))}
        for name, kind in (("serial", serial.Serial), ("processes", processes.Processes)):
            found[name] = timed(count, lambda kind=kind: JobQueue(jobs, kind(workspace), lambda: False).run())
        found["directory"] = timed(count, lambda: directories(Path(folder), count))
        found |= on_ray(jobs, workspace) if asked.ray else {}
        found |= on_slurm(jobs, workspace) if asked.slurm else {}
        print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
