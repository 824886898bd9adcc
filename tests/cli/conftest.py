"""The command line, called within this process; and one comparison that has been run."""

import io
from collections.abc import Callable, Iterator
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from selfpretrain.cli import app
from selfpretrain.estimators import base, scores


@pytest.fixture
def cli(capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str, str]]:
    """Call the command: its exit code, what it printed, and what it said besides, on one line."""

    def call(*arguments: object) -> tuple[int, str, str]:
        code = app.run(list(map(str, arguments)))
        out, err = capsys.readouterr()
        assert "Traceback" not in err
        return code, out, " ".join(err.split())

    return call


@pytest.fixture(autouse=True, scope="module")
def few_draws() -> Iterator[None]:
    """Draw 20 resamples for the intervals of a model's scores, which tests of estimators look at."""

    def drawn(measures: Any, arrays: Any, groups: Any = None, draws: int = 20) -> Any:
        return scores.bootstrap(measures, arrays, groups, draws=20)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(base, "bootstrap", drawn)
        yield


@dataclass(frozen=True)
class Compared:
    """A finished ``selfpretrain compare``: its command, its folder of runs, and what it said."""

    command: tuple[str, ...]
    runs: Path
    out: str
    err: str


@pytest.fixture(scope="session")
def compared(tmp_path_factory: pytest.TempPathFactory) -> Compared:
    """Attention on digits, with one seed; to be read only."""
    folder = tmp_path_factory.mktemp("compared")
    flags = ("--mixers", "attention", "--scale", "smoke", "--seeds", "1", "--jobs", "1")
    command = ("compare", "--task", "digits", *flags)
    out, err = io.StringIO(), io.StringIO()
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(out), redirect_stderr(err):
        patch.chdir(folder)
        patch.setenv("COLUMNS", "200")
        assert app.run(list(command)) == 0, err.getvalue()
    return Compared(command, folder / "runs", out.getvalue(), err.getvalue())
