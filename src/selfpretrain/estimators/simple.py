"""Simple methods as candidates of ``fit``: linear models and boosted trees on features of sequences.

They are scored on the same validation examples as networks. The strength of regularisation, or the depth of
trees, is chosen there, and the chosen model is fitted again on all labelled examples, those of validation
included.
"""

import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from scipy.special import expit, softmax
from sklearn.exceptions import ConvergenceWarning
from threadpoolctl import threadpool_limits
from torch import Tensor

from ..data.dataset import SequenceDataset
from ..data.spec import ClassSets, PositionClasses, Reals, SequenceSpec, Tokens
from ..system.files import Json
from ..tasks.inspect.baselines import LOGISTIC, LOGISTIC_NGRAMS, LOGISTIC_SEVERAL, POSITIONS, RIDGE
from ..tasks.inspect.features import PIXELS, ROCKET_WORK, Matrix
from ..tasks.inspect.simple_features import (
    KINDS,
    Cohesion,
    Ends,
    Features,
    FlatValues,
    KernelShares,
    NGrams,
    Places,
    Rhythm,
    State,
    Statistics,
    Summary,
    SymbolFeatures,
    Symbols,
    ValueWindows,
    Windows,
)
from .boosting import BoostedTrees, fit_boosted
from .linear import LinearModel, fit_linear
from .predictor import OUTPUTS, Output

MOST_EXAMPLES = 20_000
"""Most labelled examples that a simple method is fitted on, if its features are symbols."""
MOST_DENSE = 5_000
"""The same for numbers, of which every example has all."""
MOST_BOOSTED = 20_000
"""Most rows times outputs of boosted trees: some seconds per fit."""
SHORTEST_FOR_KERNELS = 9
"""Fewest positions for kernels of nine weights."""
DEPTHS = (2, 5)
"""Depths of boosted trees to try."""
MODELS: dict[str, type[LinearModel] | type[BoostedTrees]] = {
    each.kind: each for each in (LinearModel, BoostedTrees)
}

Answers = tuple[np.ndarray, ...]
"""True values and outputs, as the metrics of an estimator take them; one row per example."""
Folds = Sequence[tuple[SequenceDataset, SequenceDataset]]
"""Labelled training and validation examples; one pair, or one for every fold."""


@dataclass(frozen=True)
class Method:
    """Features and the models to try: linear ones of several strengths, or trees of several depths."""

    features: Callable[[], Features]
    grid: Sequence[float | int]
    boosted: bool = False


@dataclass(frozen=True)
class SimplePredictor:
    """A linear model or boosted trees on features, with the methods of ``Predictor`` that predict."""

    form: SequenceSpec
    features: Features
    model: LinearModel | BoostedTrees

    @property
    def name(self) -> str:
        """What it is, e.g. "logistic regression on 1-4-grams"."""
        if isinstance(self.model, BoostedTrees):
            return f"boosted trees on {self.features.name}"
        kind = "ridge" if isinstance(self.form.target, Reals) else "logistic"
        return f"{kind} regression on {self.features.name}"

    @property
    def output(self) -> Output:
        """Kind of output."""
        return OUTPUTS[self.form.target.kind]

    @property
    def parameters(self) -> int:
        """Number of weights."""
        return self.model.parameters

    def probabilities(self, data: SequenceDataset) -> np.ndarray:
        """Return class probabilities (n, K), or predicted numbers (n, 1)."""
        scores = self.model.scores(self.features.transform(data))
        if self.output == "number":
            return scores
        return np.asarray(expit(scores) if self.output == "sigmoid" else softmax(scores, axis=1))

    def position_probabilities(self, data: SequenceDataset) -> list[np.ndarray]:
        """Return the probabilities (L, K) at the positions of every sequence."""
        ends = data.lengths[0].numpy().cumsum()
        return np.split(self.probabilities(data), ends[:-1])

    def outputs(self, inputs: Tensor, mask: Tensor | None = None) -> Tensor:
        """Return probabilities or numbers (rows, K) for sequences (rows, L, ...) without padding."""
        rows = np.full(len(inputs), -1, dtype=np.int64)
        return torch.from_numpy(self.probabilities(SequenceDataset.from_array(inputs.numpy(), rows)))

    def about(self) -> Json:
        """Return the names of the features and of the kind of model."""
        return {"features": self.features.name, "model": self.model.kind}

    def tensors(self) -> State:
        """Return everything that ``load`` needs besides ``about()``."""
        state = {f"features.{name}": tensor for name, tensor in self.features.state().items()}
        return state | self.model.state()

    @classmethod
    def load(cls, form: SequenceSpec, about: Json, tensors: State) -> "SimplePredictor":
        """Return the model of ``about()`` and ``tensors()``.

        Raises:
            ValueError: if the weights are not those of such a model.
        """
        features = KINDS[about["features"]]()
        prefix = "features."
        features.load({k.removeprefix(prefix): v for k, v in tensors.items() if k.startswith(prefix)})
        return cls(form, features, MODELS[about["model"]].load(tensors, form.target.outputs))


@dataclass(frozen=True)
class SimpleCandidate:
    """A simple method, fitted on all labelled examples, and its answers on validation."""

    model: SimplePredictor
    answers: Answers
    seconds: float


@dataclass(frozen=True)
class SimpleMethods:
    """What all simple methods of a fit share.

    Args:
        everything: all training sequences, labelled or not.
        answer: returns the ``Answers`` of a model on labelled examples.
        quality: returns the score of answers and, for equal ones, a second one; larger is better.
        class_weights: (K,) weights of classes in the loss; empty: equal weights.
    """

    form: SequenceSpec
    folds: Folds
    everything: SequenceDataset
    answer: Callable[[Any, SequenceDataset], Answers]
    quality: Callable[[Answers], tuple[float, float]]
    class_weights: tuple[float, ...] = ()

    def candidates(self, labelled: SequenceDataset, until: float) -> list[SimpleCandidate]:
        """Fit every suitable method; none is begun after ``until``, a time of ``time.monotonic``.

        Args:
            labelled: all labelled examples, on which the final models are fitted.
        """
        found = []
        with threadpool_limits(1), warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # a fit stopped early is still a candidate
            for method in suitable(self.form, labelled):
                if time.monotonic() < until:
                    found.append(self.candidate(method, labelled))
        return found

    def candidate(self, method: Method, labelled: SequenceDataset) -> SimpleCandidate:
        """Choose one of the grid of a method on the folds, and fit it on all labelled examples."""
        start = time.monotonic()
        answers: dict[float | int, list[Answers]] = {setting: [] for setting in method.grid}
        for whole, val in self.folds:
            features, train, x = self._features(method, whole)
            for setting in method.grid:
                model = self._fit(features, x, train, setting, method.boosted)
                answers[setting].append(self.answer(model, val))
        joined = {
            setting: tuple(np.concatenate(parts) for parts in zip(*each, strict=True))
            for setting, each in answers.items()
        }
        best = max(joined, key=lambda setting: self.quality(joined[setting]))
        features, train, x = self._features(method, labelled)
        model = self._fit(features, x, train, best, method.boosted)
        return SimpleCandidate(model, joined[best], time.monotonic() - start)

    def _features(
        self, method: Method, examples: SequenceDataset
    ) -> tuple[Features, SequenceDataset, Matrix]:
        """Return fitted features, the examples that they are fitted on, and their matrix."""
        features = method.features()
        some = _at_most(features, examples)
        features.measure(self.everything)
        features.fit(some)
        return features, some, features.transform(some)

    def _fit(
        self, features: Features, x: Matrix, examples: SequenceDataset, setting: float | int, boosted: bool
    ) -> SimplePredictor:
        target = self.form.target
        y, weights = _rows(self.form, examples)
        if isinstance(target, PositionClasses):
            known = np.flatnonzero(y >= 0)
            most = MOST_BOOSTED // target.outputs if boosted else POSITIONS
            known = np.sort(np.random.RandomState(0).permutation(known)[:most])
            x = x[known]
            y = y[known]
            weights = weights[known]
        weights = self._weighted(y, weights)
        if boosted:
            return SimplePredictor(self.form, features, fit_boosted(x, y, weights, target, int(setting)))
        return SimplePredictor(self.form, features, fit_linear(x, y, weights, target, setting))

    def _weighted(self, y: np.ndarray, weights: np.ndarray) -> np.ndarray:
        """Return the weights of rows (n,), times those of their classes: of sets of classes (n, K)."""
        if isinstance(self.form.target, ClassSets):
            positive = np.array(self.class_weights or (1.0,) * self.form.target.outputs)
            return weights[:, None] * np.where(y > 0, positive, 1.0)
        return weights * np.array(self.class_weights)[y] if self.class_weights else weights


def suitable(form: SequenceSpec, labelled: SequenceDataset) -> list[Method]:
    """Return the methods that suit the data."""
    if labelled.views > 1:  # pairs of sequences have no simple method here
        return []
    if isinstance(form.target, PositionClasses):
        return _of_positions(form, labelled)
    lengths = labelled.lengths[0]
    equal = int(lengths.min()) == int(lengths.max()) == form.length
    reals = isinstance(form.target, Reals)
    strengths = [1 / alpha for alpha in reversed(RIDGE)] if reals else list(LOGISTIC)
    boosted = len(labelled) * form.target.outputs <= MOST_BOOSTED
    if isinstance(form.signal, Tokens):
        found = [Method(NGrams, strengths if reals else LOGISTIC_NGRAMS), Method(Ends, strengths)]
        if equal:
            found.append(Method(Places, strengths))
        if equal and boosted and form.length <= PIXELS:
            found.append(Method(Symbols, DEPTHS, boosted=True))
        return found
    found = [Method(Summary, strengths)]
    if equal and form.length * form.signal.channels <= PIXELS:
        found.append(Method(FlatValues, strengths))
    if boosted:
        found.append(Method(Statistics, DEPTHS, boosted=True))
    total = int(lengths.sum())
    if form.length >= SHORTEST_FOR_KERNELS and total * 84 < ROCKET_WORK:
        found.append(Method(lambda: KernelShares(form.length, total), strengths[:3]))
    return found


def _of_positions(form: SequenceSpec, labelled: SequenceDataset) -> list[Method]:
    if not isinstance(form.signal, Tokens):
        return [Method(ValueWindows, LOGISTIC_SEVERAL), Method(Rhythm, DEPTHS, boosted=True)]
    found = [Method(Windows, LOGISTIC_SEVERAL)]
    if int(labelled.lengths.max()) > 1:
        found.append(Method(Cohesion, LOGISTIC_SEVERAL))
    return [*found, Method(Rhythm, DEPTHS, boosted=True)]


def _at_most(features: Features, examples: SequenceDataset) -> SequenceDataset:
    """Return the examples, or a fixed random subset of as many as the features are fitted on."""
    most = MOST_EXAMPLES if isinstance(features, SymbolFeatures) else MOST_DENSE
    if len(examples) <= most:
        return examples
    rows = np.random.RandomState(0).permutation(len(examples))[:most]
    return examples.take(torch.from_numpy(np.sort(rows)))


def _rows(form: SequenceSpec, examples: SequenceDataset) -> tuple[np.ndarray, np.ndarray]:
    """Return target and weight of every row of the features."""
    weights = np.ones(len(examples)) if examples.weights is None else examples.weights.numpy().astype(float)
    targets = examples.targets.numpy()
    if not isinstance(form.target, PositionClasses):
        return targets.astype(np.float64 if isinstance(form.target, Reals) else np.int64), weights
    lengths = examples.lengths[0].numpy()
    inside = np.arange(targets.shape[1]) < lengths[:, None]
    return targets[inside].astype(np.int64), np.repeat(weights, lengths)
