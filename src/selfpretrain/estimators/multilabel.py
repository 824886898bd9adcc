"""Multilabel classifier of sequences: any number of labels per sequence, or none."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from sklearn.base import ClassifierMixin, TransformerMixin

from ..data.dataset import SequenceDataset
from ..data.labels import sets_of, weights_of
from ..data.spec import ClassSets, Target
from ..errors import SpecError
from ..objectives.multilabel import Multilabel
from ..studies.recipes.arms import ArmRecipes
from ..system.files import Json
from ..tasks.base import Task
from ..training.recipe import Stage
from .base import SequenceEstimator, refuse_missing
from .inputs import Sequences
from .scores import Score, bootstrap, measures_of_class, set_measures


@dataclass(kw_only=True, eq=False, repr=False)
class MultilabelClassifier(TransformerMixin, ClassifierMixin, SequenceEstimator):  # type: ignore[misc]
    """Self-pretraining on all sequences, then which of K classes each belongs to; see ``SequenceEstimator``.

    y is an array or table (n, K) of 0 and 1, or has a list or set of labels for every sequence, which may be
    empty. A row of NaN, or None instead of a set, is unlabelled.

    Args:
        class_weight: "balanced", or the loss weight of positive examples of each class; negatives have 1.
    """

    class_weight: Mapping[Any, int | float] | Literal["balanced"] | None = None

    def predict_proba(self, X: Any) -> np.ndarray:
        """Return the probability (n, K) of every class on its own, in the order of ``classes_``."""
        data = self._usable(X)
        return self.predictor_.probabilities(data)

    def predict(self, X: Any) -> np.ndarray:
        """Return indicators (n, K): 1 where the probability is above 0.5, else 0."""
        return (self.predict_proba(X) > 0.5).astype(np.int64)

    def predict_sets(self, X: Any) -> list[list[Any]]:
        """Return the predicted labels of every sequence, in the order of ``classes_``."""
        return [self.classes_[row > 0].tolist() for row in self.predict(X)]

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """Return micro F1; if X is a task or its name, on the test split.

        Raises:
            SpecError: if sample_weight is given.
        """
        if sample_weight is not None:
            raise SpecError("micro F1 counts all examples alike; leave sample_weight out")
        return set_measures(*self._answered(X, y))["micro F1"]

    def evaluate(self, X: Any, y: Any = None, *, groups: Any = None, draws: int = 200) -> dict[str, Score]:
        """Return micro and macro F1, exact match, mean AUROC and average precision over classes, log loss."""
        return bootstrap(set_measures, self._answered(X, y), self._groups_of(X, groups), draws)

    def by_class(self, X: Any, y: Any = None, *, draws: int = 200) -> dict[Any, dict[str, Score]]:
        """Return F1, AUROC and average precision of every class, with bootstrap intervals."""
        right, probabilities = self._answered(X, y)
        return {
            label: bootstrap(measures_of_class, (right[:, k], probabilities[:, k]), None, draws)
            for k, label in enumerate(self.classes_.tolist())
        }

    def table(self, data: SequenceDataset) -> dict[str, list[Any]]:
        """Return the columns of a prediction file: labels separated by semicolons, and every probability."""
        probabilities = self.predictor_.probabilities(data)
        told = [";".join(map(str, self.classes_[row > 0.5])) for row in probabilities]
        names = [f"p({name})" for name in self.classes_]
        return {"prediction": told} | dict(zip(names, probabilities.T.tolist(), strict=True))

    def note_scores(self, task: Task) -> None:
        """Store the scores on the test split of a task, overall and per class, in ``scores_``."""
        super().note_scores(task)
        self.scores_["classes"] = self._noted(self.by_class(task))

    def _answered(self, X: Any, y: Any) -> tuple[np.ndarray, np.ndarray]:
        """Return true indicators (n, K) and probabilities (n, K) of the labelled examples."""
        data = self._usable(X)
        right = data.targets.numpy() if isinstance(X, str | Task) else sets_of(y, self.classes_)[0]
        known = (right >= 0).all(1)
        return right[known], self.predictor_.probabilities(data)[known]

    def _targets(self, y: Any, found: Sequences) -> tuple[np.ndarray, Target]:
        refuse_missing(y, type(self).__name__)
        targets, self.classes_ = sets_of(y)
        if not (targets > 0).any():
            raise SpecError("y holds no label; there must be some to learn from")
        return targets, ClassSets(tuple(map(str, self.classes_)))

    def _stages(self, arms: ArmRecipes, task: Task) -> tuple[Stage, ...]:
        *before, last = super()._stages(arms, task)
        train = task.load("train")
        there = (train.targets[train.labelled] > 0).double().mean(0).clamp(min=1e-6)
        balanced = ((1 - there) / there).clamp(min=1e-3).tolist()
        weights = weights_of(self.class_weight, self.classes_, balanced)
        return (*before, replace(last, objective=Multilabel(weights=weights)))

    def _noted(self, scores: Mapping[Any, Mapping[str, Score]]) -> Json:
        return {str(label): {name: vars(s) for name, s in each.items()} for label, each in scores.items()}
