"""Reliability curve of a classifier: accuracy by confidence."""

from dataclasses import dataclass

import numpy as np

from ..report.figures import style
from .scores import calibration

LARGEST = 160.0
"""Area of the dot of a bin with all examples, in points squared."""


@dataclass(frozen=True)
class Reliability:
    """Accuracy in bins of confidence, the probability of the predicted class."""

    bins: tuple[tuple[float, float, float], ...]  # mean confidence, accuracy, share of the examples

    @classmethod
    def of(cls, right: np.ndarray, probabilities: np.ndarray) -> "Reliability":
        """Return the curve of true classes (n,) and probabilities (n, K)."""
        return cls(tuple(calibration(right, probabilities)))

    @property
    def error(self) -> float:
        """Expected calibration error: mean |confidence - accuracy|, weighted by bin size."""
        return sum(share * abs(sure - hit) for sure, hit, share in self.bins)

    def picture(self) -> str:
        """Return a plot of accuracy over confidence as SVG; below the diagonal the model is overconfident."""
        with style.inked("reliability"):
            figure, axes = style.canvas(3.4)
            axes.plot([0, 1], [0, 1], color=style.FAINT, linewidth=1)
            sure, hit, share = np.array(self.bins).T
            axes.plot(sure, hit, color=style.COLOURS[0], linewidth=1)
            axes.scatter(sure, hit, s=8 + LARGEST * share, color=style.COLOURS[0], alpha=0.7, linewidths=0)
            axes.set_xlim(0, 1.02)
            axes.set_ylim(0, 1.02)
            axes.set_xlabel("confidence")
            axes.set_ylabel("accuracy")
            axes.set_title(f"expected calibration error {self.error:.3f}")
            return style.on_paper(style.drawn(figure))
