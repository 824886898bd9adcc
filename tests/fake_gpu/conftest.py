"""A process of its own: the guard is loaded before torch, and every test runs on the emulated GPU."""

import pytest
from fake_gpu import guard

WHY_NOT = guard.missing()
if not WHY_NOT:
    guard.load()


def pytest_configure() -> None:
    if WHY_NOT:
        pytest.exit(f"tests on an emulated GPU are skipped: {WHY_NOT}", returncode=0)


@pytest.fixture(autouse=True)
def emulated_gpu():
    from fake_gpu.emulation import Emulation

    import toys

    toys.settle()
    with Emulation():
        yield
