"""Stages as jobs of Slurm, all handed over at once: arrays, each after the stage that it starts from.

Settings: ``time`` of a job (8h; one hour if nothing is said), ``cpus`` and ``gpus`` of a stage, and every
other flag of sbatch by its name, e.g. ``partition``, ``account``, ``mem``. All nodes see the folder of runs
at the same path. A job whose time is up, or that is preempted, saves a checkpoint and is queued again.
"""

import hashlib
import math
import os
import re
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

from ...errors import SpecError, StageFailed
from ...system import extras
from ...system.mirror import opened
from ...training.stage_folder import Folder
from ..detached import PLANS, DetachedJob
from ..plan import Job
from ..workspace import Workspace
from ._remote import LOOKS, Mark, Outcome, carry_out, ended, number, portable
from .base import Ended, Executor

LARGEST = 1000
"""Jobs of an array; Slurm allows 1,001 unless it is set up otherwise."""
GONE = 30.0
"""Seconds after which a job that left neither a result nor a trace in the queue is lost: disks may lag."""
KILLED = 600.0
"""Seconds that a job waits for the end that was announced to it."""
UNITS = {"s": 1 / 60, "m": 1.0, "h": 60.0, "d": 1440.0}


class Slurm(Executor):
    """A job per stage; what is lost is begun again by the scheduler.

    Raises:
        SpecError: if submitit is not installed, there is no Slurm, or it does not take what is asked for.
    """

    attempts: ClassVar[int] = 3
    slots = 1_000_000  # the queue is Slurm's

    def __init__(self, workspace: Workspace, mark: Mark | None = None) -> None:
        super().__init__(workspace)
        self._submitit: Any = extras.load("submitit", "--executor slurm", "slurm")
        self._mark = mark or Mark.new()
        ours = f"{portable(workspace).runs} {self._mark.name}"
        self.name = f"spt-{hashlib.sha256(ours.encode()).hexdigest()[:8]}"
        self._flags = _flags(workspace) | {"job_name": self.name}
        self._submitted: dict[str, Any] = {}
        self._running: dict[str, Job] = {}
        self._missed: dict[str, float] = {}
        self._queue: set[str] | None = set()
        self._looked = -LOOKS

    @classmethod
    def leave(cls, jobs: list[Job], workspace: Workspace, plan: Path) -> str:
        """Hand everything over; the jobs stop when the plan is taken back."""
        executor = cls(workspace, Mark(f"{PLANS}/{plan.name}", gone=True))
        if there := _slurm("squeue", "--noheader", f"--name={executor.name}"):
            count = len(there.splitlines())
            raise SpecError(
                f"{count} jobs of this plan are in the queue; scancel --name={executor.name}, first"
            )
        executor.foresee(jobs)
        return f"{len(jobs)} jobs of Slurm, called {executor.name}, run them"

    def foresee(self, jobs: list[Job]) -> None:
        """Hand over all: those that start from nothing, and then those that start from the same stage."""
        families: dict[str | None, list[Job]] = {}
        names = {job.name for job in jobs}
        for job in jobs:
            families.setdefault(job.after if job.after in names else None, []).append(job)
        for after, family in families.items():
            for first in range(0, len(family), LARGEST):
                self._submit(family[first : first + LARGEST], after)

    def _submit(self, jobs: list[Job], after: str | None = None) -> None:
        with _explained():
            slurm = self._submitit.SlurmExecutor(self.workspace.runs.absolute() / "slurm", 10**6)
            before = {"dependency": f"afterok:{self._submitted[after].job_id}"} if after else {}
            plain = {"kill-on-invalid-dep": "yes", "requeue": True} | before | self._flags
            slurm.update_parameters(time=10**6, array_parallelism=LARGEST, additional_parameters=plain)
            there = portable(self.workspace)
            handed = slurm.map_array(
                work, map(DetachedJob.of, jobs), [there] * len(jobs), [self._mark] * len(jobs)
            )
        self._submitted |= {job.name: one for job, one in zip(jobs, handed, strict=True)}

    def start(self, job: Job) -> None:
        """Wait for it from now on; what has gone with the stage that it starts from is handed over again."""
        self._look()
        known = self._submitted.get(job.name)
        if known is None or not (self._waits(known) or known.paths.result_pickle.exists()):
            self._submit([job])
        self._running[job.name] = job

    def ended(self, timeout: float) -> list[Ended]:
        """What has left a result, or has gone from the queue without one."""
        time.sleep(timeout)
        if not self._look():
            return []
        outcomes = [(job, self._outcome(job)) for job in self._running.values()]
        found = [(job, outcome) for job, outcome in outcomes if outcome]
        for job, _ in found:
            self._missed.pop(job.name, None)
            del self._running[job.name], self._submitted[job.name]
        return [ended(job, outcome, self.workspace) for job, outcome in found]

    def _outcome(self, job: Job) -> Outcome | None:
        handed = self._submitted[job.name]
        if handed.paths.result_pickle.exists():
            how, told = self._submitit.core.utils.pickle_load(handed.paths.result_pickle)
            if how == "success":
                return "done", ""
            reason = told.strip().splitlines()[-1].partition(": ")[2]
            return ("stopped" if self._mark.asks(self.workspace.runs) else "failed"), reason
        if self._waits(handed):
            self._missed.pop(job.name, None)
            return None
        if time.monotonic() - self._missed.setdefault(job.name, time.monotonic()) < GONE:
            return None
        return "lost", f"{job.name} was lost; {handed.paths.stderr} may tell why; run the same command again"

    def _waits(self, handed: Any) -> bool:
        """Whether a job is in the queue, or at work; so is everything while Slurm does not answer."""
        return self._queue is None or str(handed.job_id) in self._queue

    def _look(self) -> bool:
        """Ask for the queue, now and then; whether it was asked for."""
        if time.monotonic() - self._looked < LOOKS:
            return False
        said = _slurm("squeue", "--noheader", "--array", f"--name={self.name}", "--format=%i")
        self._queue = None if said is None else set(said.split())
        self._looked = time.monotonic()
        return True

    def stop(self) -> None:
        """Take back what waits, and leave a mark, which every stage looks for."""
        _slurm("scancel", "--state=PENDING", f"--name={self.name}")
        Folder.make(self.workspace.runs).write(self._mark.name, {})

    def close(self) -> None:
        """Give up what is left."""
        _slurm("scancel", f"--name={self.name}")
        Folder(self.workspace.runs).drop(self._mark.name)


def work(job: DetachedJob, workspace: Workspace, mark: Mark) -> None:
    """Run a stage in a job of Slurm; whether it leaves a result or raises decides what comes after it.

    A signal of ours (USR2) has it queued again; after one that ends jobs (TERM), Slurm does so if it has to.

    Raises:
        StageFailed: if it failed, or was to stop; the message says why.
    """
    again: list[int] = []
    before = signal.signal(signal.SIGUSR2, lambda number, frame: again.append(number))
    how, reason = carry_out(job, replace(workspace, stop=lambda: bool(again)), mark)
    signal.signal(signal.SIGUSR2, before)
    if how == "stopped" and not mark.asks(opened(workspace.runs)):
        if again:
            subprocess.run(["scontrol", "requeue", _number()], check=True)
        time.sleep(KILLED)
    if how != "done":
        raise StageFailed(reason)


def _number() -> str:
    """What Slurm calls the job that this process is of."""
    array, place = os.environ.get("SLURM_ARRAY_JOB_ID"), os.environ.get("SLURM_ARRAY_TASK_ID")
    return f"{array}_{place}" if array else os.environ["SLURM_JOB_ID"]


def _flags(workspace: Workspace) -> dict[str, str | int]:
    """Flags of sbatch."""
    given = dict(workspace.executor_settings)
    cpus, gpus = number(workspace, "cpus", 1.0), number(workspace, "gpus", 0.0)
    if gpus % 1 or cpus % 1:
        raise SpecError(
            "Slurm gives whole processors and GPUs; give whole numbers of --gpus-per-stage and cpus"
        )
    limit = re.fullmatch(r"([\d.]+)([smhd])", given.pop("time", "1h"))
    minutes = math.ceil(float(limit[1]) * UNITS[limit[2]]) if limit else workspace.executor_settings["time"]
    found: dict[str, str | int] = {"time": minutes, "cpus_per_task": int(cpus)}
    found |= {"gpus_per_node": int(gpus)} if gpus else {}
    return found | {name.replace("-", "_"): given[name] for name in given if name not in ("cpus", "gpus")}


@contextmanager
def _explained() -> Iterator[None]:
    try:
        yield
    except (RuntimeError, OSError) as error:
        lines = [line for line in str(error).splitlines() if "error:" in line] or [str(error)]
        raise SpecError(f"Slurm takes no jobs from here: {' '.join(lines[0].split())[:200]}") from error


def _slurm(*command: str) -> str | None:
    """What a command of Slurm prints; None if it does not answer."""
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return None if done.returncode else done.stdout


executor = Slurm
