"""Tests of studies start from a known random state."""

import pytest

import toys


@pytest.fixture(autouse=True)
def one_thread() -> None:
    """Start every test from a known random state."""
    toys.settle()
