"""Simple methods that see the training sequences without a label, too, as pretraining does.

A comparison of self-pretraining with methods that see labelled sequences alone compares data, not methods.
"""

from collections.abc import Mapping, Sequence
from operator import itemgetter
from typing import Any

import numpy as np

from ...data.dataset import SequenceDataset
from ...data.spec import Classes, PositionClasses, SequenceSpec, Split, Tokens
from . import features
from .features import Matrix, Splits
from .simple_features import Cohesion

DIRECTIONS = (10, 100)
"""Numbers of directions in which features vary most over all sequences."""
WIDEST = 1_000
"""Most dense features for self-training, which fits a model some ten times."""
ALL = "all sequences"
"""End of the names of these methods."""

Method = tuple[str, Sequence[Any], dict[Split, Matrix], dict[Split, np.ndarray]]
"""Name, grid of models, features and labels of every split; -1 marks a sequence without a label."""


def methods(
    form: SequenceSpec, splits: Splits, everything: SequenceDataset, models: Sequence[Any], most: int
) -> list[Method]:
    """Return the methods that suit the data; none for pairs, numbers and sets of classes.

    Labels of positions: logistic regression on the symbols around a position and on how strongly neighbours
    belong together in all sequences. Classes: logistic regression on the directions in which n-grams, values
    or statistics vary most over all sequences; and on the features themselves, self-trained: fitted again and
    again with its own answers where it is sure of them.

    Args:
        splits: labelled examples of every split.
        everything: the labelled training examples, and after them those without a label.
        models: logistic regressions of several strengths.
        most: positions to fit on, where labels are of positions.

    Source: Yarowsky (1995) for self-training; Deerwester et al. (1990) for directions.
    """
    if form.views > 1 or len(everything) == len(splits["train"]):
        return []
    if isinstance(form.target, PositionClasses):
        return _of_positions(splits, everything, models, most) if isinstance(form.signal, Tokens) else []
    return _of_classes(form, splits, everything, models) if isinstance(form.target, Classes) else []


def best_of_both(scores: Mapping[str, float]) -> list[str]:
    """Return the best method that sees labelled sequences alone, and the best that sees all, if any does.

    Args:
        scores: name of a simple method -> score.
    """
    kinds = [[name for name in scores if name.endswith(ALL) == every] for every in (False, True)]
    return [max(names, key=lambda name: scores[name]) for names in kinds if names]


def _of_positions(
    splits: Splits, everything: SequenceDataset, models: Sequence[Any], most: int
) -> list[Method]:
    found = Cohesion()
    found.measure(everything)
    found.fit(splits["train"])
    x: dict[Split, Matrix] = {}
    y: dict[Split, np.ndarray] = {}
    for split, examples in splits.items():
        targets = examples.targets.numpy()
        inside = np.arange(targets.shape[1]) < examples.lengths[0].numpy()[:, None]
        known = targets[inside] >= 0
        x[split] = found.transform(examples)[known]
        y[split] = targets[inside][known].astype(np.int64)
    rows = np.random.RandomState(0).permutation(len(y["train"]))[:most]
    x["train"] = x["train"][rows]
    y["train"] = y["train"][rows]
    return [(f"logistic regression on {found.name}", models, x, y)]


def _of_classes(
    form: SequenceSpec, splits: Splits, everything: SequenceDataset, models: Sequence[Any]
) -> list[Method]:
    from scipy import sparse
    from sklearn.base import clone
    from sklearn.decomposition import TruncatedSVD
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import FunctionTransformer
    from sklearn.semi_supervised import SelfTrainingClassifier

    y = {split: examples.targets.numpy() for split, examples in splits.items()}
    if len(np.unique(y["train"])) < 2:
        return []
    number = len(y["train"])
    kind, x = features.sequence_features(form, {**splits, "train": everything})
    most = min(max(DIRECTIONS), *(size - 1 for size in x["train"].shape))
    svd = TruncatedSVD(most, random_state=0).fit(x["train"])
    directions = {split: svd.transform(part) for split, part in x.items()}
    directions["train"] = directions["train"][:number]
    first = [FunctionTransformer(itemgetter((slice(None), slice(k)))) for k in DIRECTIONS]
    on_first = [make_pipeline(some, clone(model)) for some in first for model in models]
    found: list[Method] = [(f"logistic regression on directions of {kind}, {ALL}", on_first, directions, y)]
    if sparse.issparse(x["train"]) or x["train"].shape[1] <= WIDEST:
        trained = [SelfTrainingClassifier(clone(model)) for model in models]
        every = {**y, "train": np.concatenate([y["train"], np.full(len(everything) - number, -1)])}
        found.append((f"self-trained logistic regression on {kind}, {ALL}", trained, x, every))
    return found
