"""The figure of kernels."""

import numpy as np
import pytest

from selfpretrain.report.figures.kernels import kernel_plot, thin


def test_one_panel_per_layer_and_one_curve_per_state():
    lags = np.arange(50)
    curves = {"scratch": np.exp(-lags / 5), "pretrained": np.exp(-lags / 20)}
    drawn = kernel_plot({"layer 0": curves, "layer 1": curves})
    assert drawn.startswith("<?xml")
    for word in ("layer 0", "layer 1", "scratch", "pretrained", "lag in positions"):
        assert f">{word}<" in drawn
    assert drawn == kernel_plot({"layer 0": curves, "layer 1": curves})


@pytest.mark.filterwarnings("error")
def test_a_kernel_of_nothing_is_drawn_too():
    assert "<svg" in kernel_plot({"layer 0": {"scratch": np.zeros(3)}})


def test_thinning_keeps_every_peak():
    envelope = np.zeros(10_001)
    envelope[[3, 5_000, 10_000]] = 1, 2, 3
    lags, values = thin(envelope, most=100)
    assert len(lags) == len(values) <= 100
    assert sorted(values[values > 0]) == [1, 2, 3]
    assert lags[values.argmax()] <= 10_000 < lags[values.argmax()] + 101
