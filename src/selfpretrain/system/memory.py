"""Memory use and limits of this process and machine."""

import resource
import sys
from pathlib import Path

SHARE = 0.9
"""Maximum share of the free memory that may be allocated."""


def peak_memory() -> int:
    """Return the largest resident set size of this process so far, in bytes."""
    if sys.platform == "linux":  # getrusage may include the parent's memory before the fork
        return int(_field(Path("/proc/self/status"), "VmHWM")) * 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def limit_memory() -> None:
    """Limit the memory of this process, so that large allocations fail before the system kills a process."""
    if sys.platform == "linux":
        pages = int(Path("/proc/self/statm").read_text().split()[5])  # data and stack
        limit = pages * resource.getpagesize() + int(SHARE * free_memory())
        hard = resource.getrlimit(resource.RLIMIT_DATA)[1]
        soft = limit if hard == resource.RLIM_INFINITY else min(limit, hard)
        resource.setrlimit(resource.RLIMIT_DATA, (soft, hard))


def free_memory() -> int:
    """Return the memory available to this process on Linux in bytes, by the machine and its cgroup."""
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
