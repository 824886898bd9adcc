"""Estimators without classes: a real number per sequence, or an embedding from pretraining alone."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import RegressorMixin, TransformerMixin

from ..data.dataset import SequenceDataset
from ..data.labels import numbers_of
from ..data.spec import Reals, SequenceSpec, Target
from ..errors import DataError, SpecError
from ..studies.recipes.arms import ArmRecipes
from ..tasks.base import Task
from ..training.recipe import Stage
from .base import SequenceEstimator, refuse_missing, refuse_unlabelled
from .inputs import Sequences
from .scores import real_measures


@dataclass(kw_only=True, eq=False, repr=False)
class SequenceRegressor(TransformerMixin, RegressorMixin, SequenceEstimator):  # type: ignore[misc]
    """Self-pretraining on all sequences, then a real number for each; see ``SequenceEstimator``."""

    _metrics = staticmethod(real_measures)

    def predict(self, X: Any) -> np.ndarray:
        """Return the predicted numbers (n,), in the units of y."""
        data = self._to_dataset(X)
        return self.answering.probabilities(data)[:, 0]

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """Return R2; if X is a task or its name, on the test split."""
        if isinstance(X, str | Task):
            y = self._to_dataset(X).targets.numpy()
        else:
            refuse_unlabelled(y)
        return float(super().score(X, y, sample_weight))

    def table(self, data: SequenceDataset) -> dict[str, list[Any]]:
        """Return the column of a prediction file: the number."""
        return {"prediction": self.predict(data).tolist()}

    def _true_and_predicted(self, X: Any, y: Any) -> tuple[np.ndarray, np.ndarray]:
        """Return true and predicted numbers (n,); of a task, on its test split."""
        data = self._to_dataset(X)
        y_true = data.targets.numpy() if isinstance(X, str | Task) else y
        return np.asarray(y_true, dtype=np.float64), self.predict(data)

    def _targets(self, y: Any, found: Sequences) -> tuple[np.ndarray, Target]:
        refuse_missing(y, type(self).__name__)
        targets = numbers_of(y)
        if not np.isfinite(targets).any():
            raise DataError("y holds no number; there must be some to learn from")
        return targets, Reals()


@dataclass(kw_only=True, eq=False, repr=False)
class SequencePretrainer(TransformerMixin, SequenceEstimator):  # type: ignore[misc]
    """Self-pretraining on sequences; ``transform`` returns their embeddings. Labels are ignored."""

    def set_classes(self, form: SequenceSpec) -> None:
        """Accept a task with any kind of target, because labels are ignored."""

    def _targets(self, y: Any, found: Sequences) -> tuple[np.ndarray, Target]:
        return np.full(len(found.rows), np.nan, dtype=np.float32), Reals()

    def _stages(self, arms: ArmRecipes, task: Task) -> tuple[Stage, ...]:
        if not self.objective:
            raise SpecError("SequencePretrainer needs an objective, e.g. masked")
        return (arms.pretrain,)
