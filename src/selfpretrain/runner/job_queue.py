"""Queue that starts the stages of an experiment in order of their dependencies."""

from collections.abc import Callable
from itertools import islice

from ..errors import Interrupted, SelfPretrainError
from ..system.events import Event, emit
from ..training.trainer import Stop
from .executors.base import Ended, Executor
from .plan import Job, chain_costs

PAUSE = 0.1
"""Seconds between polls for finished stages."""
RESUMABLE = "stopped; the same command resumes from here"


class JobQueue:
    """Runs jobs on an executor, each after the one it starts from.

    Jobs start in order, except that critical chains come first: those that cost more than an even share of
    the remaining work. A stage that is locked by another process is postponed until nothing else is left.

    A lost stage is retried up to ``executor.attempts`` times; a failed one is not. After a failure or a stop
    request no further stage is started, and running ones may finish.
    """

    def __init__(
        self,
        jobs: list[Job],
        executor: Executor,
        stop: Stop,
        is_running: Callable[[Job], bool] = lambda job: False,
        costs: dict[str, float] | None = None,
    ) -> None:
        self.executor = executor
        self.stop = stop
        self.is_running = is_running
        self.costs = costs or dict.fromkeys((job.name for job in jobs), 0.0)
        self.chains = chain_costs(jobs, self.costs)
        self.left = sum(self.costs.values())
        self.waiting = list(jobs)
        self.open = {job.name for job in jobs}
        self.running: set[str] = set()
        self.lost: dict[str, int] = {}
        self.failures: list[SelfPretrainError] = []
        self.stopping = False

    def run(self) -> None:
        """Run all stages.

        Raises:
            Interrupted: when asked to stop, after every running stage has saved a checkpoint.
            SelfPretrainError: if a stage failed or was lost too often; finished stages are kept.
        """
        try:
            self.executor.announce(self.waiting)
            while self.running or (self.waiting and not self.is_closing):
                self._start()
                for ended in self.executor.poll(PAUSE):
                    self._handle(ended)
                if self.stop() and not self.stopping:
                    self.stopping = True
                    self.executor.stop()
        finally:
            self.executor.close()
        if self.failures:
            raise self.failures[0]
        if self.waiting:
            raise Interrupted(RESUMABLE)

    @property
    def is_closing(self) -> bool:
        """Whether no further stage is started."""
        return self.stopping or bool(self.failures)

    def _start(self) -> None:
        ready = [] if self.is_closing else [job for job in self.waiting if job.after not in self.open]
        slots = self.executor.slots
        share = self.left / max(slots, 1)
        room = slots - len(self.running)
        # Critical chains first: started last, such a chain would run alone at the end.
        ready.sort(key=lambda job: self.chains[job.name] < share)
        free = list(islice((job for job in ready if not self.is_running(job)), max(room, 0)))
        # With nothing else to do, start a stage that another process has locked: it waits for the lock.
        for job in free or (ready[:1] if not self.running else []):
            self.waiting.remove(job)
            self.running.add(job.name)
            self.executor.start(job)

    def _handle(self, ended: Ended) -> None:
        job = ended.job
        self.running.discard(job.name)
        match ended.how:
            case "done":
                self.open.discard(job.name)
                self.left -= self.costs[job.name]
            case "stopped":
                self.waiting.append(job)
                self.stopping = True
            case "lost":
                self._handle_lost(ended)
            case "failed":
                self._handle_failure(ended)

    def _handle_lost(self, ended: Ended) -> None:
        name = ended.job.name
        self.lost[name] = self.lost.get(name, 0) + 1
        emit(Event("lost", name, numbers={"attempts": self.lost[name]}))
        if self.lost[name] < self.executor.attempts:
            self.waiting.append(ended.job)
        else:
            self._handle_failure(ended)

    def _handle_failure(self, ended: Ended) -> None:
        self.failures.append(ended.error or SelfPretrainError(f"{ended.job.name} failed"))
