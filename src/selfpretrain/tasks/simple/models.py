"""Models of simple methods: linear models, trees, and models of scikit-learn that are not saved.

Linear models are logistic and ridge regression, fitted by scikit-learn. Boosted and random trees are saved as
tensors and evaluated here. Other models of scikit-learn are used as they are: baselines are scored with them,
and none of them is saved.

Models are fitted to y, (n,) classes or numbers, or (n, K) indicators of classes; weights have the same shape.
"""

import abc
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Self

import numpy as np
import torch
from sklearn.ensemble import (
    ExtraTreesClassifier,
    ExtraTreesRegressor,
    GradientBoostingClassifier,
    GradientBoostingRegressor,
    HistGradientBoostingClassifier,
)
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from ...data.spec import ClassSets, Reals, Target
from ...system.time_limit import check_time
from .features import Matrix, Rows, State

NEVER = -30.0  # logit of a class that no training example has
ITERATIONS = 200  # maximum number of iterations of logistic regression
MAX_TREES = 200
MIN_TREES = 50  # trees per output: as many as there may be in all, within these bounds
ALL_TREES = 1000
RATE = 0.1  # factor of every tree's answer
SHARE = 0.5  # share of the examples that each tree is fitted to
MIN_WEIGHT = 0.001
"""Minimum share of all weight in a leaf, if weights are unequal: leaves of nearly none must not count."""
RANDOM_TREES = 200
TREES_AT_A_TIME = 20
LEAST = 1e-3  # least probability of a class by random trees: of few, none is certain


@dataclass(frozen=True)
class SavedModel(abc.ABC):
    """A model whose fields are arrays, which are saved as tensors."""

    kind: ClassVar[str]
    counted: ClassVar[tuple[str, ...]]  # arrays whose numbers are the parameters

    @property
    def parameters(self) -> int:
        """Return the number of weights, or of thresholds and answers."""
        return sum(getattr(self, name).size for name in self.counted)

    def scores(self, x: Matrix) -> np.ndarray:
        """Return logits, or numbers (rows, K)."""
        return x.scores(self._scores) if isinstance(x, Rows) else self._scores(x)

    def state(self) -> State:
        """Return everything that ``load`` needs."""
        return {each.name: torch.from_numpy(getattr(self, each.name)) for each in fields(self)}

    @classmethod
    def load(cls, state: State, outputs: int) -> Self:
        """Return the model of ``state()``.

        Raises:
            ValueError: if the arrays are not those of a model with as many outputs, or trees do not end.
        """
        found = cls(**{each.name: state[each.name].numpy() for each in fields(cls)})
        found._check(outputs)
        return found

    @abc.abstractmethod
    def _scores(self, x: Any) -> np.ndarray:
        """Return the scores of a matrix that is in memory."""

    @abc.abstractmethod
    def _check(self, outputs: int) -> None:
        """Raise ValueError if the arrays do not fit together."""


@dataclass(frozen=True)
class LinearModel(SavedModel):
    """Scores of every output: x @ coef + bias."""

    coef: np.ndarray  # (features, K)
    bias: np.ndarray  # (K,)

    kind = "linear"
    counted = ("coef", "bias")

    def _scores(self, x: Any) -> np.ndarray:
        return np.asarray(x @ self.coef) + self.bias

    def _check(self, outputs: int) -> None:
        if self.coef.shape[1:] != (outputs,) or self.bias.shape != (outputs,):
            raise ValueError(f"weights {self.coef.shape} and {self.bias.shape} for {outputs} outputs")


def fit_linear(x: Matrix, y: np.ndarray, weights: np.ndarray, target: Target, strength: float) -> LinearModel:
    """Fit logistic regression to classes, or ridge regression to numbers.

    Args:
        strength: inverse strength of regularisation.
    """
    if isinstance(target, Reals):
        ridge = Ridge(alpha=1 / strength).fit(x, (y - target.centre) / target.spread, weights)
        coef = ridge.coef_.reshape(-1, 1) * target.spread
        return LinearModel(coef, np.array([ridge.intercept_ * target.spread + target.centre]))
    return fit_by_class(_logistic, x, y, weights, target, strength)


def fit_by_class(
    fit: Callable[..., LinearModel],
    x: Matrix,
    y: np.ndarray,
    weights: np.ndarray,
    target: Target,
    setting: Any,
) -> LinearModel:
    """Fit a linear model to classes, or to the indicators of every class of sets."""
    if not isinstance(target, ClassSets):
        return fit(x, y, weights, target.outputs, setting)
    columns = [fit(x, y[:, k], weights[:, k], 2, setting) for k in range(target.outputs)]
    coef = np.stack([each.coef[:, 1] - each.coef[:, 0] for each in columns], axis=1)
    return type(columns[0])(coef, np.array([each.bias[1] - each.bias[0] for each in columns]))


def _logistic(x: Matrix, y: np.ndarray, weights: np.ndarray, classes: int, strength: float) -> LinearModel:
    """Fit logistic regression, also if classes are missing."""
    coef = np.zeros((x.shape[1], classes))
    bias = np.full(classes, NEVER)
    present = np.unique(y)
    if len(present) == 1:
        bias[present[0]] = 0.0
        return LinearModel(coef, bias)
    check_time()
    span = None
    if isinstance(x, np.ndarray) and len(x) < x.shape[1]:  # the best weights are in the span of the rows
        span, rows = np.linalg.qr(x.T)
        x = rows.T
    model = logistic(strength).fit(x, y, weights)
    columns = present[1:] if len(present) == 2 else present  # of two: the logit of the second class
    bias[present] = 0.0
    bias[columns] = model.intercept_
    coef[:, columns] = model.coef_.T if span is None else span @ model.coef_.T
    return LinearModel(coef, bias)


@dataclass(frozen=True)
class Trees(SavedModel):
    """Decision trees, the nodes of all in one row, children after their parents."""

    feature: np.ndarray  # (nodes,) feature that a node asks for, negative in a leaf
    threshold: np.ndarray  # (nodes,) a row whose feature is at most that goes to the left
    left: np.ndarray  # (nodes,) child
    right: np.ndarray  # (nodes,) child
    root: np.ndarray  # (trees,) first node of every tree

    def leaves(self, x: np.ndarray) -> Iterator[np.ndarray]:
        """Yield for every tree the leaf that each row comes to."""
        x = x.astype(np.float32)  # thresholds of scikit-learn are between numbers of this precision
        rows = np.arange(len(x))
        for root in self.root:
            node = np.full(len(x), root)
            while (inner := self.feature[node] >= 0).any():
                below = x[rows, self.feature[node].clip(min=0)] <= self.threshold[node]
                node = np.where(inner, np.where(below, self.left[node], self.right[node]), node)
            yield node

    def _check(self, outputs: int) -> None:
        inner = self.feature >= 0
        children = np.stack([self.left[inner], self.right[inner]])
        # Children come after their parents, so that no walk from a root can go on for ever.
        if (children <= np.flatnonzero(inner)).any() or (children >= len(inner)).any():
            raise ValueError("the children of a node are not after it")


@dataclass(frozen=True)
class BoostedTrees(Trees):
    """Scores of every output: its bias, and the sum of the answers of its trees."""

    value: np.ndarray  # (nodes,) answer of a leaf
    output: np.ndarray  # (trees,) output that a tree belongs to
    bias: np.ndarray  # (K,)

    kind = "boosted"
    counted = ("value", "bias")

    def _scores(self, x: Any) -> np.ndarray:
        found = np.tile(self.bias, (len(x), 1))
        for leaf, output in zip(self.leaves(x), self.output, strict=True):
            found[:, output] += self.value[leaf]
        return found

    def _check(self, outputs: int) -> None:
        super()._check(outputs)
        if self.bias.shape != (outputs,) or not np.isin(self.output, np.arange(outputs)).all():
            raise ValueError(f"trees and biases {self.bias.shape} for {outputs} outputs")


@dataclass(frozen=True)
class RandomTrees(Trees):
    """Logits of the mean probabilities of all trees, or the mean of their numbers."""

    answers: np.ndarray  # (leaves, K) shares of classes in a leaf, or mean number; in the order of nodes

    kind = "random"
    counted = ("answers",)

    def _scores(self, x: Any) -> np.ndarray:
        number = np.cumsum(self.feature < 0) - 1  # of a leaf
        found = np.zeros((len(x), self.answers.shape[1]))
        for leaf in self.leaves(x):
            found += self.answers[number[leaf]]
        mean = found / len(self.root)
        return np.asarray(mean if mean.shape[1] == 1 else np.log(np.maximum(mean, LEAST)))

    def _check(self, outputs: int) -> None:
        super()._check(outputs)
        if self.answers.shape != ((self.feature < 0).sum(), outputs) or not len(self.root):
            answers = f"{len(self.root)} trees with answers {self.answers.shape}"
            raise ValueError(f"{answers} for {outputs} outputs")


def fit_random(
    x: np.ndarray, y: np.ndarray, weights: np.ndarray, target: Target, share: float
) -> RandomTrees:
    """Fit extremely randomised trees with entropy to classes, or with squared error to numbers.

    Args:
        share: features that a question is chosen from, as a share of all.

    Source: Geurts, Ernst and Wehenkel (2006), Extremely randomized trees.
    """
    shared = {"max_features": share, "random_state": 0, "warm_start": True}
    numbers = isinstance(target, Reals)
    model = ExtraTreesRegressor(**shared) if numbers else ExtraTreesClassifier(criterion="entropy", **shared)
    for number in range(TREES_AT_A_TIME, RANDOM_TREES + 1, TREES_AT_A_TIME):
        check_time()
        model.set_params(n_estimators=number).fit(x, y, weights)
    trees = [each.tree_ for each in model.estimators_]
    nodes = _nodes(trees)
    of_leaves = np.concatenate([tree.value[tree.feature < 0, 0] for tree in trees])
    if numbers:
        return RandomTrees(**nodes, answers=of_leaves)
    answers = np.zeros((len(of_leaves), target.outputs), np.float32)  # leaves are many
    answers[:, model.classes_] = of_leaves
    return RandomTrees(**nodes, answers=answers)


def fit_boosted(
    x: np.ndarray, y: np.ndarray, weights: np.ndarray, target: Target, depth: int
) -> BoostedTrees:
    """Fit gradient boosting with log loss to classes, or with squared error to numbers.

    Args:
        depth: most questions from the root of a tree to a leaf.

    Source: Friedman (2002), Stochastic gradient boosting.
    """
    trees = max(MIN_TREES, min(MAX_TREES, ALL_TREES // target.outputs))
    shared = {"n_estimators": trees, "learning_rate": RATE, "subsample": SHARE, "max_features": "sqrt"}
    shared |= {"max_depth": depth, "init": "zero", "random_state": 0}
    shared["min_weight_fraction_leaf"] = MIN_WEIGHT if np.ptp(weights) > 0 else 0.0
    if isinstance(target, Reals):
        numbers = (y - target.centre) / target.spread
        model = GradientBoostingRegressor(**shared).fit(x, numbers, weights, lambda *_: check_time())
        return _joined([(model, [0])], np.array([target.centre]), target.spread)
    if isinstance(target, ClassSets):
        each = zip(y.T, weights.T, range(target.outputs), strict=True)
        parts = [_classifier(shared, x, has, weight, np.array([-1, k])) for has, weight, k in each]
        bias = np.where(y.all(0), -NEVER, np.where(y.any(0), 0.0, NEVER))
        return _joined([(model, outputs) for model, outputs in parts if model], bias)
    bias = np.full(target.outputs, NEVER)
    bias[np.unique(y)] = 0.0
    model, outputs = _classifier(shared, x, y, weights, np.arange(target.outputs))
    return _joined([(model, outputs)] if model else [], bias)


def _classifier(
    settings: dict[str, Any], x: np.ndarray, y: np.ndarray, weights: np.ndarray, outputs: np.ndarray
) -> tuple[Any, list[int]]:
    """Return a fitted classifier, or None of a single class, and the output of each column of its trees."""
    present = np.unique(y).astype(int)
    if len(present) == 1:
        return None, []
    model = GradientBoostingClassifier(**settings).fit(x, y, weights, lambda *_: check_time())
    columns = present[1:] if len(present) == 2 else present  # of two: the logit of the second class
    return model, [int(outputs[each]) for each in columns]


def _joined(models: list[tuple[Any, list[int]]], bias: np.ndarray, scale: float = 1.0) -> BoostedTrees:
    """Return the trees of some models as arrays, with answers multiplied by a scale."""
    found = [
        (each.tree_, output)
        for model, outputs in models
        for row in model.estimators_
        for each, output in zip(row, outputs, strict=True)
    ]
    trees = [tree for tree, _ in found]
    return BoostedTrees(
        **_nodes(trees),
        value=_of_nodes(trees, "value", np.float64) * RATE * scale,
        output=np.array([output for _, output in found], dtype=np.int64),
        bias=bias.astype(np.float64),
    )


def _nodes(trees: list[Any]) -> dict[str, np.ndarray]:
    """Return the arrays of ``Trees``, of trees of scikit-learn."""
    sizes = np.array([tree.node_count for tree in trees], dtype=np.int64)
    root = sizes.cumsum() - sizes
    shift = np.repeat(root, sizes)
    return {
        "feature": _of_nodes(trees, "feature", np.int64),
        "threshold": _of_nodes(trees, "threshold", np.float64),
        "left": _of_nodes(trees, "children_left", np.int64) + shift,
        "right": _of_nodes(trees, "children_right", np.int64) + shift,
        "root": root,
    }


def _of_nodes(trees: list[Any], name: str, kind: type) -> np.ndarray:
    """Return one number of every node of some trees."""
    parts = [getattr(tree, name).reshape(tree.node_count).astype(kind) for tree in trees]
    return np.concatenate(parts) if parts else np.empty(0, dtype=kind)


@dataclass(frozen=True)
class UnsavedModel:
    """A fitted classifier; the class that it predicts has the score 1, and all others have 0."""

    classifier: Any
    classes: int

    def scores(self, x: Matrix) -> np.ndarray:
        """Return the scores (rows, K)."""
        return np.eye(self.classes)[self.classifier.predict(x)]


def fit_with(make: Callable[[Any], Any]) -> Callable[..., UnsavedModel]:
    """Return a function that fits what ``make`` returns for a setting; weights of rows do not count."""

    def fit(x: Matrix, y: np.ndarray, weights: np.ndarray, target: Target, setting: Any) -> UnsavedModel:
        return UnsavedModel(make(setting).fit(x, y), target.outputs)

    return fit


def fit_histograms(x: Matrix, y: np.ndarray, weights: np.ndarray, target: Target, trees: int) -> UnsavedModel:
    """Fit gradient boosting on histograms to classes; weights of rows do not count.

    Of more than 10,000 rows scikit-learn holds out some to stop early, which takes two rows of every class.
    """
    alone = np.unique(y, return_counts=True)[1].min() == 1
    stopping = False if alone else "auto"
    model = HistGradientBoostingClassifier(max_iter=trees, early_stopping=stopping, random_state=0)
    return UnsavedModel(model.fit(x, y), target.outputs)


def logistic(strength: float) -> LogisticRegression:
    """Return logistic regression, given its inverse strength of regularisation."""
    return LogisticRegression(C=strength, max_iter=ITERATIONS)


def logistic_on_first(setting: tuple[int, float]) -> Any:
    """Return logistic regression on the first features, given their number and an inverse strength."""
    number, strength = setting
    return make_pipeline(FunctionTransformer(lambda x: x[:, :number]), logistic(strength))
