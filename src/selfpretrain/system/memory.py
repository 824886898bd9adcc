"""Memory of this process and of the machine."""

import resource
import sys
from pathlib import Path

SHARE = 0.9
"""What an allocation may take of the memory that is free."""


def peak_memory() -> int:
    """The largest resident set of this process so far, in bytes."""
    if sys.platform == "linux":  # getrusage would count what the parent had before it started this process
        return int(_field(Path("/proc/self/status"), "VmHWM")) * 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def bound_memory() -> None:
    """Let an allocation that the machine cannot serve fail, before the system ends some process for it."""
    if sys.platform == "linux":
        pages = int(Path("/proc/self/statm").read_text().split()[5])  # data and stack
        limit = pages * resource.getpagesize() + int(SHARE * free_memory())
        hard = resource.getrlimit(resource.RLIMIT_DATA)[1]
        resource.setrlimit(
            resource.RLIMIT_DATA, (limit if hard == resource.RLIM_INFINITY else min(limit, hard), hard)
        )


def free_memory() -> int:
    """What is left for this process on a Linux machine, in bytes: of the machine, or of its control group."""
    free = int(_field(Path("/proc/meminfo"), "MemAvailable")) * 1024
    group = Path("/sys/fs/cgroup")
    try:
        limit, used = ((group / f"memory.{name}").read_text().strip() for name in ("max", "current"))
    except OSError:
        return free
    return free if limit == "max" else min(free, int(limit) - int(used))


def _field(path: Path, name: str) -> str:
    lines = (line.split() for line in path.read_text().splitlines())
    return next(words[1] for words in lines if words[0] == f"{name}:")
