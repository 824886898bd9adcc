"""Scripts of the repository as modules, for tests of what they write."""

import importlib
import sys
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = [str(ROOT / name) for name in ("benchmarks", "experiments", "tools")]


def script(name: str) -> ModuleType:
    """Import a script; neither its folder nor its plain name stays importable."""
    modules, path = set(sys.modules), list(sys.path)
    sys.path[:0] = FOLDERS
    try:
        return importlib.import_module(name)
    finally:
        sys.path[:] = path
        for new in set(sys.modules) - modules:
            if str(vars(sys.modules[new]).get("__file__")).startswith(tuple(FOLDERS)):
                del sys.modules[new]
