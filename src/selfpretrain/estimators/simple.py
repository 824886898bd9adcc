"""Simple methods as candidates of ``fit``, and predictors of one or of several, alone or with a network.

They are scored on the same validation examples as networks. The setting of a method, the strength of
regularisation or the depth of trees, is chosen there, and the chosen model is fitted again on all labelled
examples, those of validation included. Models err on different examples, and their average may be better than
each of them.
"""

import math
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import torch
from scipy.special import expit, softmax
from sklearn.exceptions import ConvergenceWarning
from threadpoolctl import threadpool_limits

from ..data.dataset import SequenceDataset
from ..data.moments import fit_target
from ..data.spec import Reals, SequenceSpec
from ..system.files import Json
from ..system.time_limit import TimeIsUp, check_time, until
from ..tasks.simple.cohesion import CohesionWindows
from ..tasks.simple.features import Features, Matrix, State
from ..tasks.simple.methods import (
    BOOSTED,
    CALIBRATED,
    LINEAR,
    MAX_DENSE,
    RANDOM,
    Method,
    ModelKind,
    features_named,
    simple_methods,
)
from ..tasks.simple.models import BoostedTrees, LinearModel, RandomTrees, SavedModel
from ..tasks.simple.ridge import RidgeModel
from ..tasks.simple.symbols import SymbolFeatures, Windows
from ..training.train import Stop, never
from .predictor import Output, Predictor

MAX_EXAMPLES = 20_000
"""Most labelled examples to fit a simple method on, if its features are symbols; else ``MAX_DENSE``."""
AT_A_TIME = 2_000  # most sequences whose features are in memory at a time where they are predicted
MAX_MEASURED = 200  # most labelled sequences on which it is measured whether counts of n-grams help
AVERAGED = 3  # most simple methods in an average
MIN_AVOIDED = 0.025  # share of the errors made without these counts that they must avoid
MODELS: dict[str, tuple[type[SavedModel], ModelKind]] = {
    LinearModel.kind: (LinearModel, LINEAR),
    RidgeModel.kind: (RidgeModel, CALIBRATED),
    BoostedTrees.kind: (BoostedTrees, BOOSTED),
    RandomTrees.kind: (RandomTrees, RANDOM),
}
"""Kind of a saved model -> its class, and what it is in the list of simple methods."""

Answers = tuple[np.ndarray, np.ndarray]
"""True values and outputs, as the metrics of an estimator take them: a row per example or position."""
Folds = Sequence[tuple[SequenceDataset, SequenceDataset]]
"""Labelled training and validation examples; one pair, or one for every fold."""


@dataclass(frozen=True)
class SimplePredictor:
    """A linear model or trees on features, with the methods of ``Predictor`` that predict."""

    form: SequenceSpec
    features: Features
    model: SavedModel

    @property
    def name(self) -> str:
        """Return what it is, e.g. "logistic regression on 1-4-grams"."""
        return MODELS[self.model.kind][1].on(self.features, self.form.target)

    @property
    def output(self) -> Output:
        """Return what is predicted."""
        return self.form.target.kind

    @property
    def parameters(self) -> int:
        """Return the number of weights."""
        return self.model.parameters

    def probabilities(self, data: SequenceDataset) -> np.ndarray:
        """Return class probabilities (n, K), or predicted numbers (n, 1)."""
        parts = [data.take(rows) for rows in torch.arange(len(data)).split(AT_A_TIME)]
        scores = np.concatenate([self.model.scores(self.features.transform(part)) for part in parts])
        if self.output == "reals":
            return scores
        return np.asarray(expit(scores) if self.output == "sets" else softmax(scores, axis=1))

    def position_probabilities(self, data: SequenceDataset) -> list[np.ndarray]:
        """Return the probabilities (L, K) at the positions of every sequence."""
        ends = data.lengths[0].numpy().cumsum()
        return np.split(self.probabilities(data), ends[:-1])

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
        features = features_named(form, about["features"])
        prefix = "features."
        features.load({k.removeprefix(prefix): v for k, v in tensors.items() if k.startswith(prefix)})
        return cls(form, features, MODELS[about["model"]][0].load(tensors, form.target.outputs))


@dataclass(frozen=True)
class Options:
    """What the answers of a candidate were chosen from: the answers of every setting, on the same examples.

    Settings of a network are tried in two rounds: ``finalists`` go on to the second, the best of the first,
    and the best of another kind. The better one is kept, or their average.
    """

    answers: Sequence[Answers]
    first: np.ndarray | None = None  # (n,) whether an example was in the first round; None: there is one
    kinds: Sequence[Any] = ()  # kind of every setting
    finalists: int = 1


@dataclass(frozen=True)
class Candidate:
    """A trained model, its answers on validation examples that it was not trained on, and its options.

    Args:
        refit: returns a model with the setting that was chosen, fitted on other examples; None: it was done,
            or is not needed.
    """

    name: str
    model: "Answering"
    answers: Answers
    seconds: float
    parameters: int
    options: Options | None = None
    refit: Callable[[SequenceDataset], SimplePredictor] | None = None


@contextmanager
def _one_thread() -> Iterator[None]:
    """Fit reproducibly: several threads add up in any order. A fit stopped early is still a candidate."""
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        yield


def finite(found: Answers) -> bool:
    """Return whether all outputs are finite numbers."""
    return bool(np.isfinite(found[1]).all())


@dataclass(frozen=True)
class SimpleMethods:
    """What all simple methods of a fit share.

    Args:
        answer: returns the ``Answers`` of a model on labelled examples.
        quality: returns the score of answers and, for equal ones, a second one; larger is better.
    """

    form: SequenceSpec
    folds: Folds
    everything: SequenceDataset  # all training sequences, labelled or not
    answer: Callable[[Any, SequenceDataset], Answers]
    quality: Callable[[Answers], tuple[float, float]]
    class_weights: tuple[float, ...] = ()  # (K,) weights of classes in the loss; empty: equal weights
    stop: Stop = never  # whether to stop; then methods that are not validated are given up

    def candidates(self, labelled: SequenceDataset, begin: float, end: float) -> Iterator[Candidate]:
        """Validate every suitable method that the time allows, and yield each when that is done.

        Args:
            labelled: all labelled examples, by which methods are suitable.
            begin, end: times of ``time.monotonic``: no method is begun after the first, and one that is not
                validated by the second is given up.
        """
        for method in candidates_for(self.form, labelled):
            if time.monotonic() < begin and not self.stop():
                found = self.validated(method, end)
                if found is not None:
                    yield found

    def validated(self, method: Method, end: float = math.inf) -> Candidate | None:
        """Choose a setting of a method on the folds; the model is that of the last fold.

        It is None if validation has not finished at ``end``, or when asked to stop.
        """
        start = time.monotonic()
        try:
            with until(end, self.stop), _one_thread():
                measured, tried = self._tried(method)
        except TimeIsUp:
            return None
        sound = [setting for setting, (answers, _) in tried.items() if finite(answers)]
        best = max(sound or tried, key=lambda setting: self.quality(tried[setting][0]))
        answers, model = tried[best]
        model = replace(model, features=model.features.forgetful())
        return Candidate(
            model.name,
            model,
            answers,
            time.monotonic() - start,
            model.parameters,
            Options([tried[setting][0] for setting in sound]),
            partial(self._refitted, method, measured, best),
        )

    def refitted(self, found: Candidate, labelled: SequenceDataset, end: float = math.inf) -> Candidate:
        """Fit what was validated on all labelled examples, unless the time is up or it is asked to stop."""
        assert found.refit is not None
        start = time.monotonic()
        try:
            with until(end, self.stop), _one_thread():
                check_time()
                model = found.refit(labelled)
        except TimeIsUp:
            return found
        seconds = found.seconds + time.monotonic() - start
        return replace(found, model=model, seconds=seconds, parameters=model.parameters, refit=None)

    def usual(self, labelled: SequenceDataset, begin: float = math.inf) -> tuple[SimplePredictor, ...]:
        """Fit the first of the suitable methods, each with the setting in the middle, to be averaged.

        Args:
            begin: time of ``time.monotonic`` after which only the first is begun.
        """
        found: list[SimplePredictor] = []
        for method in candidates_for(self.form, labelled)[:AVERAGED]:
            if found and (time.monotonic() > begin or self.stop()):
                break
            settings = method.settings(self.form.target)
            measured = method.measured(self.everything)
            with _one_thread():
                found.append(self._refitted(method, measured, settings[len(settings) // 2], labelled))
        return tuple(found)

    def _tried(self, method: Method) -> tuple[Features, dict[Any, tuple[Answers, SimplePredictor]]]:
        """Return features without what needs labels; of every setting answers on all folds, and a model."""
        measured = method.measured(self.everything)
        settings = method.settings(self.form.target)
        answers: dict[Any, list[Answers]] = {setting: [] for setting in settings}
        models: dict[Any, SimplePredictor] = {}
        for whole, val in self.folds:
            fitting = self._features(method, measured, whole)
            for setting in settings:
                check_time()
                models[setting] = self._fit(method, *fitting, setting)
                answers[setting].append(self.answer(models[setting], val))
        tried = {}
        for setting, of_folds in answers.items():
            y_true, outputs = zip(*of_folds, strict=True)
            tried[setting] = (np.concatenate(y_true), np.concatenate(outputs)), models[setting]
        return measured, tried

    def _refitted(
        self, method: Method, measured: Features, setting: Any, labelled: SequenceDataset
    ) -> SimplePredictor:
        features, x, some = self._features(method, measured, labelled)
        return self._fit(method, features.forgetful(), x, some, setting)

    def _features(
        self, method: Method, measured: Features, examples: SequenceDataset
    ) -> tuple[Features, Matrix, SequenceDataset]:
        """Return fitted features, their matrix, and the examples that they are fitted on."""
        some = _at_most(method, examples)
        features = measured.fitted(some)
        return features, features.transform(some), some

    def _fit(
        self, method: Method, features: Features, x: Matrix, examples: SequenceDataset, setting: Any
    ) -> SimplePredictor:
        form = self.form
        if isinstance(form.target, Reals):  # folds do not know the labels of their validation
            form = replace(form, target=fit_target(form.target, examples.targets.numpy()))
        model = method.fitted(form, x, examples, setting, self.class_weights)
        assert isinstance(model, SavedModel)  # others are not saved
        return SimplePredictor(self.form, features, model)


def counts_help(methods: SimpleMethods, labelled: SequenceDataset, end: float = math.inf) -> bool:
    """Return whether counts of n-grams in all sequences help logistic regression to label positions.

    With and without them it is fitted on each half of at most ``MAX_MEASURED`` labelled sequences, and scored
    on the other. They help if they avoid a share of ``MIN_AVOIDED`` of its errors, and this is known by
    ``end``.
    """
    by_features = {each.features: each for each in candidates_for(methods.form, labelled)}
    if CohesionWindows not in by_features or len(labelled) < 2:
        return False
    some = labelled.take(torch.arange(min(MAX_MEASURED, len(labelled))))
    first, second = (some.take(torch.arange(start, len(some), 2)) for start in (0, 1))
    halved = replace(methods, folds=[(first, second), (second, first)])
    found = [halved.validated(by_features[kind], end) for kind in (Windows, CohesionWindows)]
    scores = [methods.quality(each.answers)[0] for each in found if each]
    if len(scores) < len(found):
        return False
    without, with_counts = scores
    return with_counts - without > MIN_AVOIDED * (1 - without)


def candidates_for(form: SequenceSpec, labelled: SequenceDataset) -> list[Method]:
    """Return the methods that suit labelled examples; none for pairs of sequences."""
    if labelled.views > 1:
        return []
    return [each for each in simple_methods(form, len(labelled), labelled.lengths) if each.candidate]


def _at_most(method: Method, examples: SequenceDataset) -> SequenceDataset:
    """Return the examples, or a fixed random subset of as many as the method is fitted on."""
    most = MAX_EXAMPLES if isinstance(method.features(), SymbolFeatures) else MAX_DENSE
    if len(examples) <= most:
        return examples
    rows = np.random.RandomState(0).permutation(len(examples))[:most]
    return examples.take(torch.from_numpy(np.sort(rows)))


@dataclass(frozen=True)
class AveragePredictor:
    """Several models, whose probabilities or numbers are averaged."""

    members: "tuple[Answering, ...]"
    shares: tuple[float, ...]  # weight of every member

    @property
    def form(self) -> SequenceSpec:
        """Return the form of the sequences."""
        return self.members[0].form

    @property
    def output(self) -> Output:
        """Return what is predicted."""
        return self.members[0].output

    def probabilities(self, data: SequenceDataset) -> np.ndarray:
        """Return class probabilities (n, K), or predicted numbers (n, 1)."""
        parts = [member.probabilities(data) for member in self.members]
        return np.average(parts, axis=0, weights=self.shares)

    def position_probabilities(self, data: SequenceDataset) -> list[np.ndarray]:
        """Return the probabilities (L, K) at the positions of every sequence."""
        parts = [member.position_probabilities(data) for member in self.members]
        in_turn = zip(*parts, strict=True)
        return [np.average(of_sequence, axis=0, weights=self.shares) for of_sequence in in_turn]


Answering = Predictor | SimplePredictor | AveragePredictor
"""What predicts: the network, a simple method, or several of these."""


def average_answers(parts: Sequence[Answers], shares: Sequence[float] | None = None) -> Answers:
    """Return the answers of the average on the same examples, from the answers of its members.

    Args:
        shares: weight of every member; None: all alike.
    """
    y_true = parts[0][0]
    return y_true, np.average([outputs for _, outputs in parts], axis=0, weights=shares)
