"""Other ways to a long convolution give what the package's FFT gives."""

import importlib.util
import os
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scripts import FOLDERS, script

convolutions = script("convolutions")
SIZES = [(64, 16), (200, 16), (300, 64)]
"""Positions and states: one chunk, chunks and a rest; fewer modes than rows of a product, and more."""


@pytest.mark.parametrize("form", ["direct", "products", "chunks"])
@given(length=st.integers(1, 300), states=st.sampled_from((4, 16, 64)), batch=st.integers(1, 3))
def test_every_form_is_the_same(form, length, states, batch):
    given = convolutions.drawn(length, states, width=3, batch=batch, device="cpu")
    assert convolutions.error(form, given) < 5e-6


@pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="needs Triton")
@pytest.mark.parametrize(("length", "states"), SIZES)
def test_triton(length, states):
    code = f"import convolutions as c; print(c.error('triton', c.drawn({length}, {states}, 3, 3, 'cpu')))"
    env = os.environ | {"TRITON_INTERPRET": "1", "PYTHONPATH": os.pathsep.join([FOLDERS[0], *sys.path])}
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert float(done.stdout) < 5e-6


def test_a_size_is_measured():
    found = convolutions.compared(128, 16, width=4, batch=2, device="cpu", only=("fft", "chunks"))
    assert found["fft"]["milliseconds"] > 0 and found["chunks"]["error"] < 5e-6
