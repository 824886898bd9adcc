"""Classifier of positions, for tagging, segmentation, and finding genes or events in a recording."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from sklearn.base import TransformerMixin

from ..data.dataset import SequenceDataset
from ..data.labels import positions_of, weights_of
from ..data.spec import PositionClasses, Target
from ..errors import SpecError
from ..objectives.token_classify import TokenClassify
from ..studies.recipes.arms import ArmRecipes
from ..tasks.base import Task
from ..training.recipe import Stage
from .base import SequenceEstimator, refuse_missing
from .inputs import Sequences
from .scores import Score, bootstrap, position_counts, position_measures


@dataclass(kw_only=True, eq=False, repr=False)
class PositionClassifier(TransformerMixin, SequenceEstimator):  # type: ignore[misc]
    """Self-pretraining on all sequences, then one of K classes at every position; see ``SequenceEstimator``.

    y has one label per position of every sequence; the positions of text are its bytes. A label may be None
    where it is unknown, and so may all labels of a sequence.

    Args:
        class_weight: "balanced", or the loss weight of positions of each class in finetuning.
    """

    class_weight: Mapping[Any, int | float] | Literal["balanced"] | None = None

    def predict_proba(self, X: Any) -> list[np.ndarray]:
        """Return class probabilities (length, K) of every sequence, in the order of ``classes_``."""
        data = self._usable(X)
        return self.predictor_.at_positions(data)

    def predict(self, X: Any) -> list[np.ndarray]:
        """Return the most probable class of every position (length,), for every sequence."""
        return [self.classes_[probabilities.argmax(1)] for probabilities in self.predict_proba(X)]

    def score(self, X: Any, y: Any = None) -> float:
        """Return accuracy over all positions; if X is a task or its name, on the test split."""
        return position_measures(*self._answered(X, y))["accuracy"]

    def evaluate(self, X: Any, y: Any = None, *, groups: Any = None, draws: int = 200) -> dict[str, Score]:
        """Return accuracy, balanced accuracy, macro F1, MCC and log loss over positions."""
        return bootstrap(position_measures, self._answered(X, y), self._groups_of(X, groups), draws)

    def table(self, data: SequenceDataset) -> dict[str, list[Any]]:
        """Return the column of a prediction file: the classes of all positions, separated by spaces."""
        each = (
            self.classes_[probabilities.argmax(1)] for probabilities in self.predictor_.at_positions(data)
        )
        return {"prediction": [" ".join(map(str, row)) for row in each]}

    def _answered(self, X: Any, y: Any) -> tuple[np.ndarray, np.ndarray]:
        """Return the counts (n, 3, K) and summed log losses (n,) of ``position_counts``."""
        data = self._usable(X)
        lengths = data.lengths[0].numpy()
        right = (
            data.targets.numpy() if isinstance(X, str | Task) else positions_of(y, lengths, self.classes_)[0]
        )
        return position_counts(right, self.predictor_.at_positions(data))

    def _targets(self, y: Any, found: Sequences) -> tuple[np.ndarray, Target]:
        refuse_missing(y, type(self).__name__)
        targets, self.classes_ = positions_of(y, found.lengths)
        if len(self.classes_) < 2:
            raise SpecError(f"y holds {len(self.classes_)} classes; there must be two or more to tell apart")
        return targets, PositionClasses(tuple(map(str, self.classes_)))

    def _stages(self, arms: ArmRecipes, task: Task) -> tuple[Stage, ...]:
        *before, last = super()._stages(arms, task)
        known = task.load("train").targets.numpy()
        counts = np.bincount(known[known >= 0], minlength=len(self.classes_)).clip(min=1)
        balanced = (counts.sum() / (len(counts) * counts)).tolist()
        weights = weights_of(self.class_weight, self.classes_, balanced)
        return (*before, replace(last, objective=TokenClassify(weights=weights)))
