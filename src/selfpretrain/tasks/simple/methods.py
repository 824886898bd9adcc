"""The list of simple methods: features, the model on them, the settings to try, and the data that they suit.

``fit`` tries the candidates and chooses among them and networks on validation (``estimators.simple``); the
data checks and reports score the baselines on the test split (``tasks.inspect.baselines``). Another method is
another entry of ``METHODS``.
"""

from collections.abc import Callable, Sequence
from functools import partial

from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import RidgeClassifier
from sklearn.neighbors import KNeighborsClassifier
from sklearn.semi_supervised import SelfTrainingClassifier

from ...data.spec import Classes, PositionClasses, Reals, Tokens, Values
from .boosting import fit_boosted
from .features import DIRECTIONS, Features, SingularDirections, of_all
from .kernels import KERNEL_SIZE, PLACES, WORK, KernelShares
from .linear import fit_linear
from .method import MOST_BOOSTED, Method, ModelKind, Rule, Traits
from .symbols import Cohesion, Ends, NGrams, Places, Windows
from .unsaved import fit_with, logistic, logistic_on_first
from .values import FlatValues, HandMade, Rhythm, Statistics, Summary, Symbols, ValueWindows

LOGISTIC = (0.01, 0.1, 1.0, 10.0)
"""Grid of inverse regularisation strengths of logistic regression."""
LOGISTIC_NGRAMS = (1.0, 10.0, 100.0)
"""The same on n-grams, whose TF-IDF weights are small."""
LOGISTIC_POSITIONS = (0.01, 1.0, 100.0)
"""The same on positions, which are many."""
RIDGE = (0.1, 1.0, 10.0, 100.0, 1000.0)
"""Grid of regularisation strengths of ridge regression."""
DEPTHS = (2, 5)
"""Depths of boosted trees to try."""
TREES = (100, 300)
"""Numbers of trees of gradient boosting on histograms to try."""
PIXELS = 4096
"""Most values per example to use all of them; longer examples are summarised."""
ONE_HOT = 20_000
"""Most positions times tokens of symbols at their places, for a baseline."""
MOST_HISTOGRAMS = 50_000
"""Most examples times classes of gradient boosting on histograms of statistics of values."""
WIDEST = 1_000
"""Most dense features for self-training, which fits a model some ten times."""

LINEAR = ModelKind("logistic regression on {}", fit_linear, tuple(1 / alpha for alpha in reversed(RIDGE)))
BOOSTED = ModelKind("boosted trees on {}", fit_boosted)
KERNEL_RIDGE = ModelKind("ridge regression on {}", fit_with(lambda alpha: RidgeClassifier(alpha=alpha)))
NEAREST = ModelKind("nearest neighbour", fit_with(lambda k: KNeighborsClassifier(k, algorithm="brute")))
HISTOGRAMS = ModelKind(
    "gradient boosting on {}",
    fit_with(lambda trees: HistGradientBoostingClassifier(max_iter=trees, random_state=0)),
)
ON_DIRECTIONS = ModelKind("logistic regression on {}", fit_with(logistic_on_first))
# Source: Yarowsky (1995), Unsupervised word sense disambiguation rivaling supervised methods.
SELF_TRAINED = ModelKind(
    "self-trained logistic regression on {}",
    fit_with(lambda strength: SelfTrainingClassifier(logistic(strength))),
)


def _positions(data: Traits) -> bool:
    return isinstance(data.form.target, PositionClasses)


def _classes(data: Traits) -> bool:
    return isinstance(data.form.target, Classes)


def _unlabelled(data: Traits) -> bool:
    return data.unlabelled and data.form.views == 1


def _equal(data: Traits) -> bool:
    return bool((data.lengths == data.form.length).all())


def _few(data: Traits, most: int = MOST_BOOSTED) -> bool:
    return data.labelled * data.form.target.outputs <= most


def _numbers(data: Traits) -> int:
    """Return how many symbols or values an example has."""
    channels = data.form.signal.channels if isinstance(data.form.signal, Values) else 1
    return data.form.length * channels * data.form.views


def _tokens(data: Traits) -> bool:
    return isinstance(data.form.signal, Tokens) and not _positions(data)


def _tokens_at_places(data: Traits) -> bool:
    return _tokens(data) and _equal(data)


def _one_hot(data: Traits) -> bool:
    fits = isinstance(data.form.signal, Tokens) and data.form.length * data.form.signal.vocab <= ONE_HOT
    return fits and _tokens_at_places(data) and _classes(data)


def _few_tokens(data: Traits) -> bool:
    return _tokens_at_places(data) and _few(data) and _numbers(data) <= PIXELS


def _values(data: Traits) -> bool:
    return isinstance(data.form.signal, Values) and not _positions(data)


def _flat(data: Traits) -> bool:
    return _values(data) and _equal(data) and _numbers(data) <= PIXELS


def _flat_classes(data: Traits) -> bool:
    return _flat(data) and _classes(data)


def _summarised(data: Traits) -> bool:
    return _values(data) and not _flat(data)


def _few_values(data: Traits) -> bool:
    return _values(data) and _few(data)


def _histograms(data: Traits) -> bool:
    return _values(data) and _classes(data) and _few(data, MOST_HISTOGRAMS)


def _kernels(data: Traits) -> bool:
    long = int(data.lengths.max()) >= KERNEL_SIZE
    return _values(data) and long and int(data.lengths.sum()) * len(PLACES) <= WORK


def _kernels_of_classes(data: Traits) -> bool:
    return _kernels(data) and _classes(data)


def _kernels_of_reals(data: Traits) -> bool:
    return _kernels(data) and isinstance(data.form.target, Reals)


def _kernels_of_all(data: Traits) -> bool:
    return _kernels_of_classes(data) and _unlabelled(data)


def _token_windows(data: Traits) -> bool:
    return _positions(data) and isinstance(data.form.signal, Tokens)


def _boundaries(data: Traits) -> bool:
    return _token_windows(data) and int(data.lengths.max()) > 1


def _boundaries_of_all(data: Traits) -> bool:
    return _boundaries(data) and _unlabelled(data)


def _value_windows(data: Traits) -> bool:
    return _positions(data) and isinstance(data.form.signal, Values)


def _of_all(kind: Callable[[], Features], grid: Sequence[float], rule: Rule) -> list[Method]:
    """Return two methods on features that are measured on all sequences, for classes."""

    def suits(data: Traits) -> bool:
        return rule(data) and _classes(data) and _unlabelled(data)

    def narrow(data: Traits) -> bool:
        return suits(data) and (_numbers(data) <= WIDEST or not _flat(data))

    directions = partial(of_all, partial(SingularDirections, kind))
    pairs = [(number, strength) for number in DIRECTIONS for strength in grid]
    return [
        Method(directions, ON_DIRECTIONS, pairs, baseline=suits),
        Method(partial(of_all, kind), SELF_TRAINED, grid, baseline=narrow),
    ]


METHODS = [
    # Tokens.
    Method(NGrams, LINEAR, LOGISTIC_NGRAMS, candidate=_tokens, baseline=_tokens),
    Method(Ends, LINEAR, LOGISTIC, candidate=_tokens),
    Method(Places, LINEAR, LOGISTIC, candidate=_tokens_at_places, baseline=_one_hot, many=True),
    Method(Symbols, BOOSTED, DEPTHS, candidate=_few_tokens),
    # Values.
    Method(Summary, LINEAR, LOGISTIC, candidate=_values, baseline=_summarised),
    Method(FlatValues, LINEAR, LOGISTIC, candidate=_flat, baseline=_flat),
    Method(KernelShares, KERNEL_RIDGE, RIDGE, baseline=_kernels_of_classes),
    Method(FlatValues, NEAREST, (1,), baseline=_flat_classes),
    Method(Statistics, BOOSTED, DEPTHS, candidate=_few_values),
    Method(KernelShares, LINEAR, LOGISTIC[:3], candidate=_kernels, baseline=_kernels_of_reals),
    Method(partial(HandMade, Summary().compute), HISTOGRAMS, TREES, baseline=_histograms, many=True),
    # Positions.
    Method(Windows, LINEAR, LOGISTIC_POSITIONS, candidate=_token_windows, baseline=_token_windows),
    Method(Cohesion, LINEAR, LOGISTIC_POSITIONS, candidate=_boundaries, baseline=_boundaries_of_all),
    Method(ValueWindows, LINEAR, LOGISTIC_POSITIONS, candidate=_value_windows, baseline=_value_windows),
    Method(Rhythm, BOOSTED, DEPTHS, candidate=_positions),
    # Classes, where many sequences have no label.
    *_of_all(NGrams, LOGISTIC_NGRAMS, _tokens),
    *_of_all(FlatValues, LOGISTIC, _flat),
    *_of_all(Summary, LOGISTIC, _summarised),
    Method(partial(of_all, KernelShares), KERNEL_RIDGE, RIDGE, baseline=_kernels_of_all),
]
"""Every simple method, in the order in which they are tried."""
KINDS = {each.features().name: each.features for each in METHODS if each.candidate}
"""Name of the features of a candidate -> function that returns new ones."""
