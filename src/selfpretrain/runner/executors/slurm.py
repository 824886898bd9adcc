"""Stages as Slurm jobs, all submitted at once: job arrays, each depending on the stage that it starts from.

Settings: ``time`` of a job (e.g. 8h; default: one hour), ``cpus`` and ``gpus`` of a stage, and any other flag
of sbatch by its name, e.g. ``partition``, ``account``, ``mem``. All nodes must see the runs folder at the
same path. A job that reaches its time limit or is preempted saves a checkpoint and is requeued.
"""

import math
import os
import re
import shutil
import signal
import subprocess
import time
from collections import Counter
from pathlib import Path
from typing import Any, ClassVar

from ... import registry
from ...errors import DoesNotFit, SpecError, StageFailed
from ...system.files import digest_of
from ..plan import PlannedStage
from ..stage import Outcome, RemoteStage
from ..workspace import Workspace
from .base import Ended, Executor

POLL_SECONDS = 2.0
"""Seconds between queries of the queue."""
MAX_ARRAY = 1000
"""Maximum size of a job array; Slurm's default limit is 1,001."""
LOST_AFTER = 30.0
"""Seconds after which a job with no result and no entry in the queue is lost; shared disks may lag."""
KILL_WAIT = 600.0
"""Seconds that a job waits to be ended after saving its checkpoint."""
SILENT = "squeue does not answer"
UNITS = {"s": 1 / 60, "m": 1.0, "h": 60.0, "d": 1440.0}


class Slurm(Executor):
    """One job per stage; lost jobs are submitted again.

    Raises:
        SpecError: if submitit is not installed, Slurm is not available, or it rejects the settings.
    """

    attempts: ClassVar[int] = 3
    elsewhere: ClassVar[bool] = True
    submits_all: ClassVar[bool] = True
    slots = 1_000_000  # Slurm does the queueing

    def __init__(self, workspace: Workspace) -> None:
        super().__init__(workspace)
        self._submitit: Any = registry.import_extra("submitit", "--executor slurm", "slurm")
        self.name = job_name(workspace.runs)
        self._flags = _sbatch_flags(workspace) | {"job_name": self.name}
        self._submitted: dict[str, Any] = {}
        self._running: dict[str, PlannedStage] = {}
        self._missing_since: dict[str, float] = {}
        self._queue: set[str] | None = set()
        self._queried_at = -POLL_SECONDS
        self._stopping = False
        self._announced_at = -LOST_AFTER

    @classmethod
    def detach(cls, stages: list[PlannedStage], workspace: Workspace) -> str:
        """Submit all jobs.

        Raises:
            SpecError: if jobs of this runs folder are in the queue, or Slurm refuses some; none are left.
        """
        executor = cls(workspace)
        queued = count_queued(workspace.runs)
        if queued is None:
            raise SpecError(f"{SILENT}, and jobs of {workspace.runs} may be queued; try again later")
        if count := sum(queued.values()):
            raise SpecError(
                f"{count} jobs of {workspace.runs} are in the queue; scancel --name={executor.name}, first"
            )
        try:
            executor.announce(stages)
        except BaseException:  # a later array was refused, or Ctrl-C: what is queued would run all the same
            executor.close()
            raise
        return (
            f"{len(stages)} jobs of Slurm, called {executor.name}; scancel --name={executor.name} ends them"
        )

    def announce(self, stages: list[PlannedStage]) -> None:
        """Submit all jobs in arrays: those without dependency first, then those that share one."""
        families: dict[str | None, list[PlannedStage]] = {}
        ids = {stage.id for stage in stages}
        for stage in stages:
            families.setdefault(stage.parent if stage.parent in ids else None, []).append(stage)
        self._announced_at = time.monotonic()
        for parent, family in families.items():
            for first in range(0, len(family), MAX_ARRAY):
                self._submit(family[first : first + MAX_ARRAY], parent)

    def _submit(self, stages: list[PlannedStage], parent: str | None = None) -> None:
        remote = [RemoteStage.of(stage, self.workspace) for stage in stages]
        dependency = {"dependency": f"afterok:{self._submitted[parent].job_id}"} if parent else {}
        parameters = {"kill-on-invalid-dep": "yes", "requeue": True} | self._flags | dependency
        try:
            slurm = self._submitit.SlurmExecutor(self.workspace.runs.absolute() / "slurm", 10**6)
            slurm.update_parameters(time=10**6, array_parallelism=MAX_ARRAY, additional_parameters=parameters)
            submitted = slurm.map_array(run_in_job, remote)
        except (RuntimeError, OSError) as error:
            lines = [line for line in str(error).splitlines() if "error:" in line] or [str(error)]
            reason = " ".join(lines[0].split())[:200] or "sbatch failed without a word"
            raise SpecError(f"Slurm takes no jobs from here: {reason}") from error
        self._submitted |= {stage.id: job for stage, job in zip(stages, submitted, strict=True)}

    def start(self, stage: PlannedStage) -> None:
        """Watch a job; it is submitted again if it left the queue with the stage that it depends on."""
        self._query_queue()
        submitted = self._submitted.get(stage.id)
        # The queue may show new jobs late: some clusters answer squeue from a cache.
        is_new = time.monotonic() - self._announced_at < LOST_AFTER
        known = submitted and (is_new or self._in_queue(submitted) or submitted.paths.result_pickle.exists())
        if not known:
            self._submit([stage])
        self._running[stage.id] = stage

    def poll(self, timeout: float) -> list[Ended]:
        """Return the jobs that have a result, or have left the queue without one."""
        time.sleep(timeout)
        if not self._query_queue():
            return []
        found = []
        for stage in list(self._running.values()):
            if outcome := self._outcome(stage):
                self._missing_since.pop(stage.id, None)
                del self._running[stage.id], self._submitted[stage.id]
                found.append(self.ended(stage, outcome))
        return found

    def _outcome(self, stage: PlannedStage) -> Outcome | None:
        submitted = self._submitted[stage.id]
        if submitted.paths.result_pickle.exists():
            status, output = self._submitit.core.utils.pickle_load(submitted.paths.result_pickle)
            says = f"; {submitted.paths.stderr} may say more"
            return ("done", "") if status == "success" else _failure(stage, output, says)
        if self._in_queue(submitted):
            self._missing_since.pop(stage.id, None)
            return None
        if self._stopping:
            return "stopped", f"{stage.id} was taken back"
        if time.monotonic() - self._missing_since.setdefault(stage.id, time.monotonic()) < LOST_AFTER:
            return None
        return (
            "lost",
            f"{stage.id} was lost; {submitted.paths.stderr} may say why; run the same command again",
        )

    def _in_queue(self, submitted: Any) -> bool:
        """Return whether a job is queued or running; True if Slurm did not answer."""
        return self._queue is None or str(submitted.job_id) in self._queue

    def _query_queue(self) -> bool:
        """Query the queue, at most every ``POLL_SECONDS`` seconds; return whether it was queried."""
        if time.monotonic() - self._queried_at < POLL_SECONDS:
            return False
        output = _run_command("squeue", "--noheader", "--array", f"--name={self.name}", "--format=%i")
        self._queue = None if output is None else set(output.split())
        self._queried_at = time.monotonic()
        return True

    def stop(self) -> None:
        """Cancel all jobs; running ones receive SIGTERM and save a checkpoint."""
        self._stopping = True
        self.close()

    def close(self) -> None:
        """Cancel all jobs that are left."""
        ids = sorted({str(submitted.job_id) for submitted in self._submitted.values()})
        for first in range(0, len(ids), MAX_ARRAY):
            _run_command("scancel", *ids[first : first + MAX_ARRAY])


def _failure(stage: PlannedStage, trace: str, advice: str) -> Outcome:
    """Return how a stage failed, from the traceback of its job: as ``run_in_job`` says, or otherwise."""
    last = trace.strip().splitlines()[-1]
    kind, _, reason = last.partition(": ")
    if kind.endswith(DoesNotFit.__name__):
        return "unfit", reason
    return "failed", reason if kind.endswith(StageFailed.__name__) else f"{stage.id}: {last}{advice}"


def job_name(runs: Path) -> str:
    """Return the Slurm job name of a runs folder."""
    return f"selfpretrain-{digest_of(str(runs.resolve()).encode())[:8]}"


def count_queued(runs: Path) -> Counter[str] | None:
    """Count the jobs of a runs folder by state, e.g. PENDING; empty without Slurm, None without an answer."""
    if not shutil.which("squeue"):
        return Counter()
    output = _run_command("squeue", "--noheader", "--array", f"--name={job_name(runs)}", "--format=%T")
    return None if output is None else Counter(output.split())


def run_in_job(stage: RemoteStage) -> None:
    """Run a stage in a Slurm job; jobs that depend on it start only if this returns.

    On SIGUSR2, sent shortly before the time limit, the job requeues itself. On SIGTERM, Slurm decides.

    Raises:
        StageFailed: if it failed or was stopped; the message says why.
    """
    requeue_signals: list[int] = []
    previous = signal.signal(signal.SIGUSR2, lambda number, frame: requeue_signals.append(number))
    status, reason = stage.run(lambda: bool(requeue_signals))
    signal.signal(signal.SIGUSR2, previous)
    if status == "stopped":
        if requeue_signals:
            array = os.environ.get("SLURM_ARRAY_JOB_ID")
            own = f"{array}_{os.environ['SLURM_ARRAY_TASK_ID']}" if array else os.environ["SLURM_JOB_ID"]
            subprocess.run(["scontrol", "requeue", own], check=True)
        time.sleep(KILL_WAIT)
    if status != "done":
        raise (DoesNotFit if status == "unfit" else StageFailed)(reason)


def _sbatch_flags(workspace: Workspace) -> dict[str, str | int]:
    """Return the flags of sbatch."""
    settings = dict(workspace.executor_settings)
    cpus = workspace.number("cpus", 1.0)
    gpus = workspace.number("gpus", 0.0)
    if gpus % 1 or cpus % 1:
        raise SpecError("Slurm gives whole processors and GPUs; give whole numbers of cpus and gpus")
    limit = re.fullmatch(r"(\d+\.?\d*)([smhd])", settings.pop("time", "1h"))
    minutes = math.ceil(float(limit[1]) * UNITS[limit[2]]) if limit else workspace.executor_settings["time"]
    flags: dict[str, str | int] = {"time": minutes, "cpus_per_task": int(cpus)}
    flags |= {"gpus_per_node": int(gpus)} if gpus else {}
    return flags | {
        name.replace("-", "_"): settings[name] for name in settings if name not in ("cpus", "gpus")
    }


def _run_command(*command: str) -> str | None:
    """Return the output of a Slurm command; None if it fails."""
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    return None if result.returncode else result.stdout


executor = Slurm
