"""This machine: usable cores, memory and its limits, processor, versions, git commit, and a report on it."""

import importlib.metadata
import os
import platform
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import numpy
import torch

from .. import __version__
from ..errors import StoreError
from .files import FORMAT, Json, explain_errors
from .startup import keep_memory

MEMORY_SHARE = 0.9  # maximum share of the free memory that may be allocated
CGROUP = Path("/sys/fs/cgroup")  # limits of the container
MATRIX_SIZE = 512  # rows and columns of the matrices whose product measures the speed
PRODUCTS = 50  # products that are timed
STAGES_PER_GPU = "SELFPRETRAIN_STAGES_PER_GPU"
"""Environment variable with the number of processes that train on one GPU at once."""


def usable_cores() -> int:
    """Return the number of CPU cores this process may use, by its affinity and cgroup quota."""
    cores = len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1
    try:
        quota, period = (CGROUP / "cpu.max").read_text().split()
        return cores if quota == "max" else max(1, min(cores, int(quota) // int(period)))
    except (OSError, ValueError):
        return cores


@contextmanager
def torch_restored() -> Iterator[None]:
    """Restore the number of threads and the random state of torch after this block.

    Training sets both; a program that draws numbers between two trainings would draw the same again.
    """
    threads = torch.get_num_threads()
    gpus = range(torch.cuda.device_count()) if torch.cuda.is_initialized() else ()
    with torch.random.fork_rng(gpus):
        try:
            yield
        finally:
            torch.set_num_threads(threads)


def share_gpu(stages: int) -> None:
    """Set how many processes train on the GPU of this one at once."""
    os.environ[STAGES_PER_GPU] = str(stages)


def free_gpu_memory(device: torch.device | str) -> int:
    """Return the bytes of a GPU that are free for this process, one of those that `share_gpu` counts."""
    return torch.cuda.mem_get_info(device)[0] // int(os.environ.get(STAGES_PER_GPU, "1"))


def gpu_memory(device: torch.device | str) -> int:
    """Return the bytes of a GPU for this process, one of those that `share_gpu` counts."""
    return torch.cuda.mem_get_info(device)[1] // int(os.environ.get(STAGES_PER_GPU, "1"))


def environment(device: str) -> Json:
    """Return the versions, hardware and commit that a stage runs with, for ``environment.json``."""
    return {
        "format": FORMAT,
        "selfpretrain": __version__,
        "python": platform.python_version(),
        "torch": torch.__version__,
        "numpy": numpy.__version__,
        "platform": platform.platform(),
        "processor": _processor(),
        "device": torch.cuda.get_device_name(device) if device.startswith("cuda") else device,
        "threads": torch.get_num_threads(),
        "git": _git(),
    }


def _processor() -> str:
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    named = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(named, "") or platform.processor() or platform.machine()


@cache
def _git() -> Json | None:
    """Return commit and changes of the repository that this file is in; None if it is installed elsewhere.

    They are those of the first call, soon after this file was imported. A virtual environment may lie in
    another repository, which does not have this file.
    """
    here = Path(__file__)
    try:
        _, commit, status = (
            subprocess.run(
                ["git", *words], cwd=here.parent, capture_output=True, text=True, check=True
            ).stdout.strip()
            for words in (
                ("ls-files", "--error-unmatch", here.name),
                ("rev-parse", "HEAD"),
                ("status", "--porcelain"),
            )
        )
    except (OSError, subprocess.CalledProcessError):
        return None
    return {"commit": commit, "dirty": bool(status)}


def peak_memory() -> int:
    """Return the largest resident set size of this process so far, in bytes."""
    import resource  # of Unix alone

    if sys.platform == "linux":  # getrusage may include the parent's memory before the fork
        return int(_field(Path("/proc/self/status"), "VmHWM")) * 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def limit_memory() -> None:
    """Limit the memory of this process, so that large allocations fail before the system kills a process."""
    import resource  # of Unix alone

    if sys.platform == "linux":
        pages = int(Path("/proc/self/statm").read_text().split()[5])  # data and stack
        limit = pages * resource.getpagesize() + int(MEMORY_SHARE * free_memory())
        hard = resource.getrlimit(resource.RLIMIT_DATA)[1]
        soft = limit if hard == resource.RLIM_INFINITY else min(limit, hard)
        resource.setrlimit(resource.RLIMIT_DATA, (soft, hard))


def free_memory() -> int:
    """Return the memory available to this process on Linux in bytes, by the machine and its cgroup."""
    free = int(_field(Path("/proc/meminfo"), "MemAvailable")) * 1024
    try:
        limit, used, kinds = ((CGROUP / f"memory.{name}").read_text() for name in ("max", "current", "stat"))
    except OSError:
        return free
    # Files that were read stay in memory, and count as used, until it is needed otherwise.
    cached = sum(int(line.split()[1]) for line in kinds.splitlines() if line.startswith("inactive_file "))
    return free if limit.strip() == "max" else min(free, int(limit) - int(used) + cached)


def _field(path: Path, name: str) -> str:
    lines = (line.split() for line in path.read_text().splitlines())
    return next(words[1] for words in lines if words[0] == f"{name}:")


def collect_env(runs: Path) -> Iterator[tuple[str, str]]:
    """Yield name and description of versions, devices, threads, memory, speed and the runs folder."""
    yield "selfpretrain", __version__
    yield "python", f"{platform.python_version()} on {platform.platform()}"
    yield "torch", torch.__version__
    for package in ("numpy", "scipy", "scikit-learn", "numba", "matplotlib"):
        yield package, importlib.metadata.version(package)
    gpus = [f"cuda:{i} ({torch.cuda.get_device_name(i)})" for i in range(torch.cuda.device_count())]
    yield "devices", ", ".join(["cpu", *gpus])
    yield "cores", f"{usable_cores()} usable of {os.cpu_count()}"
    setting = f"OMP_NUM_THREADS={os.environ.get('OMP_NUM_THREADS', '')}"
    yield "threads", f"{torch.get_num_threads()} per process ({setting})"
    reused = "kept for reuse (SELFPRETRAIN_MALLOC=0 turns this off)"
    fate = reused if keep_memory() else "given back to the system"
    yield "memory", f"large blocks that are freed are {fate}"
    a = torch.randn(MATRIX_SIZE, MATRIX_SIZE)
    a @ a
    start = time.perf_counter()
    for _ in range(PRODUCTS):
        a @ a
    speed = 2e-9 * MATRIX_SIZE**3 * PRODUCTS / (time.perf_counter() - start)
    what = f"matrix product of {MATRIX_SIZE} x {MATRIX_SIZE}"
    yield "speed", f"{speed:.0f} GFLOP/s in one process ({what})"
    yield "runs", _describe_folder(runs)


def _describe_folder(runs: Path) -> str:
    exists = runs.exists()
    try:
        with explain_errors(runs):
            ancestor = next(p for p in (runs, *runs.absolute().parents) if p.exists())
            free = os.statvfs(ancestor).f_bavail * os.statvfs(ancestor).f_frsize
            if not os.access(ancestor, os.W_OK):
                raise PermissionError(13, "no right to write")
    except StoreError as error:
        return str(error)
    return f"{runs} {'is there' if exists else 'can be made'}, {free / 2**30:.0f} GiB free"
