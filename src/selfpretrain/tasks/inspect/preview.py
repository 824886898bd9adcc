"""Summaries and previews of a task's data, for ``selfpretrain data list`` and ``selfpretrain data show``."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch

from ...data import paths
from ...data.dataset import SequenceDataset, generator
from ...data.paths import imported_datasets
from ...data.spec import SPLITS, Classes, ClassSets, PositionClasses, Reals, SequenceSpec, Split, Tokens
from ...errors import DataError, printable
from ...registry import find, name_of, names
from ..base import Task
from ..common.stored import Prepared
from ..imported import Imported
from .drawing import MAX_LEVELS, Preview, PreviewItem

UNKNOWN = "\N{EN DASH}"  # placeholder for facts that are unknown until the data exist


@dataclass(frozen=True)
class TaskSummary:
    """One row of the list of tasks, as text."""

    name: str
    state: str
    signal: str
    length: str
    target: str
    counts: str  # of train, val and test


def summaries() -> Iterator[TaskSummary]:
    """Yield a summary of every built-in task, then of every imported dataset."""
    for name in [*(name for name in names("tasks") if name != "imported"), *imported_datasets()]:
        task = find("tasks", name)()
        try:
            yield _summary(name, task)
        except DataError as error:
            yield TaskSummary(name, f"unreadable: {error}", UNKNOWN, UNKNOWN, UNKNOWN, _counts(task))


def _summary(name: str, task: Task) -> TaskSummary:
    now = state(task)
    if now not in ("embedded", "imported", "prepared"):
        return TaskSummary(name, now, UNKNOWN, UNKNOWN, UNKNOWN, _counts(task) or UNKNOWN)
    form = task.form
    target = "number" if isinstance(form.target, Reals) else form.target.description
    counts = _counts(task) if now == "embedded" else ""  # loading could start a slow generator
    counts = counts or "/".join(f"{len(task.load(split)):,}" for split in SPLITS)
    return TaskSummary(name, now, signal(form), f"{form.length:,}", target, counts)


def _counts(task: Task) -> str:
    """Return the first "train / val / test" counts of the card, without spaces; empty if there are none."""
    found = re.search(r"[\d,]+ / [\d,]+ / [\d,]+", task.card.counts)
    return found[0].replace(" ", "") if found else ""


def state(task: Task) -> str:
    """Return the state of the data, e.g. "prepared", or what is still to do, e.g. "to generate"."""
    task = task.origin
    if not isinstance(task, Prepared):
        return "imported" if isinstance(task, Imported) else "embedded"
    if task.folder.exists():
        return "prepared"
    if vars(task).get("source") == "generated":
        return "to generate"
    raw = [*task.places, *(place for d in task.downloads for place in (d.outcome, d.file))]
    if paths.find(*raw):
        return "raw files"
    return "to get" if task.downloads else "to place"


def preview(task: Task, split: Split, number: int) -> Preview:
    """Return a fixed random sample of ``number`` examples of a split, and labels and lengths of all splits.

    Raises:
        DataError: if the split has no example.
    """
    form = task.form
    splits = {split: task.load(split) for split in SPLITS}
    if not len(splits[split]):
        raise DataError(f"the {split} split of {name_of(task)} has no example")
    chosen = torch.randperm(len(splits[split]), generator=generator("look", split))[:number]
    values = None if isinstance(form.signal, Tokens) else form.signal
    views = [""] if form.views == 1 else [f", sequence {v + 1} of {form.views}" for v in range(form.views)]
    shown = []
    for row in chosen.tolist():
        label = _label_text(splits[split].targets[row].numpy(), form)
        shown += [PreviewItem(label + view, splits[split].sequence(row, v)) for v, view in enumerate(views)]
    drawn = [pixels for one in shown if (pixels := task.pixels(one.sequence)) is not None]
    if drawn:
        shown = [PreviewItem(one.caption, pixels) for one, pixels in zip(shown, drawn, strict=True)]
    return Preview(
        title=f"{name_of(task)}, {split}: {signal(form)}, {form.length:,} positions at most",
        shown=tuple(shown),
        targets={split: _labels(e, form) for split, e in splits.items()},
        lengths={split: e.longest.numpy() for split, e in splits.items()},
        names=() if isinstance(form.target, Reals) else tuple(map(printable, form.target.names)),
        symbols=task.symbols() if values is None else None,
        levels=MAX_LEVELS if drawn else values.levels if values else None,
        low=values.low if values else 0.0,
        high=values.high if values else 1.0,
    )


def signal(form: SequenceSpec) -> str:
    """Describe a position, e.g. "15 symbols" or "2 channels"."""
    if isinstance(form.signal, Tokens):
        return f"{form.signal.vocab:,} symbols"
    return f"{form.signal.channels} channel{'s' * (form.signal.channels > 1)}"


def _labels(examples: SequenceDataset, form: SequenceSpec) -> np.ndarray:
    """Return all labels of a split as a flat array; an example can have several."""
    targets = examples.targets[examples.labelled].numpy()
    if isinstance(form.target, ClassSets):
        return np.nonzero(targets > 0)[1]
    return targets[targets >= 0] if isinstance(form.target, PositionClasses) else targets


def _label_text(target: np.ndarray, form: SequenceSpec) -> str:
    """Return the label as text; for classes of positions, the count of each class."""
    if isinstance(form.target, Reals):
        return "unlabelled" if np.isnan(target) else f"{form.target.name} {float(target):.4g}"
    names = [printable(name) for name in form.target.names]
    if (target < 0).all():
        return "unlabelled"
    if isinstance(form.target, Classes):
        return names[int(target)]
    if isinstance(form.target, ClassSets):
        return ", ".join(names[k] for k in np.flatnonzero(target > 0)) or "no label"
    counts = np.bincount(target[target >= 0], minlength=len(names))
    return ", ".join(f"{counts[k]:,} {names[k]}" for k in np.argsort(-counts, kind="stable") if counts[k])
