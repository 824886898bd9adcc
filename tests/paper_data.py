"""The papers' data stubbed: every cell of every study can be planned at their scale without a file."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from selfpretrain.tasks.common.dataset_stub import stubbed_data
from selfpretrain.training import cost


@contextmanager
def stubbed(data: Path) -> Iterator[None]:
    """Form and sizes of the papers' tasks, in an empty folder; costs go by parameters alone."""
    with pytest.MonkeyPatch.context() as patch, stubbed_data(), cost.drafting("rough"):
        patch.setenv("SPT_DATA", str(data))
        yield
