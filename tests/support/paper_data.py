"""Plans of studies in moments: costs go by parameters alone, and the papers' data are stubbed."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from selfpretrain.training.cost import Planner

UNMEASURED: tuple[str, ...] = ()
"""Studies whose settings are written down and whose results do not ship yet."""
UNFINISHED = ("long-images",)
"""Studies of whose results some ship."""
ROUGH = Planner(0)
"""The planner of tests in which it does not matter how long matched arms are."""


@contextmanager
def stubbed(data: Path) -> Iterator[Planner]:
    """Form and sizes of the papers' tasks, in an empty folder."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SELFPRETRAIN_DATA", str(data))
        yield Planner(0, stubs=True)
