"""What it costs to hand out stages that do nothing, per executor, beside a plain pool.

    python benchmarks/dispatch.py [--stages 1000]

Times are milliseconds per stage, from the first to the last, with what it takes to start: a process of ours
imports PyTorch. Ownership is what a stage in a folder pays: a lock on this machine, a lease for all.
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


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--stages", type=int, default=1000)
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
        print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
