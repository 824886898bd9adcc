"""A classifier of sequences."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from scipy.optimize import minimize_scalar
from sklearn.base import ClassifierMixin, TransformerMixin
from sklearn.metrics import confusion_matrix

from ..data.schema import Classes, Form, Target
from ..errors import SpecError
from ..objectives.classify import Classify
from ..studies.recipes.arms import Arms
from ..tasks.base import Task
from ..training.recipe import Stage
from .base import SequenceEstimator, refuse_missing
from .labels import classes_of
from .reliability import Reliability
from .scores import Score, bootstrap, class_measures


@dataclass(kw_only=True, eq=False, repr=False)
class SequenceClassifier(TransformerMixin, ClassifierMixin, SequenceEstimator):  # type: ignore[misc]
    """Self-pretraining on all sequences, then one of K classes for each; see ``SequenceEstimator``.

    Args:
        class_weight: "balanced", or what an example of each class counts in finetuning.
        label_smoothing: share of every label that is spread evenly over all classes.
        calibrate: divide logits by the temperature that fits the validation split best.
    """

    class_weight: Mapping[Any, int | float] | Literal["balanced"] | None = None
    label_smoothing: int | float = 0.0
    calibrate: bool = False

    def predict_proba(self, X: Any) -> np.ndarray:
        """(n, K) the probability of every class, in the order of ``classes_``."""
        data = self._usable(X)
        return self.predictor_.probabilities(data)

    def predict(self, X: Any) -> np.ndarray:
        """(n,) the most probable class."""
        best = self.predict_proba(X).argmax(1)
        return self.classes_[best]

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """The accuracy; of a task, by its name, on its test split."""
        if isinstance(X, str | Task):
            y = self.classes_[self._usable(X).targets.numpy()]
        return float(super().score(X, y, sample_weight))

    def evaluate(self, X: Any, y: Any = None, *, groups: Any = None, draws: int = 200) -> dict[str, Score]:
        """Accuracy, plain and balanced, macro F1, MCC, AUROC, average precision, log loss and ECE."""
        right, probabilities = self._answered(X, y)
        if isinstance(X, str | Task):
            known = self._usable(X).groups
            groups = None if known is None else known.numpy()
        return bootstrap(class_measures, (right, probabilities), groups, draws)

    def confusion(self, X: Any, y: Any = None) -> np.ndarray:
        """(K, K) how many examples of each class (rows) were given each answer (columns)."""
        right, probabilities = self._answered(X, y)
        return confusion_matrix(right, probabilities.argmax(1), labels=np.arange(len(self.classes_)))

    def reliability(self, X: Any, y: Any = None) -> Reliability:
        """How often answers are right, by how sure the model is of them; ``picture`` draws it."""
        return Reliability.of(*self._answered(X, y))

    def note_scores(self, task: Task) -> None:
        """Take down what the model scores on the test split of a task, and its reliability there."""
        super().note_scores(task)
        self.scores_["reliability"] = {"bins": [list(found) for found in self.reliability(task).bins]}

    def _answered(self, X: Any, y: Any) -> tuple[np.ndarray, np.ndarray]:
        """Classes (n,) and the probabilities (n, K) that they are given; of a task, those of test."""
        data = self._usable(X)
        right = data.targets.numpy() if isinstance(X, str | Task) else self._codes(y)
        return right, self.predictor_.probabilities(data)

    def _codes(self, y: Any) -> np.ndarray:
        """(n,) the number of every label among the classes.

        Raises:
            SpecError: if one is not among them.
        """
        number = {label: i for i, label in enumerate(self.classes_.tolist())}
        labels = y.tolist() if isinstance(y, np.ndarray) else list(y)
        unknown = [label for label in labels if label not in number]
        if unknown:
            raise SpecError(f"label {unknown[0]!r} is none of the {len(number)} classes of training")
        return np.array([number[label] for label in labels], dtype=np.int64)

    def _targets(self, y: Any, n: int) -> tuple[np.ndarray, Target]:
        refuse_missing(y, type(self).__name__)
        targets, self.classes_ = classes_of(y)
        if len(self.classes_) < 2:
            found = f"one class, {self.classes_[0]!r}" if len(self.classes_) else "no label"
            raise SpecError(f"y holds {found}; there must be two classes or more to tell apart")
        return targets, Classes(tuple(map(str, self.classes_)))

    def _adopt(self, form: Form) -> None:
        if not isinstance(form.target, Classes):
            raise SpecError("this task's targets are real numbers; use SequenceRegressor")
        self.classes_ = np.array(form.target.names)

    def _stages(self, arms: Arms, task: Task) -> tuple[Stage, ...]:
        *before, last = super()._stages(arms, task)
        weights = self._class_weights(task)
        return (*before, replace(last, objective=Classify(weights=weights, smoothing=self.label_smoothing)))

    def _class_weights(self, task: Task) -> tuple[float, ...]:
        if self.class_weight is None:
            return ()
        if isinstance(self.class_weight, Mapping):
            unknown = [label for label in self.class_weight if label not in list(self.classes_)]
            if unknown:
                raise SpecError(f"class_weight names {unknown[0]!r}, which is not a class of y")
            return tuple(float(self.class_weight.get(label, 1.0)) for label in self.classes_)
        train = task.load("train")
        counts = np.bincount(train.targets[train.labelled].numpy(), minlength=len(self.classes_))
        return tuple((counts.sum() / (len(counts) * counts.clip(min=1))).tolist())

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
