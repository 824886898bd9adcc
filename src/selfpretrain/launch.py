"""The entry of ``spt``: what must be settled before torch is imported, then the command line.

Torch's default of one thread per core makes small models several times slower as soon as anything else
runs on the machine: the threads wait for each other, spinning. Work is shared out in processes instead.
"""

import os
import sys


def main() -> None:
    """Run ``spt``; modules of the folder it is called from can be named, e.g. ``--mixers mylab:Mean``."""
    settle_threads()
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
