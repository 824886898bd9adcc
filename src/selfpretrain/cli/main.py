"""Entry point of the command line: threads and memory are set before torch is imported."""

from ..system.startup import keep_memory, limit_threads

limit_threads()
keep_memory()

from .app import run as main  # noqa: E402

__all__ = ["main"]
