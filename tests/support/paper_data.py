"""The papers' data stubbed: every cell of every study can be planned at their scale without a file."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from selfpretrain.training.cost import Planner


@contextmanager
def stubbed(data: Path) -> Iterator[Planner]:
    """Form and sizes of the papers' tasks, in an empty folder; costs go by parameters alone."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SPT_DATA", str(data))
        yield Planner("rough", stubs=True)
