"""Simple methods as candidates of ``fit``: linear models on features of sequences.

They are scored on the same validation examples as networks. The strength of regularisation is chosen there,
and the chosen model is fitted again on all labelled examples, those of validation included.
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
from sklearn.linear_model import LogisticRegression, Ridge
from threadpoolctl import threadpool_limits
from torch import Tensor

from ..data.dataset import SequenceDataset
from ..data.spec import ClassSets, PositionClasses, Reals, SequenceSpec, Tokens
from ..system.files import Json
from ..tasks.inspect.baselines import LOGISTIC, LOGISTIC_NGRAMS, LOGISTIC_SEVERAL, POSITIONS, RIDGE
from ..tasks.inspect.features import PIXELS, ROCKET_WORK, Matrix
from .predictor import OUTPUTS, Output
from .simple_features import (
    KINDS,
    Cohesion,
    Ends,
    Features,
    FlatValues,
    KernelShares,
    NGrams,
    Places,
    State,
    Summary,
    SymbolFeatures,
    ValueWindows,
    Windows,
)

MOST_EXAMPLES = 20_000
"""Most labelled examples that a simple method is fitted on, if its features are symbols."""
MOST_DENSE = 5_000
"""The same for numbers, of which every example has all."""
NEVER = -30.0
"""Logit of a class that no training example has."""
ITERATIONS = 200
"""Most iterations of logistic regression."""
SHORTEST_FOR_KERNELS = 9
"""Fewest positions for kernels of nine weights."""

Answers = tuple[np.ndarray, ...]
"""True values and outputs, as the metrics of an estimator take them; one row per example."""
Folds = Sequence[tuple[SequenceDataset, SequenceDataset]]
"""Labelled training and validation examples; one pair, or one for every fold."""


@dataclass(frozen=True)
class SimplePredictor:
    """A linear model on features, with the methods of ``Predictor`` that predict."""

    form: SequenceSpec
    features: Features
    coef: np.ndarray  # (features, K)
    bias: np.ndarray  # (K,)

    @property
    def name(self) -> str:
        """What it is, e.g. "logistic regression on 1-4-grams"."""
        kind = "ridge" if isinstance(self.form.target, Reals) else "logistic"
        return f"{kind} regression on {self.features.name}"

    @property
    def output(self) -> Output:
        """Kind of output."""
        return OUTPUTS[self.form.target.kind]

    @property
    def parameters(self) -> int:
        """Number of weights."""
        return self.coef.size + self.bias.size

    def probabilities(self, data: SequenceDataset) -> np.ndarray:
        """Return class probabilities (n, K), or predicted numbers (n, 1)."""
        scores = np.asarray(self.features.transform(data) @ self.coef) + self.bias
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

    def tensors(self) -> State:
        """Return everything that ``load`` needs besides the name of the features."""
        state = {f"features.{name}": tensor for name, tensor in self.features.state().items()}
        return state | {"coef": torch.from_numpy(self.coef), "bias": torch.from_numpy(self.bias)}

    @classmethod
    def load(cls, form: SequenceSpec, about: Json, tensors: State) -> "SimplePredictor":
        """Return the model of ``tensors()``; ``about`` holds the name of its features.

        Raises:
            ValueError: if the weights are not those of such a model.
        """
        features = KINDS[about["features"]]()
        prefix = "features."
        features.load({k.removeprefix(prefix): v for k, v in tensors.items() if k.startswith(prefix)})
        coef = tensors["coef"].numpy()
        bias = tensors["bias"].numpy()
        if coef.shape[1:] != (form.target.outputs,) or bias.shape != coef.shape[1:]:
            raise ValueError(f"weights {coef.shape} and {bias.shape} for {form.target.outputs} outputs")
        return cls(form, features, coef, bias)


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
        score: returns the score of answers, larger is better.
        class_weights: (K,) weights of classes in the loss; empty: equal weights.
    """

    form: SequenceSpec
    folds: Folds
    everything: SequenceDataset
    answer: Callable[[Any, SequenceDataset], Answers]
    score: Callable[[Answers], float]
    class_weights: tuple[float, ...] = ()

    def candidates(self, labelled: SequenceDataset, until: float) -> list[SimpleCandidate]:
        """Fit every suitable method; none is begun after ``until``, a time of ``time.monotonic``.

        Args:
            labelled: all labelled examples, on which the final models are fitted.
        """
        found = []
        with threadpool_limits(1), warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # a fit stopped early is still a candidate
            for make, strengths in suitable(self.form, labelled):
                if time.monotonic() < until:
                    found.append(self.candidate(make, strengths, labelled))
        return found

    def candidate(
        self, make: Callable[[], Features], strengths: Sequence[float], labelled: SequenceDataset
    ) -> SimpleCandidate:
        """Choose the strength on the folds, and fit one method on all labelled examples."""
        start = time.monotonic()
        answers: dict[float, list[Answers]] = {strength: [] for strength in strengths}
        for whole, val in self.folds:
            features = make()
            train = _at_most(features, whole)
            features.measure(self.everything)
            features.fit(train)
            x = features.transform(train)
            for strength in strengths:
                model = self._fit(features, x, train, strength)
                answers[strength].append(self.answer(model, val))
        joined = {
            strength: tuple(np.concatenate(parts) for parts in zip(*each, strict=True))
            for strength, each in answers.items()
        }
        best = max(joined, key=lambda strength: self.score(joined[strength]))  # the first of equal ones
        features = make()
        labelled = _at_most(features, labelled)
        features.measure(self.everything)
        features.fit(labelled)
        model = self._fit(features, features.transform(labelled), labelled, best)
        return SimpleCandidate(model, joined[best], time.monotonic() - start)

    def _fit(
        self, features: Features, x: Matrix, examples: SequenceDataset, strength: float
    ) -> SimplePredictor:
        y, weights = _rows(self.form, examples)
        if isinstance(self.form.target, PositionClasses):
            known = np.flatnonzero(y >= 0)
            known = np.sort(np.random.RandomState(0).permutation(known)[:POSITIONS])
            x = x[known]
            y = y[known]
            weights = weights[known]
        coef, bias = self._linear(x, y, weights, strength)
        return SimplePredictor(self.form, features, coef, bias)

    def _linear(
        self, x: Matrix, y: np.ndarray, weights: np.ndarray, strength: float
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the weights (features, K) and biases (K,) of a linear model."""
        target = self.form.target
        if isinstance(target, Reals):
            ridge = Ridge(alpha=1 / strength).fit(x, (y - target.centre) / target.spread, weights)
            coef = ridge.coef_.reshape(-1, 1) * target.spread
            return coef, np.array([ridge.intercept_ * target.spread + target.centre])
        if isinstance(target, ClassSets):
            positive = self.class_weights or (1.0,) * target.outputs
            columns = [
                _logistic(x, y[:, k], weights * np.where(y[:, k] > 0, positive[k], 1.0), 2, strength)
                for k in range(target.outputs)
            ]
            coef = np.stack([each[:, 1] - each[:, 0] for each, _ in columns], axis=1)
            return coef, np.array([bias[1] - bias[0] for _, bias in columns])
        if self.class_weights:
            weights = weights * np.array(self.class_weights)[y]
        return _logistic(x, y, weights, target.outputs, strength)


def _logistic(
    x: Matrix, y: np.ndarray, weights: np.ndarray, classes: int, strength: float
) -> tuple[np.ndarray, np.ndarray]:
    """Return weights (features, K) and biases (K,) of logistic regression, also if classes are missing."""
    coef = np.zeros((x.shape[1], classes))
    bias = np.full(classes, NEVER)
    present = np.unique(y)
    if len(present) == 1:
        bias[present[0]] = 0.0
        return coef, bias
    model = LogisticRegression(C=strength, max_iter=ITERATIONS).fit(x, y, weights)
    if len(present) == 2:  # one column: the logit of the second class against the first
        bias[present] = 0.0, model.intercept_[0]
        coef[:, present[1]] = model.coef_[0]
        return coef, bias
    bias[present] = model.intercept_
    coef[:, present] = model.coef_.T
    return coef, bias


def suitable(
    form: SequenceSpec, labelled: SequenceDataset
) -> list[tuple[Callable[[], Features], Sequence[float]]]:
    """Return the features that suit the data, and a grid of inverse regularisation strengths for each."""
    if labelled.views > 1:  # pairs of sequences have no simple method here
        return []
    lengths = labelled.lengths[0]
    equal = int(lengths.min()) == int(lengths.max()) == form.length
    tokens = isinstance(form.signal, Tokens)
    several = isinstance(form.target, PositionClasses)
    reals = isinstance(form.target, Reals)
    strengths = [1 / alpha for alpha in reversed(RIDGE)] if reals else list(LOGISTIC)
    if several:
        around: list[type[Features]] = [Windows] if tokens else [ValueWindows]
        if tokens and int(lengths.max()) > 1:
            around.append(Cohesion)
        return [(kind, LOGISTIC_SEVERAL) for kind in around]
    if isinstance(form.signal, Tokens):
        kinds: list[tuple[Callable[[], Features], Sequence[float]]] = [
            (NGrams, strengths if reals else LOGISTIC_NGRAMS),
            (Ends, strengths),
        ]
        return [*kinds, (Places, strengths)] if equal else kinds
    kinds = [(Summary, strengths)]
    if equal and form.length * form.signal.channels <= PIXELS:
        kinds.append((FlatValues, strengths))
    total = int(lengths.sum())
    if form.length >= SHORTEST_FOR_KERNELS and total * 84 < ROCKET_WORK:
        kinds.append((lambda: KernelShares(form.length, total), strengths[:3]))
    return kinds


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
