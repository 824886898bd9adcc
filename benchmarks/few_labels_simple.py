"""Simple methods for few_labels.py: on labels alone, and with statistics of all sequences.

They are the package's own, chosen on validation as in ``fit``. Latent directions, and boosting for tunes, are
added here, since self-pretraining should not be compared with methods that know less than it does.
"""

import copy
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import torch
from few_labels_data import HOLD, REST
from sklearn.decomposition import TruncatedSVD
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GroupKFold, cross_val_score

from selfpretrain.data.dataset import SequenceDataset
from selfpretrain.data.spec import PositionClasses, SequenceSpec
from selfpretrain.estimators import leaderboard
from selfpretrain.estimators.in_memory import in_memory_task
from selfpretrain.estimators.search import fold_data
from selfpretrain.estimators.simple import SimpleMethods, SimplePredictor, suitable
from selfpretrain.estimators.simple_features import Cohesion, Features, Matrix, State
from selfpretrain.tasks.inspect.baselines import LOGISTIC

DIRECTIONS = 100
MOST_SEQUENCES = 10_000
"""Sequences on which the directions are measured."""
NOTES = 8
"""Notes on either side of a note."""
CLOCKS = (4, 6, 8, 12, 16, 24, 32)
"""Steps after which the onsets of notes are counted anew."""


@dataclass(frozen=True)
class Simple:
    """A fitted simple method: its score on validation, its predictions, and whether it used all sequences."""

    name: str
    validation: float
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
        rows = np.random.RandomState(0).permutation(len(everything))[:MOST_SEQUENCES]
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

    def state(self) -> State:
        """Return nothing: it is not saved."""
        return {}

    def load(self, state: State) -> None:
        """Do nothing."""


def simple_methods(reader: Any, Z: list[Any]) -> list[Simple]:
    """Fit every suitable simple method on the task of a fitted estimator, and predict Z."""
    data = reader.task_.data()
    held = fold_data(data, reader.random_state)  # referenced until the end: tasks find them by their digests
    folds = [in_memory_task(each) for each in held] or [reader.task_]
    pairs = [(_labelled(fold.load("train")), _labelled(fold.load("val"))) for fold in folds]
    score = partial(leaderboard.score, reader.predictor_.output)
    everything = reader.task_.load("train")
    methods = SimpleMethods(data.form, pairs, everything, leaderboard.answers, score)
    labelled = data.whole.take(torch.from_numpy(np.flatnonzero(np.isin(data.split, (0, 1)))))
    labelled = _labelled(labelled)
    found = []
    for make, strengths in [*suitable(data.form, labelled), *_latent(data.form, labelled)]:
        start = time.process_time()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # as in fit
            candidate = methods.candidate(make, strengths, labelled)
        seconds = time.process_time() - start
        unlabelled = isinstance(candidate.model.features, Latent | Cohesion)
        predicted = _predictions(reader, candidate.model, Z)
        found.append(Simple(candidate.model.name, score(candidate.answers), predicted, seconds, unlabelled))
    return found


def _latent(form: SequenceSpec, labelled: SequenceDataset) -> list[tuple[Callable[[], Features], Any]]:
    """Return the directions of every suitable kind of features; of positions there would be too many rows."""
    if isinstance(form.target, PositionClasses):
        return []
    found = [Latent(make()) for make, _ in suitable(form, labelled)]
    return [(partial(copy.copy, each), LOGISTIC) for each in found]


def _predictions(reader: Any, model: SimplePredictor, Z: list[Any]) -> list[Any]:
    """Return what the estimator predicts if a simple method is what it kept."""
    reader.simple_ = model
    return list(reader.predict(Z))


def _labelled(examples: SequenceDataset) -> SequenceDataset:
    return examples.take(examples.labelled.nonzero()[:, 0])


def boosted_notes(X: list[Any], y: list[Any], Z: list[Any]) -> Simple:
    """Fit boosting on the notes around a note, and on its place on clocks that run from the beginning."""
    start = time.process_time()
    rows = np.concatenate([_notes_of(x) for x in X])
    known = np.array([label for labels in y for label in labels if label is not None])
    tune = np.repeat(np.arange(len(X)), [sum(label is not None for label in labels) for labels in y])
    model = HistGradientBoostingClassifier(random_state=0)
    score = cross_val_score(model, rows, known, groups=tune, cv=GroupKFold(5)).mean()
    model.fit(rows, known)
    predicted = []
    for x in Z:
        labels = np.full(len(x), "note", dtype=object)
        labels[_onsets(x)] = model.predict(_notes_of(x))
        predicted.append(labels)
    name = f"boosting on {2 * NOTES + 1} notes and onsets"
    return Simple(name, float(score), predicted, time.process_time() - start, False)


def _onsets(x: list[int]) -> np.ndarray:
    """Return the steps at which a note begins."""
    return np.flatnonzero(np.asarray(x) > REST)


def _notes_of(x: list[int]) -> np.ndarray:
    """Return the features of the notes of a tune: (notes, features)."""
    steps = np.asarray(x)
    onsets = _onsets(x)
    events = np.append(np.flatnonzero(steps != HOLD), len(steps))
    durations = events[np.searchsorted(events, onsets) + 1] - onsets
    pitch = steps[onsets].astype(float)
    around = []
    for offset in range(-NOTES, NOTES + 1):
        other = np.arange(len(onsets)) + offset
        inside = (other >= 0) & (other < len(onsets))
        other = other.clip(0, len(onsets) - 1)
        around.append(np.where(inside, pitch[other] - pitch, np.nan))
        around.append(np.where(inside, durations[other], np.nan))
    clocks = [onsets % clock for clock in CLOCKS]
    return np.stack([pitch, *around, *clocks], axis=1)
