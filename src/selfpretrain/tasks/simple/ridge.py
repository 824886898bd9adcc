"""Ridge regression to classes, with probabilities from the scores of examples that were left out.

The strength of regularisation and the scale of scores, whose softmax are the probabilities, are those with
the least log loss where every example is scored by the model of all others. One eigendecomposition gives
these scores for all strengths.

Source: Golub, Heath and Wahba (1979), Generalized cross-validation as a method for choosing a good ridge
parameter, for scores of examples left out.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float64
from scipy.optimize import minimize_scalar
from scipy.special import log_softmax

from ...data.spec import Reals, Target
from ...system.time_limit import check_time
from .models import NEVER, LinearModel, fit_by_class, fit_linear

STRENGTHS = tuple(10.0 ** np.arange(0, 5.5, 0.5))  # of regularisation, to choose from
LOG_SCALES = (-3.0, 6.0)  # range of the logarithm of the scale


@dataclass(frozen=True)
class RidgeModel(LinearModel):
    """Logits of every class: scores of ridge regression to 1 or -1, multiplied by a scale."""

    kind = "ridge"


def fit_ridge(x: np.ndarray, y: np.ndarray, weights: np.ndarray, target: Target, setting: Any) -> LinearModel:
    """Fit ridge regression to classes, or to numbers as ``fit_linear``.

    Args:
        weights: those of ``models``, above 0.
        setting: strengths of regularisation, of which the best is chosen; of numbers, inverse strength.
    """
    if isinstance(target, Reals):
        return fit_linear(x, y, weights, target, setting)
    return fit_by_class(_ridge, x, y, weights, target, setting)


def _ridge(
    x: np.ndarray, y: np.ndarray, weights: np.ndarray, classes: int, strengths: tuple[float, ...]
) -> RidgeModel:
    """Fit ridge regression to classes, also if some are missing."""
    coef = np.zeros((x.shape[1], classes))
    bias = np.full(classes, NEVER)
    present, own, counts = np.unique(y, return_inverse=True, return_counts=True)
    if len(present) == 1:
        bias[present] = 0.0
        return RidgeModel(coef, bias)
    check_time()
    share = weights / weights.sum()
    root = np.sqrt(weights)[:, None]
    signs = 2 * np.eye(len(present))[own] - 1
    centre = share @ x
    mean = share @ signs
    rows = x - centre
    rows *= root
    values, vectors = _spectrum(rows)
    targets = root * (signs - mean)
    inside = vectors.T @ targets
    alone = counts[own] == 1  # without these examples their class is unknown
    found = []
    for strength in strengths:
        check_time()
        shrunk = vectors * (values / (values + strength))
        errors = targets - shrunk @ inside
        kept = 1 - (shrunk * vectors).sum(1) - share  # errors as a share of those of examples left out
        scores = signs - errors / root / np.where(alone, 1.0, kept)[:, None]
        found.append((*_scale(scores, own, share), errors / strength))
    _, scale, dual = min(found, key=lambda each: each[0])
    slopes = rows.T @ dual
    coef[:, present] = scale * slopes
    bias[present] = scale * (mean - centre @ slopes)
    return RidgeModel(coef, bias)


def _spectrum(
    rows: Float64[np.ndarray, "n D"],
) -> tuple[Float64[np.ndarray, "r"], Float64[np.ndarray, "n r"]]:
    """Return the squares of the singular values of rows that are not 0, and their left vectors."""
    n, features = rows.shape
    if n <= features:
        values, vectors = np.linalg.eigh(rows @ rows.T)
        return values.clip(0), vectors
    values, right = np.linalg.eigh(rows.T @ rows)
    real = values > values[-1] * features * np.finfo(float).eps
    return values[real], rows @ (right[:, real] / np.sqrt(values[real]))


def _scale(
    scores: Float64[np.ndarray, "n K"], own: np.ndarray, share: Float64[np.ndarray, "n"]
) -> tuple[float, float]:
    """Return the least log loss of scaled scores, and the scale.

    As if there were one more example, of all classes alike, so that no score is infinitely sure.
    """
    n, classes = scores.shape
    expected = (n * np.eye(classes)[own] + 1 / classes) / (n + 1)

    def loss(log_scale: float) -> float:
        return -float(share @ (expected * log_softmax(np.exp(log_scale) * scores, axis=1)).sum(1))

    best = minimize_scalar(loss, bounds=LOG_SCALES, method="bounded", options={"xatol": 0.01})
    return float(best.fun), float(np.exp(best.x))
