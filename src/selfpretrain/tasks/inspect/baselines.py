"""Simple methods worth knowing before a network is believed, and what they score on a task's test split.

They are fitted on labelled training examples, tuned on val and scored on test, in one thread and always with
the same outcome: accuracy in [0, 1] for classes, R2 for real numbers; see ``several`` for several answers.
"""

import warnings
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ...data.examples import Examples, generator
from ...data.schema import SPLITS, Classes, Form, Reals, Split, Tokens
from ...errors import DataError
from ..base import Task
from . import kernels
from .several import COMMONEST, scores_of_several

GRAMS = 4
"""Tokens in the longest run that is counted."""
FEATURES = 200_000
"""Different runs that are counted at most, the commonest ones."""
PIXELS = 4096
"""Values of the largest example that is looked at whole; longer ones are summarised."""
QUICK, PLACES = 60_000, 20_000
"""Examples to fit on, at most, for methods that take seconds; places times symbols, at most, told apart."""
LOGISTIC = (0.01, 0.1, 1.0, 10.0)
"""Inverse regularisation strengths that are tried with values."""
LOGISTIC_RUNS = (1.0, 10.0, 100.0)
"""The same with runs of tokens, whose weights are small."""
TREES = 50_000
"""Examples times classes up to which trees are boosted on what is known of any values."""
BOOSTED = (100, 300)
"""Numbers of boosted trees that are tried."""
MEAN, COPY = "mean", "copy of an overlapping training example"
GUESSES = (COMMONEST, MEAN, COPY)
"""Methods that learn nothing of what sequences hold."""
KERNELS = "ridge regression on kernels (MiniRocket)"
RIDGE = (0.1, 1.0, 10.0, 100.0, 1000.0)
"""Regularisation strengths of ridge regression that are tried."""

Features = Any
"""(n, features) numbers, dense or sparse."""
Splits = Mapping[Split, Examples]


def baseline_scores(task: Task, limit: int = 5000) -> dict[str, float]:
    """Scores of simple methods on all labelled test examples, by name of the method.

    Classes: the commonest class; logistic regression on runs of 1-4 tokens weighted by TF-IDF, or on
    standardised values; ridge regression on how often fixed kernels answer to values; the nearest neighbour,
    where sequences are equally long; one entry for each shortcut of the task. On ``QUICK`` examples:
    logistic regression on which symbol stands where, in short sequences of equal length; gradient boosting on
    the task's statistics, or on those of values where these are ``TREES`` at most. Reals: the mean, and ridge
    regression on the same features. Where test examples share positions with training examples, as
    overlapping windows of a recording do: the answer of the nearest.

    Args:
        limit: examples to fit on, and examples to tune on, at most, for all but quick methods.

    Raises:
        DataError: if a split has no labelled example.
    """
    from threadpoolctl import threadpool_limits

    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a fit cut short by its iteration limit is still a baseline
        splits = {split: _labelled(task, split, limit) for split in SPLITS}
        if not task.form.target.single:
            return scores_of_several(task.form, splits, _features)
        scores = _scores(task, task.form, splits)
        if isinstance(task.form.target, Classes):
            scores |= _quick(task, {split: _labelled(task, split, max(limit, QUICK)) for split in SPLITS})
        return scores | _copying(task.load("train"), splits["test"])


def _labelled(task: Task, split: Split, limit: int) -> Examples:
    examples = task.load(split)
    rows = examples.labelled.nonzero()[:, 0]
    if not len(rows):
        raise DataError(f"the {split} split has no labelled example")
    if split != "test" and len(rows) > limit:
        rows = rows[torch.randperm(len(rows), generator=generator("baseline", split))[:limit].sort().values]
    return examples.take(rows)


def _scores(task: Task, form: Form, splits: Splits) -> dict[str, float]:
    y = {split: examples.targets.numpy() for split, examples in splits.items()}
    kind, x = _features(form, splits)
    told = None if isinstance(form.signal, Tokens) else kernels.answers_above(splits)
    if isinstance(form.target, Reals):
        mean = np.full(len(y["test"]), y["train"].mean(dtype=np.float64))
        scores = {MEAN: _r2(mean, y["test"]), f"ridge regression on {kind}": _ridge(x, y)}
        return scores | ({} if told is None else {KERNELS: _ridge(_scaled(told), y)})
    commonest = np.full(len(y["test"]), np.bincount(y["train"]).argmax())
    scores = {COMMONEST: _accuracy(commonest, y["test"])}
    if len(np.unique(y["train"])) > 1:
        strengths = LOGISTIC_RUNS if isinstance(form.signal, Tokens) else LOGISTIC
        scores[f"logistic regression on {kind}"] = _logistic(x, y, strengths)
    if told is not None and len(np.unique(y["train"])) > 1:
        scores[KERNELS] = _ridge_classes(_scaled(told), y)
    if kind == "values":
        scores["nearest neighbour"] = _neighbour(x, y)
    return scores | {name: _shortcut(cue, splits, y) for name, cue in task.shortcuts().items()}


def _quick(task: Task, splits: Splits) -> dict[str, float]:
    """Methods that may see many examples."""
    y = {split: examples.targets.numpy() for split, examples in splits.items()}
    signal, longest = task.form.signal, max(int(examples.longest.max()) for examples in splits.values())
    least = min(int(examples.lengths.min()) for examples in splits.values())
    scores, several = {}, len(np.unique(y["train"])) > 1
    if isinstance(signal, Tokens) and least == longest and longest * signal.vocab <= PLACES and several:
        x = {split: _placed(examples, signal.vocab) for split, examples in splits.items()}
        scores["logistic regression on symbols at their places"] = _logistic(x, y, LOGISTIC)
    told = {split: task.statistics(examples) for split, examples in splits.items()}
    trees = len(y["train"]) * len(np.unique(y["train"]))
    if told["train"] is None and not isinstance(signal, Tokens) and trees <= TREES:
        told = {s: np.concatenate(_each_view(examples, _summary), axis=1) for s, examples in splits.items()}
    if told["train"] is not None and several:
        scores["gradient boosting on statistics"] = _boosted(told, y)
    return scores


def _placed(examples: Examples, vocab: int) -> Features:
    """(n, places * symbols) ones where a symbol stands at a place, of all views."""
    from scipy import sparse

    parts = []
    for view in range(examples.views):
        rows = np.stack(_sequences(examples, view)).astype(np.int64)
        columns = (np.arange(rows.shape[1]) * vocab + rows).reshape(-1)
        starts = np.arange(len(rows) + 1) * rows.shape[1]
        shape = (len(rows), rows.shape[1] * vocab)
        parts.append(sparse.csr_matrix((np.ones(len(columns)), columns, starts), shape=shape))
    return sparse.hstack(parts).tocsr()


def _boosted(x: Mapping[Split, Features], y: Mapping[Split, np.ndarray]) -> float:
    from sklearn.ensemble import HistGradientBoostingClassifier

    fits = [
        HistGradientBoostingClassifier(max_iter=trees, random_state=0).fit(x["train"], y["train"])
        for trees in BOOSTED
    ]
    best = max(fits, key=lambda fit: _accuracy(fit.predict(x["val"]), y["val"]))
    return _accuracy(best.predict(x["test"]), y["test"])


def _features(form: Form, splits: Splits) -> tuple[str, dict[Split, Features]]:
    """What the examples are described by, in words and in numbers."""
    if isinstance(form.signal, Tokens):
        return f"1-{GRAMS}-grams", _runs(splits, form.signal.vocab)
    lengths = torch.cat([examples.lengths.flatten() for examples in splits.values()])
    equal = int(lengths.min()) == int(lengths.max())
    whole = equal and int(lengths[0]) * form.signal.channels * form.views <= PIXELS
    look = _whole if whole else _summary
    x = {split: np.concatenate(_each_view(examples, look), axis=1) for split, examples in splits.items()}
    return ("values" if whole else "mean, sd, min, max"), _scaled(x)


def _scaled(x: Mapping[Split, Features]) -> dict[Split, Features]:
    centre, spread = x["train"].mean(0), x["train"].std(0)
    spread[spread < 1e-9] = 1.0
    return {split: (part - centre) / spread for split, part in x.items()}


def _each_view(examples: Examples, look: Callable[[np.ndarray], np.ndarray]) -> list[np.ndarray]:
    return [np.stack([look(s) for s in _sequences(examples, view)]) for view in range(examples.views)]


def _sequences(examples: Examples, view: int) -> list[np.ndarray]:
    return [examples.sequence(row, view) for row in range(len(examples))]


def _whole(values: np.ndarray) -> np.ndarray:
    return values.reshape(-1).astype(np.float64)


def _summary(values: np.ndarray) -> np.ndarray:
    values = values.astype(np.float64)
    return np.concatenate([values.mean(0), values.std(0), values.min(0), values.max(0)])


def _runs(splits: Splits, vocab: int) -> dict[Split, Features]:
    """Counts of runs of 1-4 tokens, weighted by TF-IDF; two views are joined by product and difference."""
    from scipy import sparse
    from sklearn.feature_extraction.text import TfidfTransformer

    views = range(splits["train"].views)
    known = _known([_codes(_sequences(splits["train"], v), vocab) for v in views])
    counts = {split: [_counts(_sequences(e, v), vocab, known) for v in views] for split, e in splits.items()}
    weigh = TfidfTransformer(sublinear_tf=True).fit(sparse.vstack(counts["train"]))
    x = {split: [weigh.transform(view) for view in parts] for split, parts in counts.items()}
    return {split: parts[0] if len(parts) == 1 else _joined(parts) for split, parts in x.items()}


def _joined(parts: list[Features]) -> Features:
    from scipy import sparse

    first, second = parts
    return sparse.hstack([first.multiply(second), abs(first - second)]).tocsr()


def _codes(sequences: list[np.ndarray], vocab: int) -> list[tuple[np.ndarray, np.ndarray]]:
    """For each length of run: its number, and the sequence it is in."""
    line = np.concatenate(sequences).astype(np.int64)
    owner = np.repeat(np.arange(len(sequences)), [len(s) for s in sequences])
    code, found = line, [(line, owner)]
    for n in range(2, GRAMS + 1):
        if vocab**n >= 2**63:
            break
        code = code[:-1] * vocab + line[n - 1 :]
        inside = owner[: len(code)] == owner[n - 1 :]
        found.append((code[inside], owner[: len(code)][inside]))
    return found


def _known(views: list[list[tuple[np.ndarray, np.ndarray]]]) -> list[np.ndarray]:
    """For each length of run: the numbers of those to count, rising."""
    found = [
        np.unique(np.concatenate([c for c, _ in runs]), return_counts=True)
        for runs in zip(*views, strict=True)
    ]
    counts = np.concatenate([count for _, count in found])
    least = np.sort(counts)[-FEATURES] + 1 if len(counts) > FEATURES else 0
    return [code[count >= least] for code, count in found]


def _counts(sequences: list[np.ndarray], vocab: int, known: list[np.ndarray], chunk: int = 2000) -> Features:
    """(n, runs) how often each known run occurs in each sequence."""
    from scipy import sparse

    parts = []
    for at in range(0, len(sequences), chunk):
        some = sequences[at : at + chunk]
        columns = []
        for (code, owner), codes in zip(_codes(some, vocab), known, strict=True):
            place = np.searchsorted(codes, code).clip(max=max(len(codes) - 1, 0))
            hit = codes[place] == code if len(codes) else np.zeros(len(code), dtype=bool)
            ones = np.ones(int(hit.sum()))
            columns.append(sparse.csr_matrix((ones, (owner[hit], place[hit])), shape=(len(some), len(codes))))
        parts.append(sparse.hstack(columns))
    return sparse.vstack(parts).tocsr()


def _logistic(
    x: Mapping[Split, Features], y: Mapping[Split, np.ndarray], strengths: tuple[float, ...]
) -> float:
    from sklearn.linear_model import LogisticRegression

    fits = [LogisticRegression(C=c, max_iter=100).fit(x["train"], y["train"]) for c in strengths]
    best = max(fits, key=lambda fit: _accuracy(fit.predict(x["val"]), y["val"]))
    return _accuracy(best.predict(x["test"]), y["test"])


def _neighbour(x: Mapping[Split, Features], y: Mapping[Split, np.ndarray]) -> float:
    from sklearn.neighbors import KNeighborsClassifier

    fit = KNeighborsClassifier(1, algorithm="brute").fit(x["train"], y["train"])
    return _accuracy(fit.predict(x["test"]), y["test"])


def _ridge(x: Mapping[Split, Features], y: Mapping[Split, np.ndarray]) -> float:
    from sklearn.linear_model import Ridge

    fits = [Ridge(alpha=alpha).fit(x["train"], y["train"]) for alpha in RIDGE]
    best = max(fits, key=lambda fit: _r2(fit.predict(x["val"]), y["val"]))
    return _r2(best.predict(x["test"]), y["test"])


def _ridge_classes(x: Mapping[Split, Features], y: Mapping[Split, np.ndarray]) -> float:
    from sklearn.linear_model import RidgeClassifier

    fits = [RidgeClassifier(alpha=alpha).fit(x["train"], y["train"]) for alpha in RIDGE]
    best = max(fits, key=lambda fit: _accuracy(fit.predict(x["val"]), y["val"]))
    return _accuracy(best.predict(x["test"]), y["test"])


def _shortcut(cue: Callable[[Examples], Tensor], splits: Splits, y: Mapping[Split, np.ndarray]) -> float:
    """Accuracy of answering with the commonest training class of the cue."""
    seen, asked = cue(splits["train"]).numpy(), cue(splits["test"]).numpy()
    answers = np.full(len(asked), np.bincount(y["train"]).argmax())
    for value in np.unique(seen):
        answers[asked == value] = np.bincount(y["train"][seen == value]).argmax()
    return _accuracy(answers, y["test"])


def _copying(train: Examples, test: Examples) -> dict[str, float]:
    """The score of copying, if there is anything to copy, from all of the training split."""
    train = train.take(train.labelled.nonzero()[:, 0])
    nearest = _overlapping(train, test)
    if not (nearest >= 0).any():
        return {}
    known, y = train.targets.numpy(), test.targets.numpy()
    real = train.targets.is_floating_point()
    otherwise = known.mean(dtype=np.float64) if real else np.bincount(known).argmax()
    answers = np.where(nearest >= 0, known[nearest], otherwise)
    return {COPY: (_r2 if real else _accuracy)(answers, y)}


def _overlapping(train: Examples, test: Examples) -> np.ndarray:
    """(n,) the training example that starts nearest to each test example, -1 if they share no position."""
    none = np.full(len(test), -1)
    if train.packed or train.views > 1 or train.flat.data_ptr() != test.flat.data_ptr():
        return none
    order = train.starts[0].argsort(stable=True).numpy()
    starts, lengths = train.starts[0].numpy()[order], train.lengths[0].numpy()[order]
    asked = test.starts[0].numpy()
    after = np.searchsorted(starts, asked)
    left, right = (after - 1).clip(min=0), after.clip(max=len(starts) - 1)
    near = np.where(np.abs(asked - starts[left]) <= np.abs(asked - starts[right]), left, right)
    gap = asked - starts[near]
    shared = np.where(gap >= 0, gap < lengths[near], -gap < test.lengths[0].numpy())
    return np.where(shared, order[near], none)


def _accuracy(answers: np.ndarray, y: np.ndarray) -> float:
    return float((answers == y).mean())


def _r2(answers: np.ndarray, y: np.ndarray) -> float:
    y = y.astype(np.float64)
    total = np.square(y - y.mean()).sum()
    return float(1 - np.square(answers - y).sum() / total) if total > 0 else float("nan")
