"""Classifier of sequences: one of K classes per sequence."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from scipy.optimize import minimize_scalar
from sklearn.base import ClassifierMixin, TransformerMixin
from sklearn.metrics import confusion_matrix

from ..data.dataset import SequenceDataset
from ..data.labels import classes_of, codes_of, weights_of
from ..data.spec import Classes, Target
from ..errors import SpecError
from ..objectives.classify import Classify
from ..studies.recipes.arms import ArmRecipes
from ..tasks.base import Task
from ..training.recipe import Stage
from .base import SequenceEstimator, refuse_missing
from .inputs import Sequences
from .reliability import Reliability
from .scores import Score, bootstrap, class_measures


@dataclass(kw_only=True, eq=False, repr=False)
class SequenceClassifier(TransformerMixin, ClassifierMixin, SequenceEstimator):  # type: ignore[misc]
    """Self-pretraining on all sequences, then one of K classes for each; see ``SequenceEstimator``.

    Args:
        class_weight: "balanced", or the weight of each class in the finetuning loss.
        label_smoothing: share of every label that is spread evenly over all classes, in [0, 1).
        calibrate: scale the logits by the temperature with the lowest log loss on the validation split.
    """

    class_weight: Mapping[Any, int | float] | Literal["balanced"] | None = None
    label_smoothing: int | float = 0.0
    calibrate: bool = False

    def predict_proba(self, X: Any) -> np.ndarray:
        """Return the probability (n, K) of every class, in the order of ``classes_``."""
        data = self._usable(X)
        return self.predictor_.probabilities(data)

    def predict(self, X: Any) -> np.ndarray:
        """Return the most probable class (n,) of every sequence."""
        best = self.predict_proba(X).argmax(1)
        return self.classes_[best]

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """Return the accuracy; if X is a task or its name, on the test split."""
        if isinstance(X, str | Task):
            y = self.classes_[self._usable(X).targets.numpy()]
        return float(super().score(X, y, sample_weight))

    def evaluate(self, X: Any, y: Any = None, *, groups: Any = None, draws: int = 200) -> dict[str, Score]:
        """Return accuracy, balanced accuracy, macro F1, MCC, AUROC, average precision, log loss and ECE."""
        return bootstrap(class_measures, self._answered(X, y), self._groups_of(X, groups), draws)

    def confusion(self, X: Any, y: Any = None) -> np.ndarray:
        """Return the confusion matrix (K, K): true classes in rows, predicted ones in columns."""
        right, probabilities = self._answered(X, y)
        return confusion_matrix(right, probabilities.argmax(1), labels=np.arange(len(self.classes_)))

    def reliability(self, X: Any, y: Any = None) -> Reliability:
        """Return the reliability curve, accuracy by confidence; its ``picture`` draws it."""
        return Reliability.of(*self._answered(X, y))

    def table(self, data: SequenceDataset) -> dict[str, list[Any]]:
        """Return the columns of a prediction file: the most probable class and every probability."""
        probabilities = self.predictor_.probabilities(data)
        names = [f"p({name})" for name in self.classes_]
        best = self.classes_[probabilities.argmax(1)].tolist()
        return {"prediction": best} | dict(zip(names, probabilities.T.tolist(), strict=True))

    def note_scores(self, task: Task) -> None:
        """Store the scores and the reliability curve on the test split of a task in ``scores_``."""
        super().note_scores(task)
        self.scores_["reliability"] = {"bins": [list(found) for found in self.reliability(task).bins]}

    def _answered(self, X: Any, y: Any) -> tuple[np.ndarray, np.ndarray]:
        """Return true classes (n,) and predicted probabilities (n, K); of a task, on its test split."""
        data = self._usable(X)
        right = data.targets.numpy() if isinstance(X, str | Task) else codes_of(list(y), self.classes_)
        return right, self.predictor_.probabilities(data)

    def _targets(self, y: Any, found: Sequences) -> tuple[np.ndarray, Target]:
        refuse_missing(y, type(self).__name__)
        targets, self.classes_ = classes_of(y)
        if len(self.classes_) < 2:
            one = f"one class, {self.classes_[0]!r}" if len(self.classes_) else "no label"
            raise SpecError(f"y holds {one}; there must be two classes or more to tell apart")
        return targets, Classes(tuple(map(str, self.classes_)))

    def _stages(self, arms: ArmRecipes, task: Task) -> tuple[Stage, ...]:
        *before, last = super()._stages(arms, task)
        weights = self._class_weights(task)
        return (*before, replace(last, objective=Classify(weights=weights, smoothing=self.label_smoothing)))

    def _class_weights(self, task: Task) -> tuple[float, ...]:
        train = task.load("train")
        counts = np.bincount(train.targets[train.labelled].numpy(), minlength=len(self.classes_))
        balanced = (counts.sum() / (len(counts) * counts.clip(min=1))).tolist()
        return weights_of(self.class_weight, self.classes_, balanced)

    def _finish(self, task: Task) -> None:
        if not self.calibrate:
            return
        val = task.load("val")
        val = val.take(val.labelled.nonzero()[:, 0])
        logits, right = self.predictor_.outputs(val), val.targets.numpy()

        def loss(log: float) -> float:
            with np.errstate(divide="ignore"):
                found = replace(self.predictor_, temperature=float(np.exp(log)))
                return float(-np.log(found.averaged(logits)[np.arange(len(right)), right]).mean())

        best = minimize_scalar(loss, bounds=(-3.0, 3.0), method="bounded")
        self.predictor_ = replace(self.predictor_, temperature=float(np.exp(best.x)))
