"""Scripts of the repository as modules, for tests of what they write."""

import importlib
import sys
from pathlib import Path
from types import ModuleType

FOLDERS = [str(Path(__file__).resolve().parents[2] / name) for name in ("benchmarks", "tools")]


def script(name: str) -> ModuleType:
    """A script of ``benchmarks`` or ``tools``; neither its folder nor its plain name stays importable."""
    before = set(sys.modules)
    sys.path[:0] = FOLDERS
    try:
        return importlib.import_module(name)
    finally:
        del sys.path[: len(FOLDERS)]
        for new in set(sys.modules) - before:
            if str(vars(sys.modules[new]).get("__file__")).startswith(tuple(FOLDERS)):
                del sys.modules[new]
