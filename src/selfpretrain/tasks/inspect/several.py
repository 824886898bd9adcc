"""Simple methods where an example has several answers: a set of classes, or a class at every position."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from ...data.examples import Examples
from ...data.schema import Form, PositionClasses, Split, Tokens

Splits = Mapping[Split, Examples]
STRENGTHS = (0.01, 1.0, 100.0)
"""Inverse regularisation strengths that are tried."""
AROUND = 4
"""Positions on either side that a position is told from."""
MOST = 50_000
"""Positions to fit on, at most."""
COMMONEST = "commonest class"


def scores_of_several(
    form: Form, splits: Splits, described: Callable[[Form, Splits], tuple[str, dict[Split, Any]]]
) -> dict[str, float]:
    """Micro F1 of sets, or accuracy over positions, of the commonest answer and of logistic regression.

    Args:
        described: features of whole examples, and what they are called.
    """
    if isinstance(form.target, PositionClasses):
        kind = f"the {AROUND} positions on either side"
        y = {split: _known(examples) for split, examples in splits.items()}
        x = {split: _windows(form, examples)[_at(examples)] for split, examples in splits.items()}
    else:
        y = {split: examples.targets.numpy().astype(np.int64) for split, examples in splits.items()}
        kind, x = described(form, splits)
    chosen = np.random.RandomState(0).permutation(len(y["train"]))[:MOST]
    common = _commonest(y["train"], y["test"])
    told = _logistic(x | {"train": x["train"][chosen]}, y | {"train": y["train"][chosen]})
    return {COMMONEST: _score(y["test"], common), f"logistic regression on {kind}": told}


def _commonest(train: np.ndarray, test: np.ndarray) -> np.ndarray:
    """One answer for all: of sets the classes that half of the examples have, or else the commonest."""
    if train.ndim == 1:
        return np.full(len(test), np.bincount(train).argmax())
    shares = train.mean(0)
    return np.tile((shares >= min(0.5, shares.max())).astype(np.int64), (len(test), 1))


def _logistic(x: Mapping[Split, Any], y: Mapping[Split, np.ndarray]) -> float:
    from sklearn.linear_model import LogisticRegression
    from sklearn.multiclass import OneVsRestClassifier

    several = y["train"].ndim > 1
    fits = []
    for strength in STRENGTHS:
        method = LogisticRegression(C=strength, max_iter=100)
        fits.append((OneVsRestClassifier(method) if several else method).fit(x["train"], y["train"]))
    best = max(fits, key=lambda fit: _score(y["val"], fit.predict(x["val"])))
    return _score(y["test"], best.predict(x["test"]))


def _score(right: np.ndarray, told: np.ndarray) -> float:
    if right.ndim == 1:
        return float((right == told).mean())
    both = right.sum() + told.sum()
    return float(2 * (right * told).sum() / both) if both else 1.0


def _at(examples: Examples) -> np.ndarray:
    """(T,) which positions, end to end, have a known class."""
    rows = zip(examples.targets.numpy(), examples.lengths[0].tolist(), strict=True)
    return np.concatenate([row[:length] >= 0 for row, length in rows])


def _known(examples: Examples) -> np.ndarray:
    """The known classes of all positions, end to end."""
    rows = zip(examples.targets.numpy(), examples.lengths[0].tolist(), strict=True)
    flat = np.concatenate([row[:length] for row, length in rows])
    return flat[flat >= 0].astype(np.int64)


def _windows(form: Form, examples: Examples) -> Any:
    """(T, features) every position with those around it; nothing beyond the ends of its sequence."""
    from scipy import sparse

    parts = []
    for row in range(len(examples)):
        values = examples.sequence(row)
        if isinstance(form.signal, Tokens):
            values = sparse.identity(form.signal.vocab, format="csr")[values.astype(np.int64)]
        else:
            centre, spread = np.array(form.signal.centre), np.array(form.signal.spread)
            values = sparse.csr_matrix((values - centre) / spread)
        n = values.shape[0]
        shifts = [sparse.eye(n, k=k, format="csr") @ values for k in range(-AROUND, AROUND + 1)]
        parts.append(sparse.hstack(shifts))
    return sparse.vstack(parts).tocsr()
