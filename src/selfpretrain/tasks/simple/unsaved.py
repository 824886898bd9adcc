"""Models of scikit-learn as they are: baselines are scored with them, and none of them is saved."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from ...data.spec import Target
from .features import Matrix
from .linear import ITERATIONS


@dataclass(frozen=True)
class UnsavedModel:
    """A fitted classifier; the class that it predicts has the score 1, and all others have 0."""

    classifier: Any
    classes: int

    def scores(self, x: Matrix) -> np.ndarray:
        """Return the scores (rows, K)."""
        return np.eye(self.classes)[self.classifier.predict(x)]


def fit_with(make: Callable[[Any], Any]) -> Callable[..., UnsavedModel]:
    """Return a function that fits what ``make`` returns for a setting; weights of rows do not count."""

    def fit(x: Matrix, y: np.ndarray, weights: np.ndarray, target: Target, setting: Any) -> UnsavedModel:
        return UnsavedModel(make(setting).fit(x, y), target.outputs)

    return fit


def logistic(strength: float) -> LogisticRegression:
    """Return logistic regression, given its inverse strength of regularisation."""
    return LogisticRegression(C=strength, max_iter=ITERATIONS)


def logistic_on_first(setting: tuple[int, float]) -> Any:
    """Return logistic regression on the first features, given their number and an inverse strength."""
    number, strength = setting
    return make_pipeline(FunctionTransformer(first_columns, kw_args={"number": number}), logistic(strength))


def first_columns(x: Matrix, number: int) -> Matrix:
    """Return the first columns of a matrix."""
    return x[:, :number]
