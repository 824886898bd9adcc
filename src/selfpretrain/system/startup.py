"""What must be settled before torch is imported: threads and memory.

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
