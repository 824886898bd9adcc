"""Simple methods for few_labels.py: on labels alone, and with statistics of all sequences.

They are the package's own, chosen on validation as in ``fit``. Latent directions are added here, since
self-pretraining should not be compared with methods that know less than it does.
"""

import copy
import time
import warnings
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import torch
from sklearn.decomposition import TruncatedSVD
from sklearn.exceptions import ConvergenceWarning

from selfpretrain.data.dataset import SequenceDataset
from selfpretrain.data.spec import PositionClasses, SequenceSpec
from selfpretrain.estimators import leaderboard
from selfpretrain.estimators.in_memory import InMemoryTask
from selfpretrain.estimators.search import fold_data
from selfpretrain.estimators.simple import SimpleMethods, SimplePredictor, candidates_for
from selfpretrain.tasks.simple.cohesion import CohesionNumbers, CohesionWindows
from selfpretrain.tasks.simple.features import Features, Matrix
from selfpretrain.tasks.simple.methods import LINEAR, LOGISTIC, Method

DIRECTIONS = 100
MAX_SEQUENCES = 10_000
"""Sequences on which the directions are measured."""


@dataclass(frozen=True)
class Simple:
    """A fitted simple method: its score on validation, its predictions, and whether it used all sequences."""

    name: str
    validation: tuple[float, float]
    predictions: list[Any]
    seconds: float
    unlabelled: bool


@dataclass
class Latent(Features):
    """The directions in which features vary most over all sequences, labelled or not (LSA)."""

    inner: Features
    directions: TruncatedSVD | None = None
    scale: np.ndarray = field(default_factory=lambda: np.ones(1))

    @property
    def name(self) -> str:
        """What it is."""
        return f"{DIRECTIONS} directions of {self.inner.name}"

    def measure(self, everything: SequenceDataset) -> None:
        """Find the directions; they depend on no label, so that once is enough."""
        if self.directions is not None:
            return
        rows = np.random.RandomState(0).permutation(len(everything))[:MAX_SEQUENCES]
        some = everything.take(torch.from_numpy(np.sort(rows)))
        self.inner.fit(some)
        x = self.inner.transform(some)
        most = min(DIRECTIONS, x.shape[1] - 1)
        self.directions = TruncatedSVD(most, random_state=0).fit(x)
        self.scale = self.directions.transform(x).std(0).clip(min=1e-9)

    def fit(self, examples: SequenceDataset) -> None:
        """Do nothing: ``measure`` does it all."""

    def transform(self, examples: SequenceDataset) -> Matrix:
        """Return a dense matrix, one column per direction."""
        assert self.directions is not None
        return np.asarray(self.directions.transform(self.inner.transform(examples)) / self.scale)


def simple_methods(reader: Any, Z: list[Any]) -> list[Simple]:
    """Fit every suitable simple method on the task of a fitted estimator, and predict Z."""
    data = reader.task_.data()
    held = fold_data(data, reader.random_state)
    folds = [*map(InMemoryTask, held)] or [reader.task_]
    pairs = [(_labelled(fold.load("train")), _labelled(fold.load("val"))) for fold in folds]
    quality = partial(leaderboard.quality, reader.predictor_.output)
    everything = reader.task_.load("train")
    methods = SimpleMethods(data.form, pairs, everything, leaderboard.answers, quality)
    labelled = data.whole.take(torch.from_numpy(np.flatnonzero(np.isin(data.split, (0, 1)))))
    labelled = _labelled(labelled)
    found = []
    for method in [*candidates_for(data.form, labelled), *_latent(data.form, labelled)]:
        start = time.process_time()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # as in fit
            candidate = methods.refitted(methods.validated(method), labelled)
        seconds = time.process_time() - start
        unlabelled = isinstance(candidate.model.features, Latent | CohesionWindows | CohesionNumbers)
        predicted = _predictions(reader, candidate.model, Z)
        found.append(Simple(candidate.model.name, quality(candidate.answers), predicted, seconds, unlabelled))
    return found


def _latent(form: SequenceSpec, labelled: SequenceDataset) -> list[Method]:
    """Return the directions of every suitable kind of features; of positions there would be too many rows."""
    if isinstance(form.target, PositionClasses):
        return []
    found = [Latent(each.features()) for each in candidates_for(form, labelled) if not each.boosted]
    return [Method(partial(copy.copy, each), LINEAR, LOGISTIC) for each in found]


def _predictions(reader: Any, model: SimplePredictor, Z: list[Any]) -> list[Any]:
    """Return what the estimator predicts if a simple method is what it kept."""
    reader.simple_ = (model,)
    return list(reader.predict(Z))


def _labelled(examples: SequenceDataset) -> SequenceDataset:
    return examples.take(examples.labelled.nonzero()[:, 0])
