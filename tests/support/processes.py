"""Other processes of Python, which find what this one finds."""

import os
import subprocess
import sys
from pathlib import Path

SUPPORT = Path(__file__).parent


def environment(*folders: Path) -> dict[str, str]:
    """Variables of a process that imports what this one does, from here and from some folders."""
    paths = [*map(str, folders), str(SUPPORT), *(path for path in sys.path if path)]
    return os.environ | {"PYTHONPATH": os.pathsep.join(paths), "COLUMNS": "200", "OMP_NUM_THREADS": "1"}


def python(code: str, cwd: Path | None = None) -> str:
    """Run a program to its successful end and return what it printed."""
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=cwd, env=environment(), capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout
