"""The command line, called within this process."""

from collections.abc import Callable

import pytest

from selfpretrain.cli import app


@pytest.fixture
def spt(capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str, str]]:
    """Call the command: its exit code, what it printed, and what it said besides, on one line."""

    def call(*arguments: object) -> tuple[int, str, str]:
        code = app.run(list(map(str, arguments)))
        out, err = capsys.readouterr()
        assert "Traceback" not in err
        return code, out, " ".join(err.split())

    return call
