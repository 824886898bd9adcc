"""Stages as Slurm jobs, all submitted at once: job arrays, each depending on the stage that it starts from.

Settings: ``time`` of a job (e.g. 8h; default: one hour), ``cpus`` and ``gpus`` of a stage, and any other flag
of sbatch by its name, e.g. ``partition``, ``account``, ``mem``. All nodes must see the runs folder at the
same path. A job that reaches its time limit or is preempted saves a checkpoint and is requeued.
"""

import hashlib
import math
import os
import re
import shutil
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar

from ...errors import Interrupted, SelfPretrainError, SpecError, StageFailed
from ...system import extras
from ..plan import Job
from ..remote import Outcome, RemoteStage, number, replay
from ..workspace import Workspace
from .base import Ended, Executor

LOOKS = 2.0
"""Seconds between queries of the queue."""
LARGEST = 1000
"""Maximum size of a job array; Slurm's default limit is 1,001."""
GONE = 30.0
"""Seconds after which a job with no result and no entry in the queue is lost; shared disks may lag."""
KILLED = 600.0
"""Seconds that a job waits to be ended after saving its checkpoint."""
UNITS = {"s": 1 / 60, "m": 1.0, "h": 60.0, "d": 1440.0}


class Slurm(Executor):
    """One job per stage; lost jobs are submitted again.

    Raises:
        SpecError: if submitit is not installed, Slurm is not available, or it rejects the settings.
    """

    attempts: ClassVar[int] = 3
    slots = 1_000_000  # Slurm does the queueing

    def __init__(self, workspace: Workspace) -> None:
        super().__init__(workspace)
        self._submitit: Any = extras.load("submitit", "--executor slurm", "slurm")
        self.name = job_name(workspace.runs)
        self._flags = _flags(workspace) | {"job_name": self.name}
        self._submitted: dict[str, Any] = {}
        self._running: dict[str, Job] = {}
        self._missed: dict[str, float] = {}
        self._queue: set[str] | None = set()
        self._looked = -LOOKS
        self._stopping = False

    @classmethod
    def detach(cls, jobs: list[Job], workspace: Workspace) -> str:
        """Submit all jobs.

        Raises:
            SpecError: if jobs of this runs folder are in the queue.
        """
        executor = cls(workspace)
        if count := sum(queued(workspace.runs).values()):
            raise SpecError(
                f"{count} jobs of {workspace.runs} are in the queue; scancel --name={executor.name}, first"
            )
        executor.foresee(jobs)
        return f"{len(jobs)} jobs of Slurm, called {executor.name}; scancel --name={executor.name} ends them"

    def foresee(self, jobs: list[Job]) -> None:
        """Submit all jobs in arrays: those without dependency first, then those that share one."""
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
            handed = slurm.map_array(work, [RemoteStage.of(job, self.workspace) for job in jobs])
        self._submitted |= {job.name: one for job, one in zip(jobs, handed, strict=True)}

    def start(self, job: Job) -> None:
        """Watch a job; it is submitted again if it left the queue with the stage that it depends on."""
        self._look()
        known = self._submitted.get(job.name)
        if known is None or not (self._waits(known) or known.paths.result_pickle.exists()):
            self._submit([job])
        self._running[job.name] = job

    def ended(self, timeout: float) -> list[Ended]:
        """Return the jobs that have a result, or have left the queue without one."""
        time.sleep(timeout)
        if not self._look():
            return []
        found = []
        for job in list(self._running.values()):
            if outcome := self._outcome(job):
                self._missed.pop(job.name, None)
                del self._running[job.name], self._submitted[job.name]
                found.append(self._how(job, outcome))
        return found

    def _how(self, job: Job, outcome: Outcome) -> Ended:
        how, reason = outcome
        if how == "done":
            replay(self.workspace.named(job.name))
            return Ended(job, "done")
        if how == "stopped":
            return Ended(job, "stopped", Interrupted(reason))
        return Ended(job, "lost" if how == "lost" else "failed", SelfPretrainError(reason))

    def _outcome(self, job: Job) -> Outcome | None:
        handed = self._submitted[job.name]
        if handed.paths.result_pickle.exists():
            how, value = self._submitit.core.utils.pickle_load(handed.paths.result_pickle)
            if how == "success":
                return "done", ""
            return "failed", value.strip().splitlines()[-1].partition(": ")[2]
        if self._waits(handed):
            self._missed.pop(job.name, None)
            return None
        if self._stopping:
            return "stopped", f"{job.name} was taken back"
        if time.monotonic() - self._missed.setdefault(job.name, time.monotonic()) < GONE:
            return None
        return "lost", f"{job.name} was lost; {handed.paths.stderr} may say why; run the same command again"

    def _waits(self, handed: Any) -> bool:
        """Return whether a job is queued or running; True if Slurm did not answer."""
        return self._queue is None or str(handed.job_id) in self._queue

    def _look(self) -> bool:
        """Query the queue, at most every ``LOOKS`` seconds; return whether it was queried."""
        if time.monotonic() - self._looked < LOOKS:
            return False
        output = _slurm("squeue", "--noheader", "--array", f"--name={self.name}", "--format=%i")
        self._queue = None if output is None else set(output.split())
        self._looked = time.monotonic()
        return True

    def stop(self) -> None:
        """Cancel all jobs; running ones receive SIGTERM and save a checkpoint."""
        self._stopping = True
        self._cancel()

    def close(self) -> None:
        """Cancel all jobs that are left."""
        self._cancel()

    def _cancel(self) -> None:
        ids = sorted({str(handed.job_id) for handed in self._submitted.values()})
        for first in range(0, len(ids), LARGEST):
            _slurm("scancel", *ids[first : first + LARGEST])


def job_name(runs: Path) -> str:
    """Return the Slurm job name of a runs folder."""
    return f"spt-{hashlib.sha256(str(runs.absolute()).encode()).hexdigest()[:8]}"


def queued(runs: Path) -> Counter[str]:
    """Count the jobs of a runs folder by state, e.g. PENDING; empty without Slurm."""
    if not shutil.which("squeue"):
        return Counter()
    output = _slurm("squeue", "--noheader", "--array", f"--name={job_name(runs)}", "--format=%T")
    return Counter((output or "").split())


def work(stage: RemoteStage) -> None:
    """Run a stage in a Slurm job; jobs that depend on it start only if this returns.

    On SIGUSR2, sent shortly before the time limit, the job requeues itself. On SIGTERM, Slurm decides.

    Raises:
        StageFailed: if it failed or was stopped; the message says why.
    """
    again: list[int] = []
    before = signal.signal(signal.SIGUSR2, lambda number, frame: again.append(number))
    how, reason = stage.run(lambda: bool(again))
    signal.signal(signal.SIGUSR2, before)
    if how == "stopped":
        if again:
            subprocess.run(["scontrol", "requeue", _number()], check=True)
        time.sleep(KILLED)
    if how != "done":
        raise StageFailed(reason)


def _number() -> str:
    """Return the Slurm id of this job."""
    array, place = os.environ.get("SLURM_ARRAY_JOB_ID"), os.environ.get("SLURM_ARRAY_TASK_ID")
    return f"{array}_{place}" if array else os.environ["SLURM_JOB_ID"]


def _flags(workspace: Workspace) -> dict[str, str | int]:
    """Return the flags of sbatch."""
    given = dict(workspace.executor_settings)
    cpus, gpus = number(workspace, "cpus", 1.0), number(workspace, "gpus", 0.0)
    if gpus % 1 or cpus % 1:
        raise SpecError("Slurm gives whole processors and GPUs; give whole numbers of cpus and gpus")
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
    """Return the output of a Slurm command; None if it fails."""
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return None if done.returncode else done.stdout


executor = Slurm
