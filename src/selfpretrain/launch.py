"""The entry of ``spt``: what must be settled before torch is imported, then the command line.

Torch's default of one thread per core makes small models several times slower as soon as anything else
runs on the machine: the threads wait for each other, spinning. Work is shared out in processes instead.

By default glibc takes every large block from the system and gives it back when it is freed, so that each
large tensor of each step costs its page faults anew. Kept in the process, the same memory serves again.
"""

import ctypes
import os
import sys

MMAP_THRESHOLD, TRIM_THRESHOLD = (-3, 1 << 30), (-1, 2**31 - 1)
"""Options of mallopt, numbered as in malloc.h, and values in bytes: the size from which a block is given back
as soon as it is freed; how much freed memory is kept besides."""


def main() -> None:
    """Run ``spt``; modules of the folder it is called from can be named, e.g. ``--mixers mylab:Mean``."""
    settle_threads()
    keep_memory()
    sys.path.append(os.getcwd())
    from .cli import run

    sys.exit(run(sys.argv[1:]))


def settle_threads() -> None:
    """One waiting-without-spinning OpenMP thread per process, unless the user says otherwise."""
    for variable, value in {
        "OMP_NUM_THREADS": "1",
        "OMP_WAIT_POLICY": "PASSIVE",
        "GOMP_SPINCOUNT": "0",
    }.items():
        os.environ.setdefault(variable, value)


def keep_memory() -> bool:
    """Let glibc keep and reuse large blocks of memory, unless SPT_MALLOC=0; whether it does.

    Elsewhere than on Linux with glibc nothing changes. Only later allocations are concerned.
    """
    if sys.platform != "linux" or os.environ.get("SPT_MALLOC") == "0":
        return False
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except AttributeError:  # another C library
        return False
    return all(mallopt(option, value) for option, value in (MMAP_THRESHOLD, TRIM_THRESHOLD))


def usable_cores() -> int:
    """Cores this process may use: its affinity, and the quota of its control group where there is one."""
    cores = len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1
    try:
        with open("/sys/fs/cgroup/cpu.max") as file:
            quota, period = file.read().split()
        return cores if quota == "max" else max(1, min(cores, int(quota) // int(period)))
    except (OSError, ValueError):
        return cores


if __name__ == "__main__":
    main()
