"""The command line, called within this process; and one comparison that has been run in another."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from processes import environment
from selfpretrain.cli import app
from selfpretrain.estimators import base, scores


@pytest.fixture
def spt(capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str, str]]:
    """Call the command: its exit code, what it printed, and what it said besides, on one line."""

    def call(*arguments: object) -> tuple[int, str, str]:
        code = app.run(list(map(str, arguments)))
        out, err = capsys.readouterr()
        assert "Traceback" not in err
        return code, out, " ".join(err.split())

    return call


@pytest.fixture(autouse=True, scope="session")
def few_draws() -> Iterator[None]:
    """Draw 20 resamples for the intervals of a model's scores, which tests of estimators look at."""
    bootstrap = scores.bootstrap

    def drawn(measures: Any, arrays: Any, groups: Any = None, draws: int = 20) -> Any:
        ours = os.environ["PYTEST_CURRENT_TEST"].startswith("tests/cli/")
        return bootstrap(measures, arrays, groups, 20 if ours else draws)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(base, "bootstrap", drawn)
        yield


@dataclass(frozen=True)
class Compared:
    """A finished ``spt compare``: its command, its folder of runs, and what it said."""

    command: tuple[str, ...]
    runs: Path
    out: str
    err: str


@pytest.fixture(scope="session")
def compared(tmp_path_factory: pytest.TempPathFactory) -> Compared:
    """Attention on digits, with one seed, by the command in a process of its own; to be read only."""
    folder = tmp_path_factory.mktemp("compared")
    flags = ("--mixers", "attention", "--scale", "smoke", "--seeds", "1", "--jobs", "1")
    command = ("compare", "--task", "digits", *flags)
    done = subprocess.run(
        [sys.executable, "-m", "selfpretrain", *command],
        cwd=folder, env=environment(), capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return Compared(command, folder / "runs", done.stdout, done.stderr)
