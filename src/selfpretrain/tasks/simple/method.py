"""What a simple method is: features, a model on them, the settings to try, and where it is used."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...data.dataset import SequenceDataset
from ...data.spec import ClassSets, PositionClasses, Reals, SequenceSpec, Target
from .boosting import BoostedTrees, fit_boosted
from .features import Features, Matrix
from .linear import LinearModel
from .unsaved import UnsavedModel

POSITIONS = 50_000
"""Most positions to fit on, for classes of positions."""
MOST_BOOSTED = 20_000
"""Most rows times outputs of boosted trees: some seconds per fit."""

Fitted = LinearModel | BoostedTrees | UnsavedModel
Fit = Callable[[Any, np.ndarray, np.ndarray, Target, Any], Fitted]
"""Fits a model: matrix, targets and weights of its rows, kind of target, setting."""


@dataclass(frozen=True)
class ModelKind:
    """A kind of model: its name with that of its features, how it is fitted, and its grid for numbers."""

    name: str
    fit: Fit
    numbers: Sequence[float] = ()

    def on(self, features: Features, target: Target) -> str:
        """Return the name of a method, e.g. "logistic regression on 1-4-grams"."""
        name = self.name.format(features.name)
        return name.replace("logistic", "ridge") if isinstance(target, Reals) else name


@dataclass(frozen=True)
class Method:
    """Features, a model on them, and where the method is used on some data.

    Args:
        features: returns new features.
        grid: settings of the model, of which the best is chosen on validation.
        candidate: whether ``fit`` tries it.
        baseline: whether reports score it.
        many: whether the baseline is fast enough for many examples.
    """

    features: Callable[[], Features]
    model: ModelKind
    grid: Sequence[Any]
    candidate: bool = False
    baseline: bool = False
    many: bool = False

    def name(self, target: Target) -> str:
        """Return what it is, e.g. "logistic regression on 1-4-grams"."""
        return self.model.on(self.features(), target)

    @property
    def boosted(self) -> bool:
        """Whether its model is of boosted trees."""
        return self.model.fit is fit_boosted

    def settings(self, target: Target) -> Sequence[Any]:
        """Return the settings to try."""
        return self.model.numbers if self.model.numbers and isinstance(target, Reals) else self.grid

    def measured(self, everything: SequenceDataset, labelled: SequenceDataset) -> Features:
        """Return features that are measured on training sequences: all, and the labelled ones among them."""
        features = self.features()
        features.measure(everything)
        features.fit(everything if features.of_all else labelled)
        return features

    def fitted(
        self,
        form: SequenceSpec,
        x: Matrix,
        examples: SequenceDataset,
        setting: Any,
        class_weights: tuple[float, ...] = (),
    ) -> Fitted:
        """Return the model with a setting, fitted on examples whose features are x.

        Args:
            class_weights: (K,) weights of classes in the loss; empty: equal weights.
        """
        y, weights = targets_and_weights(form, examples)
        if isinstance(form.target, PositionClasses):
            known = np.flatnonzero(y >= 0)
            most = MOST_BOOSTED // form.target.outputs if self.boosted else POSITIONS
            known = np.sort(np.random.RandomState(0).permutation(known)[:most])
            x = x[known]
            y = y[known]
            weights = weights[known]
        return self.model.fit(x, y, _weighted(form, y, weights, class_weights), form.target, setting)


def targets_and_weights(form: SequenceSpec, examples: SequenceDataset) -> tuple[np.ndarray, np.ndarray]:
    """Return target and weight of every row of the features of examples."""
    weights = np.ones(len(examples)) if examples.weights is None else examples.weights.numpy().astype(float)
    targets = examples.targets.numpy()
    if not isinstance(form.target, PositionClasses):
        return targets.astype(np.float64 if isinstance(form.target, Reals) else np.int64), weights
    lengths = examples.lengths[0].numpy()
    inside = np.arange(targets.shape[1]) < lengths[:, None]
    return targets[inside].astype(np.int64), np.repeat(weights, lengths)


def _weighted(
    form: SequenceSpec, y: np.ndarray, weights: np.ndarray, class_weights: tuple[float, ...]
) -> np.ndarray:
    """Return the weights of rows (n,), times those of their classes: of sets of classes (n, K)."""
    if isinstance(form.target, ClassSets):
        positive = np.array(class_weights or (1.0,) * form.target.outputs)
        return weights[:, None] * np.where(y > 0, positive, 1.0)
    return weights * np.array(class_weights)[y] if class_weights else weights
