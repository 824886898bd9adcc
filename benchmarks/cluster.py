"""Many workers that fail, by simulation: what workers do and how they own stages is the code that runs.

    python benchmarks/cluster.py [--stages 10000] [--workers 1000] [--failures 0.05]
    python benchmarks/cluster.py --gpu a100 [--gpus 8 64 512]

Simulated are the clock, how long a stage takes (lognormal, half an hour on average; what a plan says of it
is wrong by a third), listings (20 ms for 1,000 names) and failures of workers, which take their stage with
them and are replaced after five minutes. One stage in three is a pretraining that two others start from. A
stage goes on from its last checkpoint, 20 s old at most. The first line is of the same stages, handed out by
the scheduler of a driver; so are all studies at the papers' scale, with ``--gpu``.
"""

import argparse
import functools
import heapq
import itertools
import json
import random
import resource
import threading
import time as real_time
from collections import Counter, defaultdict
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from selfpretrain.errors import DataError, LeaseLost, SpecError, Taken
from selfpretrain.registry import find, names
from selfpretrain.runner import scheduler as scheduling
from selfpretrain.runner import survey, worker
from selfpretrain.runner.executors.base import Ended, Executor
from selfpretrain.runner.plan import Job, chains, estimate
from selfpretrain.runner.plan import jobs as plan_jobs
from selfpretrain.runner.workspace import Workspace
from selfpretrain.studies._running import planning
from selfpretrain.system import lease as leases
from selfpretrain.system.lease import RENEWALS, Lease
from selfpretrain.system.store import Listed, Store, Stored
from selfpretrain.training import cost

MEAN, SPREAD, WRONG = 1800.0, 0.7, 0.33
REQUEST, PAGE = 0.02, 1000
REPLACED, LOST = 300.0, 20.0
READ = survey._read
FILES = ("recipe.json", "environment.json", "log.jsonl", "weights.safetensors", "predictions.safetensors")


class Killed(BaseException):
    """The worker is no more."""


class Clock:
    """Simulated time: of all threads, the one whose turn comes first goes on, and no other."""

    def __init__(self) -> None:
        self.now, self.events = 0.0, []
        self.order, self.turn = itertools.count(), threading.Event()

    def monotonic(self) -> float:
        return self.now

    def call(self, delay: float, what: Callable[[], None]) -> None:
        heapq.heappush(self.events, (self.now + delay, next(self.order), what))

    def sleep(self, seconds: float) -> None:
        """In a worker: let others go on, until then."""
        mine = threading.Event()
        self.call(seconds, lambda: (mine.set(), self._wait()))
        self.turn.set()
        mine.wait()

    def start(self, delay: float, what: Callable[[], None]) -> None:
        """Begin a thread then."""

        def whole() -> None:
            what()
            self.turn.set()

        def begin() -> None:
            threading.Thread(target=whole, daemon=True).start()
            self._wait()

        self.call(delay, begin)

    def _wait(self) -> None:
        self.turn.wait()
        self.turn.clear()

    def run(self) -> None:
        while self.events:
            self.now, _, what = heapq.heappop(self.events)
            what()


class Memory(Store):
    """Files in memory, and how often they were asked for."""

    def __init__(self, clock: Clock, asked: Counter, files: dict, folder: str = "") -> None:
        self.time, self.asked, self.files, self.folder = clock, asked, files, folder

    @property
    def name(self) -> str:
        return self.folder

    def _count(self, kind: str, times: int = 1) -> dict:
        self.asked[kind] += times
        return self.files[self.folder]

    def create(self, name: str, content: bytes) -> bool:
        there = self._count("put")
        if name in there:
            return False
        there[name] = (content, self.time.now)
        return True

    def write(self, name: str, content: bytes) -> None:
        self._count("put")[name] = (content, self.time.now)

    def renew(self, name: str, content: bytes) -> None:
        self._count("renew")[name] = (content, self.time.now)

    def read(self, name: str) -> Stored | None:
        found = self._count("get").get(name)
        return found and Stored(*found)

    def names(self, start: str) -> list[str]:
        return [name for name in self._count("list") if name.startswith(start)]

    def entries(self) -> list[Listed]:
        pages = 1 + sum(map(len, self.files.values())) // PAGE
        self.asked["list all"] += pages
        self.time.sleep(REQUEST * pages)
        return [
            Listed(f"{stage}/{name}", 1, changed)
            for stage, there in self.files.items()
            for name, (_, changed) in there.items()
        ]

    def delete(self, name: str) -> None:
        self._count("delete").pop(name, None)

    def clock(self) -> float:
        return self.time.now


def planned(count: int, luck: random.Random) -> tuple[list[Job], dict[str, float]]:
    """Pretrainings with two finetunings each, and how long each takes."""
    jobs = []
    for i in range(count):
        after = None if i % 3 == 0 else f"stage-{i - i % 3}"
        jobs.append(Job(None, f"stage-{i}", after, after is not None))  # type: ignore[arg-type]
    sizes = {job.name: luck.lognormvariate(0.0, SPREAD) for job in jobs}
    mean = sum(sizes.values()) / len(sizes)
    return jobs, {name: MEAN * size / mean for name, size in sizes.items()}


class Cluster:
    """Workers that take stages, fail and are replaced."""

    def __init__(
        self, jobs: list[Job], durations: dict[str, float], luck: random.Random, failures: float
    ) -> None:
        self.clock, self.asked, self.files = Clock(), Counter(), defaultdict(dict)
        self.jobs, self.left, self.luck, self.rate = jobs, dict(durations), luck, failures / 3600
        self.costs = {name: size * luck.lognormvariate(0.0, WRONG) for name, size in durations.items()}
        self.done: Counter = Counter()
        self.lost, self.failed, self.last = 0.0, 0, 0.0

    def live(self) -> None:
        dies = self.clock.now + (self.luck.expovariate(self.rate) if self.rate else float("inf"))
        try:
            surveys = survey.Surveys(self.store(""), self.store(worker.PLANS))
            worker.take_all(self.jobs, self.costs, surveys, partial(self.take, dies), lambda: True)
        except Killed:
            self.failed += 1
            self.clock.start(REPLACED, self.live)

    def store(self, name: str) -> Memory:
        return Memory(self.clock, self.asked, self.files, name)

    def take(self, dies: float, job: Job) -> worker.Taking:
        store = self.store(job.name)
        if store.read("result.json"):
            return "done"
        if worker.why_failed(store, leases.lease_records(store), 0.0, 1000):
            return "failed"
        try:
            lease = Lease(store)
        except Taken:
            return "busy"
        began, needs = self.clock.now, self.left[job.name]
        ends = min(began + needs, max(dies, began))
        self._renewed(lease, ends)
        self.clock.sleep(ends - began)
        if ends < began + needs:  # what came after the last checkpoint is lost
            kept = (ends - began) // LOST * LOST
            self.left[job.name] -= kept
            self.lost += ends - began - kept
            raise Killed
        try:
            lease.confirm()
        except LeaseLost:
            return "busy"
        for name in (*FILES[: 4 + job.tested], "result.json"):
            store.write(name, b"")
        lease.end("done")
        self.done[job.name] += 1
        self.last = self.clock.now
        return "done"

    def _renewed(self, lease: Lease, until: float) -> None:
        def renew() -> None:
            if self.clock.now < until:
                lease.renew()
                self.clock.call(lease.seconds / RENEWALS, renew)

        self.clock.call(lease.seconds / RENEWALS, renew)

    def run(self, workers: int) -> None:
        for i in range(workers):
            self.clock.start(i * 0.01, self.live)
        self.clock.run()


class Simulated(Executor):
    """Machines of a driver, whose stages take no real time; one that fails is replaced."""

    attempts = 1_000_000

    def __init__(self, machines: int, durations: dict[str, float], failures: float = 0.0) -> None:
        self.machines, self.left, self.rate = machines, dict(durations), failures / 3600
        self.luck, self.running = random.Random(0), list[tuple[float, str, Job, bool]]()
        self.now, self.lost, self.failed, self.away = 0.0, 0.0, 0, list[float]()

    @property
    def slots(self) -> int:
        return self.machines - len(self.away)

    def start(self, job: Job) -> None:
        needs = self.left[job.name]
        lives = self.luck.expovariate(self.rate) if self.rate else needs
        if lives < needs:
            self.left[job.name] -= lives // LOST * LOST
            self.lost += lives % LOST
        heapq.heappush(self.running, (self.now + min(lives, needs), job.name, job, lives < needs))

    def ended(self, timeout: float) -> list[Ended]:
        """What ends next, or a machine that comes back before."""
        if self.away and (not self.running or self.away[0] <= self.running[0][0]):
            self.now = heapq.heappop(self.away)
            return []
        self.now, _, job, lost = heapq.heappop(self.running)
        if lost:
            self.failed += 1
            heapq.heappush(self.away, self.now + REPLACED)
        return [Ended(job, "lost" if lost else "done")]

    def stop(self) -> None: ...

    def close(self) -> None: ...


def least(jobs: list[Job], durations: dict[str, float], workers: int) -> float:
    """Seconds; no schedule could be shorter than its longest chain, or than all work shared evenly."""
    return max(sum(durations.values()) / workers, *chains(jobs, durations).values())


def workers_alone(
    jobs: list[Job], durations: dict[str, float], workers: int, failures: float
) -> dict[str, Any]:
    """What became of stages and workers."""
    luck, stages = random.Random(0), len(jobs)
    ideal = least(jobs, durations, workers)
    cluster = Cluster(jobs, durations, luck, failures)
    worker.time = leases.time = survey.time = cluster.clock
    worker.random, survey._read = luck, functools.lru_cache(4)(READ)
    leases._place = lambda: ""  # nothing is a process of this machine
    threading.stack_size(256 * 1024)
    cpu = real_time.process_time()
    cluster.run(workers)
    assert set(cluster.done) == {job.name for job in jobs}
    return {
        "stages": stages, "workers": workers, "failures per hour": failures, "failed workers": cluster.failed,
        "finished twice": sum(n > 1 for n in cluster.done.values()),
        "hours": round(cluster.last / 3600, 2), "ideal hours": round(ideal / 3600, 2),
        "lost hours of work": round(cluster.lost / 3600, 2),
        "requests per stage": {k: round(n / stages, 1) for k, n in sorted(cluster.asked.items())},
        "requests per second": round(sum(cluster.asked.values()) / cluster.last, 1),
        "simulated in CPU seconds": round(real_time.process_time() - cpu, 1),
    }  # fmt: skip


def driver(
    jobs: list[Job], durations: dict[str, float], machines: int, failures: float = 0.0
) -> dict[str, Any]:
    """What became of stages that a driver hands out."""
    executor, cpu = Simulated(machines, durations, failures), real_time.process_time()
    scheduling.Scheduler(jobs, executor, lambda: False, costs=durations).run()
    return {
        "stages": len(jobs), "machines": machines, "failures per hour": failures, "failed": executor.failed,
        "hours": round(executor.now / 3600, 2),
        "ideal hours": round(least(jobs, durations, machines) / 3600, 2),
        "lost hours of work": round(executor.lost / 3600, 2),
        "CPU ms per stage": round((real_time.process_time() - cpu) / len(jobs) * 1e3, 3),
        "largest MB": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
    }  # fmt: skip


def paper(gpu: str, counts: list[int], failures: float) -> None:
    """All studies at the papers' scale on so many GPUs."""
    found = dict[str, Job]()
    workspace = Workspace(Path("runs"), quiet=True)
    with planning(workspace, "paper"):
        for name in names("studies"):
            try:
                cells = find("studies", name).at("paper", 3).experiment("paper", 0).cells
            except (SpecError, DataError):  # it has no such scale
                continue
            found |= {job.name: job for job in plan_jobs((cell.recipe for cell in cells), workspace)}
        jobs = list(found.values())
        durations = {job.name: cost.gpu_seconds(estimate(job).flops, gpu) for job in jobs}
    chain = max(chains(jobs, durations).values())
    total = {"stages": len(jobs), "GPU hours": round(sum(durations.values()) / 3600)}
    print(json.dumps(total | {"longest chain, days": round(chain / 86400, 1)}), flush=True)
    for count in counts:
        print(json.dumps(driver(jobs, durations, count, failures)), flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--stages", type=int, default=10_000)
    parser.add_argument("--workers", type=int, default=1_000)
    parser.add_argument("--failures", type=float, default=0.05, help="share of workers per hour")
    parser.add_argument(
        "--gpu", default="", help="instead: what all studies would take on this kind, e.g. a100"
    )
    parser.add_argument("--gpus", type=int, nargs="+", default=[8, 64, 512], help="for --gpu: how many")
    asked = parser.parse_args()
    if asked.gpu:
        paper(asked.gpu, asked.gpus, asked.failures)
        raise SystemExit
    stages = planned(asked.stages, random.Random(0))
    print(json.dumps(driver(*stages, asked.workers, asked.failures)), flush=True)
    print(json.dumps(workers_alone(*stages, asked.workers, asked.failures), indent=1))
