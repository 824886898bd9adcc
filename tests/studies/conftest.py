"""Plans of studies count the parameters of a network once."""

from collections.abc import Iterator

import pytest

import paper_data
import toys


@pytest.fixture(autouse=True, scope="module")
def shared_networks() -> Iterator[None]:
    """Build the networks of plans once for all studies."""
    with paper_data.shared_networks():
        yield


@pytest.fixture(autouse=True)
def one_thread() -> None:
    """Start every test from a known random state."""
    toys.settle()
