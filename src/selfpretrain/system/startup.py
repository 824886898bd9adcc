"""Thread and memory settings that must be made before torch is imported.

By default torch uses one thread per core, which makes small models several times slower as soon as anything
else runs on the machine: the threads spin while they wait for each other. Processes share the work instead.

By default glibc requests every large block from the system and returns it when it is freed, so that each
large tensor of each step pays for its page faults again. With these settings freed memory is kept and reused.
"""

import ctypes
import os
import sys

MMAP_THRESHOLD = (-3, 1 << 30)
"""Option of mallopt, as numbered in malloc.h, and bytes from which a block is mapped separately."""
TRIM_THRESHOLD = (-1, 2**31 - 1)
"""Option of mallopt, and how many bytes of other freed memory are kept."""
THREAD_VARIABLES = {"OMP_NUM_THREADS": "1", "OMP_WAIT_POLICY": "PASSIVE", "GOMP_SPINCOUNT": "0"}
"""Variables of OpenMP: one thread per process, which does not spin while it waits."""


def limit_threads() -> None:
    """Use one OpenMP thread per process; variables that are already set are kept."""
    for variable, value in THREAD_VARIABLES.items():
        os.environ.setdefault(variable, value)


def keep_memory() -> bool:
    """Let glibc keep and reuse large blocks of memory, unless SPT_MALLOC=0; return whether it does.

    This has no effect on other systems than Linux with glibc, or on memory allocated before.
    """
    if sys.platform != "linux" or os.environ.get("SPT_MALLOC") == "0":
        return False
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except AttributeError:  # a C library without mallopt
        return False
    return all(mallopt(option, value) for option, value in (MMAP_THRESHOLD, TRIM_THRESHOLD))
