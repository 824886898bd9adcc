"""Hashes, extremes and moments of all sequences of a task in one pass, for the data checks."""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from ...data.dataset import SequenceDataset
from ...data.near_duplicates import STEP, fingerprints
from ...data.spec import SPLITS, Split
from ...system.events import report_progress

CHUNK = 4_000_000
"""Values per chunk."""
SAMPLE = 20_000
"""Maximum sequences of a split to summarise."""
STRETCHES = 32
"""Means per summary."""


@dataclass(frozen=True)
class Profile:
    """Statistics of the m sequences of one split: all first views, then all second ones."""

    views: int
    whole: np.ndarray  # (m,) hashes, equal for equal sequences
    sketch: np.ndarray  # (m, 4) min-hashes, some of them equal for similar sequences
    low: np.ndarray  # (m,) smallest and largest value; NaN if any value is NaN
    high: np.ndarray
    moments: np.ndarray  # (3, C) number of positions, sum and sum of squares of their values
    summary: np.ndarray  # (at most SAMPLE, STRETCHES) normalised means; of values only

    @property
    def examples(self) -> np.ndarray:
        """(n,) hashes of examples, equal for equal examples."""
        views = self.whole.reshape(self.views, -1)
        mixed = np.zeros(views.shape[1], dtype=np.uint64)
        for view in views:
            mixed = mixed * STEP + view
        return mixed


def profile_splits(name: str, splits: dict[Split, SequenceDataset]) -> dict[Split, Profile]:
    """Profile every sequence of every split."""
    return {split: _profile(f"{name}: {split} sequences", splits[split]) for split in SPLITS}


def _profile(what: str, examples: SequenceDataset) -> Profile:
    columns: defaultdict[str, list[np.ndarray]] = defaultdict(list)
    moments: list[np.ndarray] = []
    summaries: list[np.ndarray] = []
    done = 0
    for sequences in _chunks(examples):
        lengths = np.array([len(s) for s in sequences])
        flat = np.concatenate(sequences)
        values = flat.astype(np.float64).reshape(len(flat), -1)
        starts = lengths.cumsum() - lengths
        whole, sketch = fingerprints(flat, lengths)
        columns["whole"].append(whole)
        columns["sketch"].append(sketch)
        columns["low"].append(np.minimum.reduceat(values.min(1), starts))
        columns["high"].append(np.maximum.reduceat(values.max(1), starts))
        moments += [np.stack([np.full(values.shape[1], len(flat)), values.sum(0), (values**2).sum(0)])]
        if flat.ndim == 2 and done < SAMPLE:
            summaries += [_summary(s) for s in sequences[: SAMPLE - done]]
        done += len(sequences)
        report_progress(what, done, examples.starts.numel())
    joined = {name: np.concatenate(parts) for name, parts in columns.items()}
    summary = np.stack(summaries) if summaries else np.zeros((0, STRETCHES))
    return Profile(examples.views, moments=np.sum(moments, axis=0), summary=summary, **joined)


def _chunks(examples: SequenceDataset) -> Iterator[list[np.ndarray]]:
    some: list[np.ndarray] = []
    size = 0
    for view in range(examples.views):
        for row in range(len(examples)):
            some.append(examples.sequence(row, view))
            size += some[-1].size
            if size >= CHUNK:
                yield some
                some = []
                size = 0
    if some:
        yield some


def _summary(values: np.ndarray) -> np.ndarray:
    """Return the means of ``STRETCHES`` equal segments, with mean 0 and norm 1; zeros if impossible."""
    if len(values) < STRETCHES:
        return np.zeros(STRETCHES)
    edges = np.linspace(0, len(values), STRETCHES + 1).astype(int)
    means = np.add.reduceat(values.mean(1, dtype=np.float64), edges[:-1]) / np.diff(edges)
    means -= means.mean()
    norm = np.linalg.norm(means)
    return means / norm if norm > 1e-9 else np.zeros(STRETCHES)
