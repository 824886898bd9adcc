"""Features of sequences for simple baselines: n-grams, one-hot tokens, values, summary statistics."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch

from ...data.dataset import SequenceDataset
from ...data.spec import SequenceSpec, Split, Tokens

GRAMS = 4
"""Length of the longest n-gram."""
FEATURES = 200_000
"""Maximum number of n-gram features; the most frequent ones are kept."""
PIXELS = 4096
"""Maximum values per example to use all of them; longer examples are summarised."""
AROUND = 4
"""Context: neighbours on either side of a position."""

Matrix = Any
"""(n, features) matrix, dense or sparse."""
Splits = Mapping[Split, SequenceDataset]
Runs = list[tuple[np.ndarray, np.ndarray]]
"""For n = 1, 2, ...: the codes of all n-grams, and the index of the sequence that contains each."""


def of_sequences(form: SequenceSpec, splits: Splits) -> tuple[str, dict[Split, Matrix]]:
    """Return the name of the features that suit the signal, and the features of every split."""
    if isinstance(form.signal, Tokens):
        return f"1-{GRAMS}-grams", grams(splits, form.signal.vocab)
    lengths = torch.cat([examples.lengths.flatten() for examples in splits.values()])
    equal = int(lengths.min()) == int(lengths.max())
    if equal and int(lengths[0]) * form.signal.channels * form.views <= PIXELS:
        return "values", standardised({split: values(examples) for split, examples in splits.items()})
    return "mean, sd, min, max", standardised({split: summary(e) for split, e in splits.items()})


def standardised(x: Mapping[Split, np.ndarray]) -> dict[Split, np.ndarray]:
    """Shift and scale every column to mean 0 and standard deviation 1 on train."""
    centre, spread = x["train"].mean(0), x["train"].std(0)
    spread[spread < 1e-9] = 1.0
    return {split: (part - centre) / spread for split, part in x.items()}


def values(examples: SequenceDataset) -> np.ndarray:
    """Return (n, positions * channels) values of equally long sequences, view after view."""
    return _each_view(examples, lambda sequence: sequence.reshape(-1).astype(np.float64))


def summary(examples: SequenceDataset) -> np.ndarray:
    """Return (n, 4 * channels) mean, standard deviation, minimum and maximum, view after view."""
    return _each_view(examples, _summary)


def _summary(sequence: np.ndarray) -> np.ndarray:
    sequence = sequence.astype(np.float64)
    return np.concatenate([sequence.mean(0), sequence.std(0), sequence.min(0), sequence.max(0)])


def _each_view(examples: SequenceDataset, to_dict: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
    views = [np.stack([to_dict(s) for s in sequences(examples, v)]) for v in range(examples.views)]
    return np.concatenate(views, axis=1)


def sequences(examples: SequenceDataset, view: int) -> list[np.ndarray]:
    """Return one view of all examples, as a list of arrays."""
    return [examples.sequence(row, view) for row in range(len(examples))]


def symbols_at_places(examples: SequenceDataset, vocab: int) -> Matrix:
    """Return the one-hot encoding (n, positions * symbols) of equally long sequences, view after view."""
    from scipy import sparse

    parts = []
    for view in range(examples.views):
        rows = examples.stack(view).numpy().astype(np.int64)
        columns = (np.arange(rows.shape[1]) * vocab + rows).reshape(-1)
        starts = np.arange(len(rows) + 1) * rows.shape[1]
        shape = (len(rows), rows.shape[1] * vocab)
        parts.append(sparse.csr_matrix((np.ones(len(columns)), columns, starts), shape=shape))
    return sparse.hstack(parts).tocsr()


def grams(splits: Splits, vocab: int) -> dict[Split, Matrix]:
    """Return TF-IDF weighted 1-4-grams; two views are joined by product and absolute difference."""
    from scipy import sparse
    from sklearn.feature_extraction.text import TfidfTransformer

    views = range(splits["train"].views)
    known = frequent_runs([runs_in(sequences(splits["train"], v), vocab) for v in views])
    counts = {
        split: [run_counts(sequences(e, v), vocab, known) for v in views] for split, e in splits.items()
    }
    weigh = TfidfTransformer(sublinear_tf=True).fit(sparse.vstack(counts["train"]))
    x = {split: [weigh.transform(view) for view in parts] for split, parts in counts.items()}
    return {split: parts[0] if len(parts) == 1 else joined(*parts) for split, parts in x.items()}


def joined(first: Matrix, second: Matrix) -> Matrix:
    """Return product and absolute difference of two views, concatenated."""
    from scipy import sparse

    return sparse.hstack([first.multiply(second), abs(first - second)]).tocsr()


def runs_in(rows: list[np.ndarray], vocab: int) -> Runs:
    """Return the codes of all n-grams; an n whose codes do not fit into 63 bits is skipped."""
    line = np.concatenate(rows).astype(np.int64)
    owner = np.repeat(np.arange(len(rows)), [len(row) for row in rows])
    code = line
    found = [(line, owner)]
    for n in range(2, GRAMS + 1):
        if vocab**n >= 2**63:
            break
        code = code[:-1] * vocab + line[n - 1 :]
        # The sequences are concatenated: drop n-grams that cross from one into the next.
        inside = owner[: len(code)] == owner[n - 1 :]
        found.append((code[inside], owner[: len(code)][inside]))
    return found


def frequent_runs(views: list[Runs]) -> list[np.ndarray]:
    """Return the sorted codes of the ``FEATURES`` most frequent n-grams, for each n."""
    found = [
        np.unique(np.concatenate([code for code, _ in runs]), return_counts=True)
        for runs in zip(*views, strict=True)
    ]
    counts = np.concatenate([count for _, count in found])
    # N-grams tied at the cutoff are all dropped, since nothing ranks one above another.
    least = np.sort(counts)[-FEATURES] + 1 if len(counts) > FEATURES else 0
    return [code[count >= least] for code, count in found]


def run_counts(rows: list[np.ndarray], vocab: int, known: list[np.ndarray], chunk: int = 2000) -> Matrix:
    """Return the (n, n-grams) counts of each known n-gram in each sequence."""
    from scipy import sparse

    parts = []
    for at in range(0, len(rows), chunk):
        some = rows[at : at + chunk]
        columns = []
        for (code, owner), codes in zip(runs_in(some, vocab), known, strict=True):
            place = np.searchsorted(codes, code).clip(max=max(len(codes) - 1, 0))
            hit = codes[place] == code if len(codes) else np.zeros(len(code), dtype=bool)
            ones = np.ones(int(hit.sum()))
            columns.append(sparse.csr_matrix((ones, (owner[hit], place[hit])), shape=(len(some), len(codes))))
        parts.append(sparse.hstack(columns))
    return sparse.vstack(parts).tocsr()


def of_positions(form: SequenceSpec, examples: SequenceDataset) -> tuple[Matrix, np.ndarray]:
    """Return features (T, features) of labelled positions and their neighbours, and their classes (T,).

    Neighbours beyond the ends of a sequence are zeros.
    """
    from scipy import sparse

    parts, classes = [], []
    for row, length in enumerate(examples.lengths[0].tolist()):
        targets = examples.targets[row, :length].numpy()
        sequence = _standardised_sequence(form, examples.sequence(row))
        shifts = [sparse.eye(length, k=k, format="csr") @ sequence for k in range(-AROUND, AROUND + 1)]
        parts.append(sparse.hstack(shifts).tocsr()[targets >= 0])
        classes.append(targets[targets >= 0].astype(np.int64))
    return sparse.vstack(parts).tocsr(), np.concatenate(classes)


def _standardised_sequence(form: SequenceSpec, sequence: np.ndarray) -> Matrix:
    """Return one-hot tokens or standardised values (L, features), as a sparse matrix."""
    from scipy import sparse

    if isinstance(form.signal, Tokens):
        return sparse.identity(form.signal.vocab, format="csr")[sequence.astype(np.int64)]
    return sparse.csr_matrix((sequence - np.array(form.signal.centre)) / np.array(form.signal.spread))
