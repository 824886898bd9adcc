"""A regressor of sequences."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import RegressorMixin, TransformerMixin

from ..data.schema import Form, Reals, Target
from ..errors import DataError, SpecError
from ..tasks.base import Task
from .base import SequenceEstimator, refuse_missing
from .labels import numbers_of
from .scores import Score, bootstrap, real_measures


@dataclass(kw_only=True, eq=False, repr=False)
class SequenceRegressor(TransformerMixin, RegressorMixin, SequenceEstimator):  # type: ignore[misc]
    """Self-pretraining on all sequences, then a real number for each; see ``SequenceEstimator``."""

    def predict(self, X: Any) -> np.ndarray:
        """(n,) the numbers, in the units of y."""
        data = self._usable(X)
        return self.predictor_.outputs(data).mean(0)[:, 0]

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """R2; of a task, by its name, on its test split."""
        if isinstance(X, str | Task):
            y = self._usable(X).targets.numpy()
        return float(super().score(X, y, sample_weight))

    def evaluate(self, X: Any, y: Any = None, *, groups: Any = None, draws: int = 200) -> dict[str, Score]:
        """R2, mean absolute error and root mean squared error, the latter two in the units of y."""
        data = self._usable(X)
        if isinstance(X, str | Task):
            y, groups = data.targets.numpy(), None if data.groups is None else data.groups.numpy()
        given = self.predictor_.outputs(data).mean(0)[:, 0]
        return bootstrap(real_measures, (np.asarray(y, dtype=np.float64), given), groups, draws)

    def _targets(self, y: Any, n: int) -> tuple[np.ndarray, Target]:
        refuse_missing(y, type(self).__name__)
        targets = numbers_of(y)
        if not np.isfinite(targets).any():
            raise DataError("y holds no number; there must be some to learn from")
        return targets, Reals()

    def _adopt(self, form: Form) -> None:
        if not isinstance(form.target, Reals):
            raise SpecError("this task's targets are classes; use SequenceClassifier")
