"""Entry point of ``spt``: set threads and memory before torch is imported, then run the command line."""

import os
import sys

from ..system.startup import keep_memory, limit_threads


def main() -> None:
    """Run ``spt``; modules in the current folder can be named, e.g. ``--mixers mylab:Mean``."""
    limit_threads()
    keep_memory()
    sys.path.append(os.getcwd())
    from .app import run

    sys.exit(run(sys.argv[1:]))
