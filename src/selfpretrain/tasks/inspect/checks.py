"""Data quality checks of ``data check``: leakage, duplicates, labels, classes, groups and values.

Equal examples are found exactly. Sequences that share most of their content, as overlapping windows do, are
found by min-wise hashing of runs of 24 positions (``near_duplicates``). Slightly changed values, as after
another compression, are found by the correlation of summaries: 32 means of each of at most 20,000 sequences
of a split. The data are read once: seconds for 50,000 texts, minutes for 200,000 images of 256 x 256.
Paraphrases, and sequences both shifted and changed, are not found.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import combinations
from typing import Literal

import numpy as np

from ...data.dataset import SequenceDataset
from ...data.near_duplicates import STEP, find_similar, fingerprints
from ...data.paths import imported_datasets
from ...data.sequences import grouped
from ...data.spec import SPLITS, Classes, Reals, SequenceSpec, Split, Tokens
from ...data.splits import MIN_GROUPS
from ...data.store import verify
from ...errors import DamagedData, DataError, join_names
from ...registry import name_of
from ...system.events import report_progress
from ..base import Task
from ..common.stored import Prepared
from ..imported import Imported
from .baselines import GUESSES, baseline_scores, best_of_both
from .preview import number_text, offset_of_labels

Level = Literal["fine", "note", "wrong"]

# Shares of val and test that are tolerated, up to which a finding is a note:
MAX_COPIES = 0.01  # equal to a training example; official splits have some
MAX_NEAR_COPIES = 0.02  # slightly changed copies of a training example
MAX_SIMILAR = 0.10  # share half of their runs with one: with few symbols, this happens by chance

ENOUGH = 0.95  # score of a simple method above which no network was better by more than its interval
FEW_LABELS = 100  # labelled sequences below which a network's score may vary strongly with the seed
RARE = 10  # labelled training examples below which a class is reported as rare
SAME = 0.999  # correlation of two summaries above which their sequences are near copies
CHUNK = 4_000_000  # values per chunk
SAMPLE = 20_000  # maximum sequences of a split to summarise
STRETCHES = 32  # means per summary


@dataclass(frozen=True)
class Finding:
    """The result of one check: its subject, its severity, and the text that is printed."""

    what: str
    level: Level
    said: str


@dataclass(frozen=True)
class Profile:
    """Statistics of the m sequences of one split: all first views, then all second ones."""

    whole: np.ndarray  # (m,) hashes, equal for equal sequences
    examples: np.ndarray  # (n,) hashes of all views of an example
    sketch: np.ndarray  # (m, 4) min-hashes, some of them equal for similar sequences
    low: np.ndarray  # (m,) smallest and largest value; NaN if any value is NaN
    high: np.ndarray
    moments: np.ndarray  # (3, C) number of positions, sum and sum of squares of their values
    summary: np.ndarray  # (at most SAMPLE, STRETCHES) normalised means; of values only


@dataclass(frozen=True)
class CheckedTask:
    """A task with its splits, as the checks see it."""

    name: str
    form: SequenceSpec
    splits: Mapping[Split, SequenceDataset]
    in_part: bool = False  # whether only a part of the training values by which they are standardised
    offset: float = 0.0  # what was subtracted from real labels

    @cached_property
    def profiles(self) -> dict[Split, Profile]:
        """Return the statistics of every sequence, by split."""
        return {split: profile(f"{self.name}: {split} sequences", self.splits[split]) for split in SPLITS}

    @cached_property
    def not_finite(self) -> int:
        """Return how many sequences hold NaN or infinity."""
        ends = [np.isfinite(part.low) & np.isfinite(part.high) for part in self.profiles.values()]
        return sum(int((~finite).sum()) for finite in ends)

    def share(self, what: str, count: int, text: str, tolerated: float) -> Finding:
        """Return how many val and test examples have a fault, which is wrong above a tolerated share."""
        total = len(self.splits["val"]) + len(self.splits["test"])
        level: Level = "wrong" if count > tolerated * total else "note" if count else "fine"
        number = f"{count:,}" if count else "none"
        return Finding(what, level, f"{number} of {total:,} in val and test {text}")


def check_data(task: Task, compare: bool = True) -> Iterator[Finding]:
    """Yield the findings of all checks, and with ``compare`` those of simple methods, which take longest."""
    try:
        source = task.origin
        files = _files(task)  # before they are read, as damaged ones are made again
        in_part = isinstance(source, Imported) and bool(source.rows or source.longest)
        splits = {split: task.load(split) for split in SPLITS}
        data = CheckedTask(name_of(task), task.form, splits, in_part, offset_of_labels(task))
        yield files
    except DamagedData as error:
        yield Finding("files", "wrong", str(error))
        return
    for check in CHECKS:
        for finding in check(data):
            yield finding
            if finding.level == "wrong" and finding.what in NEEDED:
                return
    if compare and data.not_finite:
        yield Finding("simple methods", "note", "none is tried: they take finite values only")
    elif compare:
        yield from _simple_methods(task)


def _files(task: Task) -> Finding:
    source = task.origin
    place = imported_datasets().get(source.name) if isinstance(source, Imported) else None
    if isinstance(source, Prepared) and not source.made_up:
        place = source.folder
        if not place.exists():
            source.data()
    if place is None:
        return Finding("files", "fine", "none; the data are part of the package, or made when they are used")
    report_progress(f"{name_of(task)}: hashes of files", 0)
    verify(place)
    return Finding("files", "fine", f"as they were written, in {place}")


def _sizes(data: CheckedTask) -> Iterator[Finding]:
    counts = ", ".join(f"{len(examples):,} {split}" for split, examples in data.splits.items())
    yield Finding("examples", "fine" if all(map(len, data.splits.values())) else "wrong", counts)
    lengths = np.concatenate([examples.lengths.numpy().ravel() for examples in data.splits.values()])
    text = f"{lengths.min():,} to {lengths.max():,}, median {np.median(lengths):,.0f}"
    yield Finding("lengths", "fine" if lengths.min() > 0 else "wrong", text)


def _labels(data: CheckedTask) -> Iterator[Finding]:
    splits = data.splits
    missing = {split: int((~examples.labelled).sum()) for split, examples in splits.items()}
    text = ", ".join(f"{n:,} of {split} have none" for split, n in missing.items() if n)
    nothing = any(missing[split] == len(splits[split]) for split in SPLITS)
    level: Level = "wrong" if nothing else "note" if text else "fine"
    yield Finding("labels", level, text or "every example has one")
    if isinstance(data.form.target, Reals):
        y = {split: examples.targets[examples.labelled].double() for split, examples in splits.items()}
        text = ", ".join(
            f"{number_text(float(part.mean()), data.offset)} ± {part.std(correction=0):.4g} {split}"
            for split, part in y.items()
        )
        flat = any(len(part) and float(part.std(correction=0)) == 0 for part in y.values())
        yield Finding("mean and spread of labels", "wrong" if flat else "fine", text)


def _classes(data: CheckedTask) -> Iterator[Finding]:
    if not isinstance(data.form.target, Classes):
        return
    names = data.form.target.names
    known = (examples.targets[examples.labelled].numpy() for examples in data.splits.values())
    train, val, test = (np.bincount(y, minlength=len(names)) for y in known)
    share = 100 * train.max() / max(train.sum(), 1)
    yield Finding("classes", "fine", f"{len(names)}; the commonest has {share:.1f} % of training")
    problems: list[tuple[str, Level, np.ndarray]] = [
        ("classes that training lacks", "wrong", (train == 0) & (val + test > 0)),
        ("classes that val or test lacks", "note", (val == 0) | (test == 0)),
        (f"classes with less than {RARE} in training", "note", train < RARE),
    ]
    for what, level, rows in problems:
        if rows.any():
            yield Finding(what, level, join_names([names[k] for k in np.flatnonzero(rows)]))


def _groups(data: CheckedTask) -> Iterator[Finding]:
    known = [np.unique(e.groups.numpy()) for e in data.splits.values() if e.groups is not None]
    if len(known) < len(SPLITS):
        yield Finding("groups", "fine", "nothing is known of patients, speakers, files or the like")
        return
    divided = {int(group) for a, b in combinations(known, 2) for group in np.intersect1d(a, b)}
    number = len(np.unique(np.concatenate(known)))
    fewest = min(map(len, known))
    level: Level = "fine"
    text = f"{number:,}, none of them in two splits"
    if divided:
        level = "wrong" if len(divided) > MAX_COPIES * number else "note"
        text = f"{len(divided):,} of {number:,} are in several splits"
    elif fewest < MIN_GROUPS:
        level = "note"
        text += f"; but a split holds only {fewest}: scores rest on so few"
    yield Finding("groups", level, text)


def _windows(data: CheckedTask) -> Iterator[Finding]:
    """Report held-out sequences [s, t) that share stored positions with one of train: s < t' and s' < t."""
    train = data.splits["train"]
    start = train.starts.numpy().ravel()
    order = np.argsort(start, kind="stable")
    # end[i]: the last end of all training sequences that start no later than sequence i.
    end = np.maximum.accumulate((start + train.lengths.numpy().ravel())[order])
    start = start[order]
    found = 0
    for examples in (data.splits["val"], data.splits["test"]):
        if examples.packed or examples.flat.data_ptr() != train.flat.data_ptr():
            continue
        first = examples.starts.numpy()
        last = (examples.starts + examples.lengths).numpy()
        before = np.searchsorted(start, last) - 1
        found += int(((before >= 0) & (end[before] > first)).any(0).sum())
    text = "share stored positions with a training example"
    yield data.share("overlapping windows", found, text, MAX_COPIES)


def _values(data: CheckedTask) -> Iterator[Finding]:
    profiles = data.profiles
    signal = data.form.signal
    low = np.concatenate([part.low for part in profiles.values()])
    high = np.concatenate([part.high for part in profiles.values()])
    if data.not_finite:
        yield Finding("values", "wrong", f"{data.not_finite:,} sequences hold NaN or infinity")
        return
    text = f"{low.min():.6g} to {high.max():.6g}"
    if isinstance(signal, Tokens):
        fits = low.min() >= 0 and high.max() < signal.vocab
        yield Finding("tokens", "fine" if fits else "wrong", f"{text}, of a vocabulary of {signal.vocab:,}")
    else:
        fits = signal.levels is None or (low.min() >= signal.low and high.max() <= signal.high)
        yield Finding("values", "fine" if fits else "wrong", text)
        number, total, squares = profiles["train"].moments
        spread = np.array(signal.spread)
        mean = total / number
        shift = np.abs(mean - np.array(signal.centre)) / spread
        stretch = np.sqrt(np.maximum(squares / number - mean**2, 0)) / spread
        fits = bool((shift < 0.05).all() and (np.abs(stretch - 1) < 0.1).all())
        text = f"training has mean {shift.max():.3f} and spread {stretch.min():.3f} to {stretch.max():.3f}"
        odd: Level = "note" if data.in_part else "wrong"
        yield Finding("standardised values", "fine" if fits else odd, text)
    if constant := int((low == high).sum()):
        yield Finding("constant sequences", "note", f"{constant:,} hold the same value throughout")


def _copies(data: CheckedTask) -> Iterator[Finding]:
    whole = {split: part.examples for split, part in data.profiles.items()}
    found = sum(int(np.isin(whole[split], whole["train"]).sum()) for split in ("val", "test"))
    yield data.share("copies", found, "are equal to a training example", MAX_COPIES)
    if both := int(np.isin(whole["test"], whole["val"]).sum()):
        yield Finding("copies in val and test", "note", f"{both:,} of test are equal to one of val")
    if twice := len(whole["train"]) - len(np.unique(whole["train"])):
        yield Finding("copies within training", "note", f"{twice:,} of {len(whole['train']):,}")
    if isinstance(data.form.target, Classes):
        known = np.concatenate([examples.labelled.numpy() for examples in data.splits.values()])
        targets = np.concatenate([examples.targets.numpy() for examples in data.splits.values()])[known]
        hashes = np.concatenate(list(whole.values()))[known]
        _, equal = np.unique(hashes, return_inverse=True)
        classes = len(data.form.target.names)
        pairs, counts = np.unique(equal * classes + targets, return_counts=True)
        commonest = np.zeros(equal.max(initial=-1) + 1, dtype=np.int64)
        np.maximum.at(commonest, pairs // classes, counts)
        if odd := int(counts.sum() - commonest.sum()):
            text = "examples have another label than most that are equal to them"
            yield Finding("contradictions", "note", f"{odd:,} {text}")


def _similar(data: CheckedTask) -> Iterator[Finding]:
    """Report val and test sequences that share half of their runs with a training sequence."""

    def sequence(split: Split, place: int) -> np.ndarray:
        view, row = divmod(place, len(data.splits[split]))  # all first views, then all second ones
        return data.splits[split].sequence(row, view)

    found = 0
    for split in ("val", "test"):
        sketches = (data.profiles[split].sketch, data.profiles["train"].sketch)
        places = find_similar(*sketches, partial(sequence, split), partial(sequence, "train"))
        found += len(np.unique(places % len(data.splits[split])))  # the views of an example count once
    text = "share half of their runs with a training example"
    yield data.share("similar sequences", found, text, MAX_SIMILAR)


def _near_copies(data: CheckedTask) -> Iterator[Finding]:
    train = data.profiles["train"].summary
    if not len(train):
        return
    count = 0
    for split in ("val", "test"):
        for part in np.array_split(data.profiles[split].summary, 20):
            count += int((part @ train.T > SAME).any(1).sum())
    text = f"correlate above {SAME} with a training example, in {STRETCHES} means"
    yield data.share("near copies", count, text, MAX_NEAR_COPIES)


CHECKS: tuple[Callable[[CheckedTask], Iterator[Finding]], ...] = (
    _sizes, _labels, _classes, _groups, _windows, _values, _copies, _similar, _near_copies,
)  # fmt: skip
NEEDED = ("examples", "lengths")  # findings without which no other check makes sense


def _simple_methods(task: Task) -> Iterator[Finding]:
    report_progress(f"{name_of(task)}: simple methods", 0)
    metric = task.form.target.metric.replace("r2", "R2")
    try:
        scores = baseline_scores(task)
    except DataError as error:
        yield Finding("simple methods", "wrong", str(error))
        return
    for method, score in scores.items():
        text = f"{metric} {score:.3f}" + ("; little is left to learn" if score >= ENOUGH else "")
        yield Finding(method, "note" if score >= ENOUGH else "fine", text)
    for method, score in task.published.items():
        yield Finding(f"{method}, as published", "fine", f"{metric} {score:.3f}")
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


def profile(what: str, examples: SequenceDataset) -> Profile:
    """Return the statistics of a split; ``what`` names it where progress is shown."""
    columns: defaultdict[str, list[np.ndarray]] = defaultdict(list)
    moments: list[np.ndarray] = []
    summaries: list[np.ndarray] = []
    done = 0
    views = ((row, view) for view in range(examples.views) for row in range(len(examples)))
    for sequences in grouped((examples.sequence(*each) for each in views), np.size, CHUNK):
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
    hashes = np.zeros(len(examples), dtype=np.uint64)
    for view in joined["whole"].reshape(examples.views, -1):
        hashes = hashes * STEP + view
    summary = np.stack(summaries) if summaries else np.zeros((0, STRETCHES))
    return Profile(examples=hashes, moments=np.sum(moments, axis=0), summary=summary, **joined)


def _summary(values: np.ndarray) -> np.ndarray:
    """Return the means of ``STRETCHES`` equal segments, with mean 0 and norm 1; zeros if impossible."""
    if len(values) < STRETCHES:
        return np.zeros(STRETCHES)
    edges = np.linspace(0, len(values), STRETCHES + 1).astype(int)
    means = np.add.reduceat(values.mean(1, dtype=np.float64), edges[:-1]) / np.diff(edges)
    if not np.isfinite(means).all():
        return np.zeros(STRETCHES)
    means -= means.mean()
    norm = np.linalg.norm(means)
    return means / norm if norm > 1e-9 else np.zeros(STRETCHES)
