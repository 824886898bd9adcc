"""Data quality checks of ``spt data check``: leakage, duplicates, labels, classes, groups and values.

Equal examples are found exactly. Sequences that share most of their content, as overlapping windows do, are
found by min-wise hashing of runs of 24 positions (``near_duplicates``). Slightly changed values, as after
another compression, are found by the correlation of summaries: 32 means of each of at most 20,000 sequences
of a split. The data are read once: seconds for 50,000 texts, minutes for 200,000 images of 256 x 256.
Paraphrases, and sequences both shifted and changed, are not found.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import combinations
from typing import Literal

import numpy as np

from ...data.dataset import SequenceDataset
from ...data.near_duplicates import STEP, find_similar, fingerprints
from ...data.paths import imported_datasets
from ...data.spec import SPLITS, Classes, Reals, SequenceSpec, Split, Tokens
from ...data.splits import ENOUGH_GROUPS
from ...data.store import verify
from ...errors import DamagedData, DataError, join_names
from ...registry import name_of
from ...system.events import report_progress
from ..base import Task
from ..common.stored import Prepared
from ..imported import Imported
from .baselines import GUESSES, baseline_scores, best_of_both

Level = Literal["fine", "note", "wrong"]
Splits = dict[Split, SequenceDataset]

COPIES = 0.01
"""Tolerated share of val and test equal to training examples: official splits have some."""
LIKENESS = 0.02
"""Tolerated share of val and test that are slightly changed copies of training examples."""
ALIKE = 0.10
"""The same for sequences that share half of their runs: with few symbols, this happens by chance."""
ENOUGH = 0.95
"""Score of a simple method above which no network was better by more than its confidence interval."""
FEW_LABELS = 100
"""Labelled sequences below which a network's score may vary strongly with the seed."""
FEW = 10
"""Labelled training examples below which a class is reported as rare."""
SAME = 0.999
"""Correlation of two summaries above which their sequences are reported as near copies."""
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


Profiles = dict[Split, Profile]


@dataclass(frozen=True)
class Finding:
    """The result of one check: its subject, its severity, and the text that is printed."""

    what: str
    level: Level
    said: str


def check_data(task: Task, compare: bool = True, limit: int = 5000) -> Iterator[Finding]:
    """Yield the findings of all checks, the scores of simple methods last.

    Args:
        compare: score simple methods, which takes longest.
        limit: maximum examples to fit simple methods on.
    """
    try:
        form = task.form
        splits = {split: task.load(split) for split in SPLITS}
    except DamagedData as error:
        yield Finding("files", "wrong", str(error))
        return
    yield _files(task)
    sizes = list(_sizes(splits))
    yield from sizes
    if any(finding.level == "wrong" for finding in sizes):
        return
    yield from _labels(form, splits)
    yield from _classes(form, splits)
    yield _groups(splits)
    yield _windows(splits)
    profiles = profile_splits(name_of(task), splits)
    yield from _values(form, profiles)
    yield from _copies(form, splits, profiles)
    yield _alike(splits, profiles)
    yield from _near_copies(splits, profiles)
    if compare:
        yield from _simple_methods(task, limit)


def _files(task: Task) -> Finding:
    place = imported_datasets().get(task.name) if isinstance(task, Imported) else None
    if isinstance(task, Prepared) and not task.made_up:
        place = task.folder
    if place is None:
        return Finding("files", "fine", "none; the data are part of the package, or made when they are used")
    report_progress(f"{name_of(task)}: hashes of files", 0)
    try:
        verify(place)
    except DamagedData as error:
        return Finding("files", "wrong", str(error))
    return Finding("files", "fine", f"as they were written, in {place}")


def _sizes(splits: Splits) -> Iterator[Finding]:
    counts = ", ".join(f"{len(examples):,} {split}" for split, examples in splits.items())
    yield Finding("examples", "fine" if all(map(len, splits.values())) else "wrong", counts)
    lengths = np.concatenate([examples.lengths.numpy().ravel() for examples in splits.values()])
    if len(lengths):
        text = f"{lengths.min():,} to {lengths.max():,}, median {np.median(lengths):,.0f}"
        yield Finding("lengths", "fine" if lengths.min() > 0 else "wrong", text)


def _labels(form: SequenceSpec, splits: Splits) -> Iterator[Finding]:
    missing = {split: int((~examples.labelled).sum()) for split, examples in splits.items()}
    text = ", ".join(f"{n:,} of {split} have none" for split, n in missing.items() if n)
    nothing = any(missing[split] == len(splits[split]) for split in SPLITS)
    level: Level = "wrong" if nothing else "note" if text else "fine"
    yield Finding("labels", level, text or "every example has one")
    if isinstance(form.target, Reals):
        y = {split: examples.targets[examples.labelled].double() for split, examples in splits.items()}
        text = ", ".join(
            f"{part.mean():.4g} ± {part.std(correction=0):.4g} {split}" for split, part in y.items()
        )
        flat = any(len(part) and float(part.std(correction=0)) == 0 for part in y.values())
        yield Finding("mean and spread of labels", "wrong" if flat else "fine", text)


def _classes(form: SequenceSpec, splits: Splits) -> Iterator[Finding]:
    if not isinstance(form.target, Classes):
        return
    names = form.target.names
    known = (examples.targets[examples.labelled].numpy() for examples in splits.values())
    train, val, test = (np.bincount(y, minlength=len(names)) for y in known)
    share = 100 * train.max() / max(train.sum(), 1)
    yield Finding("classes", "fine", f"{len(names)}; the commonest has {share:.1f} % of training")
    problems: list[tuple[str, Level, np.ndarray]] = [
        ("classes that training lacks", "wrong", (train == 0) & (val + test > 0)),
        ("classes that val or test lacks", "note", (val == 0) | (test == 0)),
        (f"classes with less than {FEW} in training", "note", train < FEW),
    ]
    for what, level, rows in problems:
        if rows.any():
            yield Finding(what, level, join_names([names[k] for k in np.flatnonzero(rows)]))


def _groups(splits: Splits) -> Finding:
    known = [np.unique(e.groups.numpy()) for e in splits.values() if e.groups is not None]
    if len(known) < len(SPLITS):
        return Finding("groups", "fine", "nothing is known of patients, speakers, files or the like")
    divided = {int(group) for a, b in combinations(known, 2) for group in np.intersect1d(a, b)}
    number = len(np.unique(np.concatenate(known)))
    if divided:
        level: Level = "wrong" if len(divided) > COPIES * number else "note"
        return Finding("groups", level, f"{len(divided):,} of {number:,} are in several splits")
    text = f"{number:,}, none of them in two splits"
    fewest = min(map(len, known))
    if fewest < ENOUGH_GROUPS:
        return Finding("groups", "note", f"{text}; but a split holds only {fewest}: scores rest on so few")
    return Finding("groups", "fine", text)


def _windows(splits: Splits) -> Finding:
    """Report held-out sequences [s, t) that share stored positions with one of train: s < t' and s' < t."""
    train = splits["train"]
    start = train.starts.numpy().ravel()
    order = np.argsort(start, kind="stable")
    # end[i]: the last end of all training sequences that start no later than sequence i.
    end = np.maximum.accumulate((start + train.lengths.numpy().ravel())[order])
    start = start[order]
    found = 0
    for examples in (splits["val"], splits["test"]):
        if examples.packed or examples.flat.data_ptr() != train.flat.data_ptr():
            continue
        first = examples.starts.numpy()
        last = (examples.starts + examples.lengths).numpy()
        before = np.searchsorted(start, last) - 1
        found += int(((before >= 0) & (end[before] > first)).any(0).sum())
    return _share(
        "overlapping windows", found, splits, "share stored positions with a training example", COPIES
    )


def _values(form: SequenceSpec, profiles: Profiles) -> Iterator[Finding]:
    low = np.concatenate([part.low for part in profiles.values()])
    high = np.concatenate([part.high for part in profiles.values()])
    bad = int((~np.isfinite(low) | ~np.isfinite(high)).sum())
    if bad:
        yield Finding("values", "wrong", f"{bad:,} sequences hold NaN or infinity")
        return
    text = f"{low.min():.6g} to {high.max():.6g}"
    if isinstance(form.signal, Tokens):
        fits = low.min() >= 0 and high.max() < form.signal.vocab
        yield Finding(
            "tokens", "fine" if fits else "wrong", f"{text}, of a vocabulary of {form.signal.vocab:,}"
        )
    else:
        fits = form.signal.levels is None or (low.min() >= form.signal.low and high.max() <= form.signal.high)
        yield Finding("values", "fine" if fits else "wrong", text)
        number, total, squares = profiles["train"].moments
        spread = np.array(form.signal.spread)
        mean = total / number
        shift = np.abs(mean - np.array(form.signal.centre)) / spread
        stretch = np.sqrt(np.maximum(squares / number - mean**2, 0)) / spread
        fits = bool((shift < 0.05).all() and (np.abs(stretch - 1) < 0.1).all())
        text = f"training has mean {shift.max():.3f} and spread {stretch.min():.3f} to {stretch.max():.3f}"
        yield Finding("standardised values", "fine" if fits else "wrong", text)
    if constant := int((low == high).sum()):
        yield Finding("constant sequences", "note", f"{constant:,} hold the same value throughout")


def _copies(form: SequenceSpec, splits: Splits, profiles: Profiles) -> Iterator[Finding]:
    whole = {split: part.examples for split, part in profiles.items()}
    found = sum(int(np.isin(whole[split], whole["train"]).sum()) for split in ("val", "test"))
    yield _share("copies", found, splits, "are equal to a training example", COPIES)
    if both := int(np.isin(whole["test"], whole["val"]).sum()):
        yield Finding("copies in val and test", "note", f"{both:,} of test are equal to one of val")
    if twice := len(whole["train"]) - len(np.unique(whole["train"])):
        yield Finding("copies within training", "note", f"{twice:,} of {len(whole['train']):,}")
    if isinstance(form.target, Classes):
        known = np.concatenate([examples.labelled.numpy() for examples in splits.values()])
        targets = np.concatenate([examples.targets.numpy() for examples in splits.values()])[known]
        hashes = np.concatenate(list(whole.values()))[known]
        labelled = len(np.unique(hashes * STEP + targets.astype(np.uint64)))
        if odd := labelled - len(np.unique(hashes)):
            yield Finding("contradictions", "note", f"{odd:,} examples have another label than an equal one")


def _alike(splits: Splits, profiles: Profiles) -> Finding:
    """Report val and test sequences that share half of their runs with a training sequence."""
    found = 0
    for split in ("val", "test"):
        places = find_similar(
            profiles[split].sketch,
            profiles["train"].sketch,
            partial(_sequence, splits[split]),
            partial(_sequence, splits["train"]),
        )
        # The views of an example count once.
        found += len(np.unique(places % max(len(splits[split]), 1)))
    return _share(
        "similar sequences", found, splits, "share half of their runs with a training example", ALIKE
    )


def _sequence(examples: SequenceDataset, place: int) -> np.ndarray:
    """Return a sequence by its index in a profile: all first views, then all second ones."""
    view, row = divmod(place, len(examples))
    return examples.sequence(row, view)


def _near_copies(splits: Splits, profiles: Profiles) -> Iterator[Finding]:
    train = profiles["train"].summary
    if not len(train):
        return
    count = 0
    for split in ("val", "test"):
        for part in np.array_split(profiles[split].summary, 20):
            count += int((part @ train.T > SAME).any(1).sum())
    text = f"correlate above {SAME} with a training example, in {STRETCHES} means"
    yield _share("near copies", count, splits, text, LIKENESS)


def _simple_methods(task: Task, limit: int) -> Iterator[Finding]:
    report_progress(f"{name_of(task)}: simple methods", 0)
    metric = task.form.target.metric.replace("r2", "R2")
    try:
        scores = baseline_scores(task, limit)
    except DataError as error:
        yield Finding("simple methods", "wrong", str(error))
        return
    for method, score in scores.items():
        text = f"{metric} {score:.3f}" + ("; little is left to learn" if score >= ENOUGH else "")
        yield Finding(method, "note" if score >= ENOUGH else "fine", text)
    learned = {m: score for m, score in scores.items() if m not in GUESSES and m not in task.shortcuts()}
    if learned:
        train = task.load("train")
        labelled = int(train.labelled.sum())
        yield Finding("what to try", "fine", advice(labelled, len(train) - labelled, learned))


def advice(labelled: int, unlabelled: int, scores: Mapping[str, float]) -> str:
    """Recommend in one sentence whether to try self-pretraining, with the reason.

    Args:
        labelled: number of training sequences with a label; the others are ``unlabelled``.
        scores: simple method -> score on test, an accuracy or R2.
    """
    method = max(scores, key=lambda name: scores[name])
    score = scores[method]
    if score >= ENOUGH:
        return f"use {method}: it scores {score:.3f}, and a network has little left to gain"
    if unlabelled > labelled:
        both = " and ".join(f"{name} ({scores[name]:.3f})" for name in best_of_both(scores))
        unused = f"{unlabelled:,} sequences have no label, and pretraining learns from those, too"
        return f"compare SPT with {both}: {unused}"
    if labelled < FEW_LABELS:
        few = f"{labelled:,} labelled sequences are so few that a network's score may hang on its seed"
        return f"begin with {method} ({score:.3f}), and compare networks with 5 seeds or more: {few}"
    room = "it leaves room, but with every sequence labelled SPT gained nothing for certain on real data sets"
    return f"begin with {method} ({score:.3f}), then compare SPT with matched scratch: {room}"


def _share(what: str, count: int, splits: Splits, text: str, most: float) -> Finding:
    """Report the number of val and test examples with a fault: "wrong" if their share exceeds ``most``."""
    total = len(splits["val"]) + len(splits["test"])
    if not count:
        return Finding(what, "fine", f"none of {total:,} in val and test {text}")
    level: Level = "wrong" if count > most * total else "note"
    return Finding(what, level, f"{count:,} of {total:,} in val and test {text}")


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
