"""Report on this machine: versions, devices, threads, speed and disk space."""

import importlib.metadata
import os
import platform
import time
from collections.abc import Iterator
from pathlib import Path

import torch

from .. import __version__
from ..errors import StoreError
from .files import explain_errors
from .hardware import usable_cores
from .startup import keep_memory

SIZE = 512
"""Rows and columns of the matrices whose product measures the speed."""
REPEATS = 50
"""Products that are timed."""


def collect_env(runs: Path) -> Iterator[tuple[str, str]]:
    """Yield name and description of versions, devices, threads, memory, speed and the runs folder."""
    yield "selfpretrain", __version__
    yield "python", f"{platform.python_version()} on {platform.platform()}"
    yield "torch", torch.__version__
    for package in ("numpy", "scipy", "scikit-learn", "numba", "matplotlib"):
        yield package, importlib.metadata.version(package)
    yield "devices", ", ".join(["cpu", *_accelerators()])
    yield "cores", f"{usable_cores()} usable of {os.cpu_count()}"
    yield (
        "threads",
        f"{torch.get_num_threads()} per process (OMP_NUM_THREADS={os.environ.get('OMP_NUM_THREADS', '')})",
    )
    fate = "kept for reuse (SPT_MALLOC=0 turns this off)" if keep_memory() else "given back to the system"
    yield "memory", f"large blocks that are freed are {fate}"
    yield "speed", f"{_measure_speed():.0f} GFLOP/s in one process (matrix product of {SIZE} x {SIZE})"
    yield "runs", _describe_folder(runs)


def _accelerators() -> list[str]:
    return [f"cuda:{i} ({torch.cuda.get_device_name(i)})" for i in range(torch.cuda.device_count())]


def _measure_speed() -> float:
    a = torch.randn(SIZE, SIZE)
    a @ a
    start = time.perf_counter()
    for _ in range(REPEATS):
        a @ a
    return 2e-9 * SIZE**3 * REPEATS / (time.perf_counter() - start)


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
