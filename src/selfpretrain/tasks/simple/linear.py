"""Linear models as simple methods: logistic and ridge regression, fitted by scikit-learn."""

from dataclasses import dataclass

import numpy as np
import torch
from sklearn.linear_model import LogisticRegression, Ridge

from ...data.spec import ClassSets, Reals, Target
from .features import Matrix, State

NEVER = -30.0
"""Logit of a class that no training example has."""
ITERATIONS = 200
"""Most iterations of logistic regression."""


@dataclass(frozen=True)
class LinearModel:
    """Scores of every output: x @ coef + bias."""

    coef: np.ndarray  # (features, K)
    bias: np.ndarray  # (K,)

    kind = "linear"

    @property
    def parameters(self) -> int:
        """Number of weights."""
        return self.coef.size + self.bias.size

    def scores(self, x: Matrix) -> np.ndarray:
        """Return logits, or numbers (rows, K)."""
        return np.asarray(x @ self.coef) + self.bias

    def state(self) -> State:
        """Return everything that ``load`` needs."""
        return {"coef": torch.from_numpy(self.coef), "bias": torch.from_numpy(self.bias)}

    @classmethod
    def load(cls, state: State, outputs: int) -> "LinearModel":
        """Return the model of ``state()``.

        Raises:
            ValueError: if the weights are not those of a model with as many outputs.
        """
        coef = state["coef"].numpy()
        bias = state["bias"].numpy()
        if coef.shape[1:] != (outputs,) or bias.shape != (outputs,):
            raise ValueError(f"weights {coef.shape} and {bias.shape} for {outputs} outputs")
        return cls(coef, bias)


def fit_linear(x: Matrix, y: np.ndarray, weights: np.ndarray, target: Target, strength: float) -> LinearModel:
    """Fit logistic regression to classes, or ridge regression to numbers.

    Args:
        y: (n,) classes or numbers, or (n, K) indicators of classes.
        weights: (n,), or (n, K) for indicators.
        strength: inverse strength of regularisation.
    """
    if isinstance(target, Reals):
        ridge = Ridge(alpha=1 / strength).fit(x, (y - target.centre) / target.spread, weights)
        coef = ridge.coef_.reshape(-1, 1) * target.spread
        return LinearModel(coef, np.array([ridge.intercept_ * target.spread + target.centre]))
    if not isinstance(target, ClassSets):
        return _logistic(x, y, weights, target.outputs, strength)
    columns = [_logistic(x, y[:, k], weights[:, k], 2, strength) for k in range(target.outputs)]
    coef = np.stack([each.coef[:, 1] - each.coef[:, 0] for each in columns], axis=1)
    return LinearModel(coef, np.array([each.bias[1] - each.bias[0] for each in columns]))


def _logistic(x: Matrix, y: np.ndarray, weights: np.ndarray, classes: int, strength: float) -> LinearModel:
    """Fit logistic regression, also if classes are missing."""
    coef = np.zeros((x.shape[1], classes))
    bias = np.full(classes, NEVER)
    present = np.unique(y)
    if len(present) == 1:
        bias[present[0]] = 0.0
        return LinearModel(coef, bias)
    model = LogisticRegression(C=strength, max_iter=ITERATIONS).fit(x, y, weights)
    if len(present) == 2:  # one column: the logit of the second class against the first
        bias[present] = 0.0, model.intercept_[0]
        coef[:, present[1]] = model.coef_[0]
        return LinearModel(coef, bias)
    bias[present] = model.intercept_
    coef[:, present] = model.coef_.T
    return LinearModel(coef, bias)
