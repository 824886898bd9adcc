"""Simple methods and their list: features, a model on them, settings to try, and the data that they suit.

``fit`` tries the candidates and chooses among them and networks on validation (``estimators.simple``); the
data checks and reports score the baselines on the test split (``tasks.inspect.baselines``). Another method is
another entry of the list.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product
from typing import Any

import numpy as np
import torch
from sklearn.linear_model import RidgeClassifier
from sklearn.neighbors import KNeighborsClassifier
from sklearn.semi_supervised import SelfTrainingClassifier
from torch import Tensor

from ...data.dataset import SequenceDataset
from ...data.spec import Classes, ClassSets, PositionClasses, Reals, SequenceSpec, Target, Tokens, Values
from .cohesion import CohesionNumbers, CohesionWindows
from .features import (
    MAX_DIRECTIONS,
    Features,
    FlatValues,
    HandMade,
    Matrix,
    Rhythm,
    Statistics,
    Summary,
    Symbols,
    ValueWindows,
    directions,
    of_all,
)
from .hydra import CompetingKernels, count_answers
from .intervals import IntervalQuantiles
from .kernels import FEATURES, KERNEL_SIZE, PLACES, WORK, KernelShares
from .minirocket import MANY_FEATURES, STATISTICS, SharedKernels
from .models import (
    SavedModel,
    UnsavedModel,
    fit_boosted,
    fit_histograms,
    fit_linear,
    fit_random,
    fit_with,
    logistic,
    logistic_on_first,
)
from .ridge import STRENGTHS, fit_ridge
from .symbols import Ends, Neighbours, NGrams, Places, Windows

POSITIONS = 50_000  # maximum number of positions to fit on, for classes of positions
MAX_DENSE = 8_000  # maximum number of examples to fit a candidate on, if its features are dense numbers
MAX_BOOSTED = 20_000  # maximum rows times outputs of boosted trees: some seconds per fit
MAX_RANDOM = 200_000  # the same of random trees: at most some 100 MB are saved
RICH = range(300, 2_001)
"""Numbers of labelled examples at which kernels have further statistics: fewer are learned by heart, and of
more the matrix is large."""
MAX_MANY = 4_000  # maximum examples with many random kernels: ridge regression takes some 15 seconds

Fitted = SavedModel | UnsavedModel
Fit = Callable[[Any, np.ndarray, np.ndarray, Target, Any], Fitted]
"""Fits a model: matrix, targets and weights of its rows, kind of target, setting."""
LOGISTIC = (0.01, 0.1, 1.0, 10.0)  # grid of inverse regularisation strengths of logistic regression
LOGISTIC_NGRAMS = (1.0, 10.0, 100.0)  # the same on n-grams, whose TF-IDF weights are small
LOGISTIC_POSITIONS = (0.01, 1.0, 100.0)  # the same on positions, which are many
DIRECTIONS = tuple(product((10, MAX_DIRECTIONS), LOGISTIC))
DIRECTIONS_NGRAMS = tuple(product((10, MAX_DIRECTIONS), LOGISTIC_NGRAMS))
"""The same on the first singular directions of features: number of directions, strength."""
ALPHAS = (0.1, 1.0, 10.0, 100.0, 1000.0)  # grid of regularisation strengths of ridge regression
DEPTHS = (2, 5)  # depths of boosted trees to try
TREES = (100, 300)  # numbers of trees of gradient boosting on histograms to try
SHARES = (0.1,)  # features that a question of a random tree is chosen from, as a share of all
SHARES_OF_FEW = (0.3,)  # the same where features are few
MAX_ANSWERS = 2e10  # maximum number of answers of competing kernels: about half a minute
MAX_INTERVALS = 2_500_000  # maximum number of values whose intervals are looked at: some seconds per fit
MAX_FLAT = 4096  # maximum number of values per example to use all of them; longer examples are summarised
MAX_ONE_HOT = 20_000  # maximum positions times vocabulary for a baseline on one-hot symbols
MAX_HISTOGRAMS = 50_000
"""Maximum examples times classes of gradient boosting on histograms of statistics of values."""
MAX_SELF_TRAINED = 1_000
"""Maximum number of dense features for self-training, which fits a model some ten times."""


@dataclass(frozen=True)
class ModelKind:
    """A kind of model: its name with that of its features, and how it is fitted."""

    name: str
    fit: Fit
    grid_of_reals: Sequence[float] = ()  # settings to try where targets are real numbers; (): those of others

    def on(self, features: Features, target: Target) -> str:
        """Return the name of a method, e.g. "logistic regression on 1-4-grams"."""
        name = self.name.format(features.name)
        return name.replace("logistic", "ridge") if isinstance(target, Reals) else name


@dataclass(frozen=True)
class Method:
    """Features, a model on them, and where the method is used on some data."""

    features: Callable[[], Features]  # returns new features
    model: ModelKind
    grid: Sequence[Any]  # settings of the model, of which the best is chosen on validation
    candidate: bool = False  # whether ``fit`` tries it
    baseline: bool = False  # whether reports score it
    many: bool = False  # whether the baseline is fast enough for many examples

    def name(self, target: Target) -> str:
        """Return what it is, e.g. "logistic regression on 1-4-grams"."""
        return self.model.on(self.features(), target)

    @property
    def boosted(self) -> bool:
        """Return whether its model is of boosted trees."""
        return self.model.fit is fit_boosted

    def settings(self, target: Target) -> Sequence[Any]:
        """Return the settings to try."""
        reals = self.model.grid_of_reals
        return reals if reals and isinstance(target, Reals) else self.grid

    def measured(self, everything: SequenceDataset) -> Features:
        """Return features that have measured on all training sequences whatever needs no label."""
        features = self.features()
        features.measure(everything)
        if features.of_all:
            features.fit(everything)
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
            most = MAX_BOOSTED // form.target.outputs if self.boosted else POSITIONS
            known = np.sort(np.random.RandomState(0).permutation(known)[:most])
            x = x[known]
            y = y[known]
            weights = weights[known]
        if isinstance(form.target, ClassSets):  # weights (n, K)
            positive = np.array(class_weights or (1.0,) * form.target.outputs)
            weights = weights[:, None] * np.where(y > 0, positive, 1.0)
        elif class_weights:
            weights = weights * np.array(class_weights)[y]
        return self.model.fit(x, y, weights, form.target, setting)


def targets_and_weights(form: SequenceSpec, examples: SequenceDataset) -> tuple[np.ndarray, np.ndarray]:
    """Return target and weight of every row of the features of examples."""
    weights = np.ones(len(examples)) if examples.weights is None else examples.weights.numpy().astype(float)
    targets = examples.targets.numpy()
    if not isinstance(form.target, PositionClasses):
        return targets.astype(np.float64 if isinstance(form.target, Reals) else np.int64), weights
    lengths = examples.lengths[0].numpy()
    inside = np.arange(targets.shape[1]) < lengths[:, None]
    return targets[inside].astype(np.int64), np.repeat(weights, lengths)


LINEAR = ModelKind("logistic regression on {}", fit_linear, tuple(1 / alpha for alpha in reversed(ALPHAS)))
# With probabilities, and saved; RIDGE is a baseline alone, which is not.
CALIBRATED = ModelKind("ridge regression on {}", fit_ridge, LINEAR.grid_of_reals)
BOOSTED = ModelKind("boosted trees on {}", fit_boosted)
RANDOM = ModelKind("random trees on {}", fit_random)
RIDGE = ModelKind("ridge regression on {}", fit_with(lambda alpha: RidgeClassifier(alpha=alpha)))
NEAREST = ModelKind("nearest neighbour", fit_with(lambda k: KNeighborsClassifier(k, algorithm="brute")))
HISTOGRAMS = ModelKind("gradient boosting on {}", fit_histograms)
ON_FIRST = ModelKind("logistic regression on {}", fit_with(logistic_on_first))
# Source: Yarowsky (1995), Unsupervised word sense disambiguation rivaling supervised methods.
SELF_TRAINED = ModelKind(
    "self-trained logistic regression on {}",
    fit_with(lambda strength: SelfTrainingClassifier(logistic(strength))),
)


def simple_methods(
    form: SequenceSpec,
    labelled: int,
    lengths: Tensor,
    unlabelled: bool = False,
    statistics: Callable[[SequenceDataset], Any] | None = None,
) -> list[Method]:
    """Return every simple method, and whether it suits the data as a candidate and as a baseline.

    The first candidates are the usual ones, whose average is kept where nothing can be validated.

    Args:
        labelled: number of training examples with a label.
        lengths: positions of all sequences.
        unlabelled: whether there are training sequences without a label.
        statistics: returns statistics (n, K) that the task defines for its examples.
    """
    classes = isinstance(form.target, Classes)
    positions = isinstance(form.target, PositionClasses)
    tokens = isinstance(form.signal, Tokens) and not positions
    values = isinstance(form.signal, Values) and not positions
    token_windows = positions and isinstance(form.signal, Tokens)
    value_windows = positions and isinstance(form.signal, Values)
    boundaries = token_windows and int(lengths.max()) > 1
    equal = bool((lengths == form.length).all())
    numbers = form.length * form.views * (form.signal.channels if isinstance(form.signal, Values) else 1)
    flat = values and equal and numbers <= MAX_FLAT
    summarised = values and not flat
    places = tokens and equal
    one_hot = places and isinstance(form.signal, Tokens) and form.length * form.signal.vocab <= MAX_ONE_HOT
    kernels = values and int(lengths.max()) >= KERNEL_SIZE and int(lengths.sum()) * len(PLACES) <= WORK
    outputs = labelled * form.target.outputs
    few = outputs <= MAX_BOOSTED
    sets = isinstance(form.target, ClassSets)
    rows = min(labelled, MAX_DENSE)
    trees = values and not sets and rows * form.target.outputs <= MAX_RANDOM
    in_intervals = trees and rows * numbers <= MAX_INTERVALS
    many = labelled <= MAX_MANY and (few or not sets)  # sets have a regression per class
    many_kernels = partial(SharedKernels, MANY_FEATURES if many else FEATURES)
    if labelled in RICH and many:
        many_kernels = partial(SharedKernels, MANY_FEATURES // 2, STATISTICS)
    competing = kernels and count_answers(int(lengths.sum()), int(lengths.max())) <= MAX_ANSWERS
    histograms = statistics is not None or (values and outputs <= MAX_HISTOGRAMS)
    hand_made = partial(HandMade, statistics or Summary().compute)
    with_unlabelled = unlabelled and classes and form.views == 1
    self_trained = with_unlabelled and (not flat or numbers <= MAX_SELF_TRAINED)
    return [
        Method(NGrams, LINEAR, LOGISTIC_NGRAMS, candidate=tokens, baseline=tokens),
        Method(Ends, LINEAR, LOGISTIC, candidate=tokens),
        Method(Places, LINEAR, LOGISTIC, candidate=places, baseline=classes and one_hot, many=True),
        Method(Symbols, BOOSTED, DEPTHS, candidate=places and few and numbers <= MAX_FLAT),
        Method(many_kernels, CALIBRATED, (STRENGTHS,), candidate=kernels),
        Method(IntervalQuantiles, RANDOM, SHARES, candidate=in_intervals),
        Method(CompetingKernels, CALIBRATED, (STRENGTHS,), candidate=competing),
        Method(FlatValues, LINEAR, LOGISTIC, candidate=flat, baseline=flat),
        Method(Summary, LINEAR, LOGISTIC, candidate=values, baseline=summarised),
        Method(Statistics, RANDOM, SHARES_OF_FEW, candidate=trees and classes),
        Method(Statistics, BOOSTED, DEPTHS, candidate=values and few and not classes),
        Method(KernelShares, RIDGE, ALPHAS, baseline=kernels and classes),
        Method(FlatValues, NEAREST, (1,), baseline=flat and classes),
        Method(KernelShares, LINEAR, LOGISTIC[:3], baseline=isinstance(form.target, Reals) and kernels),
        Method(hand_made, HISTOGRAMS, TREES, baseline=classes and histograms, many=True),
        Method(Windows, LINEAR, LOGISTIC_POSITIONS, candidate=token_windows),
        Method(Neighbours, LINEAR, LOGISTIC_POSITIONS, baseline=token_windows),
        Method(CohesionWindows, LINEAR, LOGISTIC_POSITIONS, boundaries, baseline=boundaries and unlabelled),
        Method(CohesionNumbers, BOOSTED, DEPTHS, boundaries, baseline=boundaries and unlabelled and few),
        Method(ValueWindows, LINEAR, LOGISTIC_POSITIONS, candidate=value_windows, baseline=value_windows),
        Method(Rhythm, BOOSTED, DEPTHS, candidate=positions),
        # Methods that see sequences without a label, too.
        Method(partial(directions, NGrams), ON_FIRST, DIRECTIONS_NGRAMS, baseline=tokens and with_unlabelled),
        Method(partial(directions, FlatValues), ON_FIRST, DIRECTIONS, baseline=flat and with_unlabelled),
        Method(partial(directions, Summary), ON_FIRST, DIRECTIONS, baseline=summarised and with_unlabelled),
        Method(partial(of_all, NGrams), SELF_TRAINED, LOGISTIC_NGRAMS, baseline=tokens and self_trained),
        Method(partial(of_all, FlatValues), SELF_TRAINED, LOGISTIC, baseline=flat and self_trained),
        Method(partial(of_all, Summary), SELF_TRAINED, LOGISTIC, baseline=summarised and self_trained),
        Method(partial(of_all, KernelShares), RIDGE, ALPHAS, baseline=kernels and with_unlabelled),
    ]


def features_named(form: SequenceSpec, name: str) -> Features:
    """Return new features of the candidates for some form of sequences by their name.

    Raises:
        KeyError: if no candidate has features of that name.
    """
    every = simple_methods(form, 0, torch.tensor([form.length]))
    return {method.features().name: method.features for method in every if method.candidate}[name]()
