"""Regressor of sequences: one real number per sequence."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import RegressorMixin, TransformerMixin

from ..data.dataset import SequenceDataset
from ..data.labels import numbers_of
from ..data.spec import Reals, Target
from ..errors import DataError
from ..tasks.base import Task
from .base import SequenceEstimator, refuse_missing
from .inputs import Sequences
from .scores import Score, bootstrap, real_measures


@dataclass(kw_only=True, eq=False, repr=False)
class SequenceRegressor(TransformerMixin, RegressorMixin, SequenceEstimator):  # type: ignore[misc]
    """Self-pretraining on all sequences, then a real number for each; see ``SequenceEstimator``."""

    def predict(self, X: Any) -> np.ndarray:
        """Return the predicted numbers (n,), in the units of y."""
        data = self._usable(X)
        return self.predictor_.outputs(data).mean(0)[:, 0]

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """Return R2; if X is a task or its name, on the test split."""
        if isinstance(X, str | Task):
            y = self._usable(X).targets.numpy()
        return float(super().score(X, y, sample_weight))

    def evaluate(self, X: Any, y: Any = None, *, groups: Any = None, draws: int = 200) -> dict[str, Score]:
        """Return R2, mean absolute error and root mean squared error, the latter two in the units of y."""
        data = self._usable(X)
        y = data.targets.numpy() if isinstance(X, str | Task) else y
        given = self.predict(data)
        answers = np.asarray(y, dtype=np.float64), given
        return bootstrap(real_measures, answers, self._groups_of(X, groups), draws)

    def table(self, data: SequenceDataset) -> dict[str, list[Any]]:
        """Return the column of a prediction file: the number."""
        return {"prediction": self.predict(data).tolist()}

    def _targets(self, y: Any, found: Sequences) -> tuple[np.ndarray, Target]:
        refuse_missing(y, type(self).__name__)
        targets = numbers_of(y)
        if not np.isfinite(targets).any():
            raise DataError("y holds no number; there must be some to learn from")
        return targets, Reals()
