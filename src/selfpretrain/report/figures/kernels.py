"""The kernels of a network, e.g. before and after pretraining: how strong is the past at every lag?"""

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from .style import COLOURS, STYLES, WIDTH, drawn, inked

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MOST = 600
"""Points of a curve. Each stands for the largest of a few lags, so no peak is lost."""
HEIGHT = 1.7
"""Inches of a panel."""


def kernel_plot(layers: Mapping[str, Mapping[str, np.ndarray]]) -> str:
    """The largest |K| of any channel at every lag, as SVG: a panel per layer, a curve per state of training.

    Source: Amos et al. (2024), figure 4.

    Args:
        layers: name of a layer -> name of a curve -> its envelope, (L,). Equal names have equal colours.
    """
    from matplotlib.figure import Figure

    names = list(dict.fromkeys(name for curves in layers.values() for name in curves))
    with inked("kernels"):
        figure = Figure(figsize=(WIDTH, 0.5 + HEIGHT * len(layers)), layout="constrained")
        figure.patch.set_alpha(0)
        panels = figure.subplots(len(layers), sharex=True, squeeze=False)[:, 0]
        for axes, (layer, curves) in zip(panels, layers.items(), strict=True):
            _panel(axes, curves, names)
            axes.set_title(layer, loc="left", fontsize=10, fontweight="bold")
        panels[0].legend(loc="upper right")
        panels[-1].set_xlabel("lag in positions")
        figure.supylabel("largest |K| of any channel", fontsize=9)
        return drawn(figure)


def thin(envelope: np.ndarray, most: int = MOST) -> tuple[np.ndarray, np.ndarray]:
    """Lags and values of a curve with at most so many points: of every few lags the largest value."""
    few = -(-len(envelope) // most)
    starts = np.arange(0, len(envelope), few)
    return starts, np.maximum.reduceat(envelope, starts)


def _panel(axes: "Axes", curves: Mapping[str, np.ndarray], names: list[str]) -> None:
    axes.patch.set_alpha(0)
    if any(np.max(envelope) > 0 for envelope in curves.values()):
        axes.set_yscale("log")
    axes.grid(axis="y")
    for name, envelope in curves.items():
        at = names.index(name)
        colour, style = COLOURS[at % len(COLOURS)], STYLES[at % len(STYLES)]
        axes.plot(*thin(np.asarray(envelope)), color=colour, linestyle=style, linewidth=1.2, label=name)
