"""Summaries and previews of a task's data, for ``selfpretrain data list`` and ``selfpretrain data show``.

A preview shows some sequences of a split, then labels and lengths of all splits, as text in the terminal
(``examples/draw_data.py`` draws a figure). Square sequences of grey or coloured pixels are drawn as images,
channels as bars, tokens as text.
"""

import math
import re
import textwrap
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch

from ...data import paths
from ...data.dataset import SequenceDataset, generator
from ...data.moments import BYTES
from ...data.paths import imported_datasets
from ...data.spec import SPLITS, Classes, ClassSets, PositionClasses, Reals, SequenceSpec, Split, Tokens
from ...errors import DataError, printable
from ...registry import find, name_of, names
from ..base import Task
from ..common.stored import Prepared
from ..imported import Imported

if TYPE_CHECKING:
    from rich.console import RenderableType

UNKNOWN = "\N{EN DASH}"  # placeholder for facts that are unknown until the data exist
WIDTH = 76  # characters per line
MAX_LINES = 3  # maximum lines per text
MAX_SIDE = 32  # maximum pixels per side of an image
MAX_LEVELS = 256
"""Maximum levels of a pixel; finer values are not drawn as an image, even if their number is a square."""
MAX_CHANNELS = 6  # maximum channels to draw
MAX_CLASSES = 12  # maximum classes to list; the most frequent ones are shown
MAX_BINS = 30  # maximum bins of a histogram
GREYS = " .:-=+*#%@"
BARS = "▁▂▃▄▅▆▇█"


@dataclass(frozen=True)
class PreviewItem:
    """One sequence and its caption."""

    caption: str
    sequence: np.ndarray  # (L,) tokens or (L, C) values


@dataclass(frozen=True)
class Preview:
    """The contents of a preview: a sample of sequences, and labels and lengths of all splits."""

    title: str
    shown: tuple[PreviewItem, ...]
    targets: Mapping[str, np.ndarray]  # by split: (n,) classes or real numbers, of labelled examples
    lengths: Mapping[str, np.ndarray]  # by split: (n,)
    names: tuple[str, ...] = ()  # of classes; empty: real targets
    symbols: tuple[str, ...] | None = None  # text of each token; None: shown as numbers
    levels: int | None = None  # number of distinct values from ``low`` to ``high``; None: continuous
    low: float = 0.0
    high: float = 1.0

    @property
    def kind(self) -> str:
        """Return the kind of drawing: text, image or wave."""
        sequences = [shown.sequence for shown in self.shown]
        if sequences[0].ndim == 1:
            return "text"
        square = all(math.isqrt(len(s)) ** 2 == len(s) > 1 for s in sequences)
        few_levels = self.levels is not None and self.levels <= MAX_LEVELS
        return "image" if square and few_levels and sequences[0].shape[1] in (1, 3) else "wave"

    @property
    def one_length(self) -> bool:
        """Return whether all sequences are equally long."""
        return len(set(np.concatenate(list(self.lengths.values())).ravel().tolist())) == 1

    def class_shares(self, most: int) -> tuple[list[str], dict[str, np.ndarray]]:
        """Return the names of the ``most`` frequent classes, and the share of each by split, in %."""
        n_classes = len(self.names)
        shares = {
            split: 100 * np.bincount(y, minlength=n_classes) / max(len(y), 1)
            for split, y in self.targets.items()
        }
        chosen = np.sort(np.argsort(-shares["train"], kind="stable")[:most])
        return [self.names[k] for k in chosen], {split: part[chosen] for split, part in shares.items()}

    def image(self, values: np.ndarray) -> np.ndarray:
        """Return the (S, S) or (S, S, 3) brightness in [0, 1] of a square sequence."""
        side = math.isqrt(len(values))
        square = ((values - self.low) / (self.high - self.low)).reshape(side, side, -1)
        return square[:, :, 0] if square.shape[2] == 1 else square

    def text(self, tokens: np.ndarray) -> str:
        """Return tokens as one line of text; characters that cannot be printed become a dot."""
        if self.symbols is None:
            return " ".join(map(str, tokens.tolist()))
        text = "".join(self.symbols[token] for token in tokens.tolist())
        text = text.encode(errors="surrogateescape").decode(errors="replace")  # letters of several bytes
        return "".join(c if c.isprintable() else " " if c.isspace() else "·" for c in text)


def bins(values: np.ndarray) -> np.ndarray:
    """Return the edges of at most ``MAX_BINS`` bins; for integers, bins hold equally many values."""
    low = float(values.min())
    high = float(values.max())
    if values.dtype.kind == "f":
        return np.linspace(low, high if high > low else low + 1, MAX_BINS + 1)
    step = -(-(high - low + 1) // MAX_BINS)
    return np.arange(low - 0.5, high + step, step)


def render_text(view: Preview) -> "RenderableType":
    """Return the preview as a renderable for a rich console."""
    from rich.columns import Columns
    from rich.console import Group
    from rich.text import Text

    drawn = [
        Text("\n".join(["", shown.caption, *_lines(view, shown.sequence)]), no_wrap=True)
        for shown in view.shown
    ]
    side_by_side = [Columns(drawn, padding=(0, 3))] if view.kind == "image" else drawn
    lengths = [] if view.one_length else _histogram_lines("lengths", view.lengths)
    below = [Text(line) for line in ["", *_label_lines(view), *lengths]]
    return Group(Text(view.title, style="bold"), *side_by_side, *below)


def _lines(view: Preview, sequence: np.ndarray) -> list[str]:
    """Return the lines of one sequence."""
    if view.kind == "image":  # two characters per pixel, since characters are twice as high as wide
        grey = view.image(sequence)
        grey = grey.mean(-1) if grey.ndim == 3 else grey
        step = -(-len(grey) // MAX_SIDE)
        side = len(grey) // step * step
        small = grey[:side, :side].reshape(side // step, step, side // step, step).mean((1, 3))
        return ["".join(2 * GREYS[k] for k in row) for row in _levels(small, len(GREYS))]
    if view.kind == "wave":  # a bar is the maximum of a segment: the mean of a sound is about zero
        edges = np.unique(np.linspace(0, len(sequence), WIDTH + 1).astype(int))
        peaks = np.maximum.reduceat(sequence[:, :MAX_CHANNELS].astype(np.float64), edges[:-1])
        span = np.ptp(peaks, axis=0)
        return [_bars(channel) for channel in ((peaks - peaks.min(0)) / np.where(span > 0, span, 1.0)).T]
    text = view.text(sequence[: WIDTH * MAX_LINES])
    lines = textwrap.wrap(text, WIDTH, max_lines=MAX_LINES, placeholder=" …", drop_whitespace=False)
    return lines or [""]


def _bars(shares: np.ndarray) -> str:
    return "".join(BARS[k] for k in _levels(shares, len(BARS)))


def _levels(shares: np.ndarray, number: int) -> np.ndarray:
    """Map shares in [0, 1] to integers 0..number-1."""
    return (shares * number).astype(int).clip(0, number - 1)


def _label_lines(view: Preview) -> list[str]:
    if not view.names:
        return _histogram_lines("targets", view.targets)
    names, shares = view.class_shares(MAX_CLASSES)
    head = "labels in %"
    width = max(map(len, [head, *view.names]))
    lines = [head.ljust(width) + "".join(f"{split:>8}" for split in shares)]
    for name, row in zip(names, zip(*shares.values(), strict=True), strict=True):
        lines.append(name.ljust(width) + "".join(f"{share:8.1f}" for share in row))
    rest = len(view.names) - len(names)
    return lines + ([f"and {rest} rarer classes"] if rest else [])


def _histogram_lines(what: str, values: Mapping[str, np.ndarray]) -> list[str]:
    pooled = np.concatenate(list(values.values()))
    edges = bins(pooled)
    lines = [f"{what}: {pooled.min():,.6g} to {pooled.max():,.6g}, median {np.median(pooled):,.6g}"]
    for split, of_split in values.items():
        counts = np.histogram(of_split, edges)[0]
        bars = zip(_bars(counts / max(counts.max(), 1)), counts, strict=True)
        lines.append(f"{split:<6}" + "".join(bar if count else " " for bar, count in bars))
    return lines


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
    found = re.search(r"\d[\d,]* / \d[\d,]* / \d[\d,]*\b", task.card.counts)
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
    return "to get" if task.downloads or task.wheels else "to place"


def preview(task: Task, split: Split, number: int) -> Preview:
    """Return a fixed random sample of ``number`` examples of a split, and labels and lengths of all splits.

    Raises:
        DataError: if the split has no example.
    """
    form = task.form
    offset = offset_of_labels(task)
    splits = {split: task.load(split) for split in SPLITS}
    if not len(splits[split]):
        raise DataError(f"the {split} split of {name_of(task)} has no example")
    chosen = torch.randperm(len(splits[split]), generator=generator("look", split))[:number]
    values = None if isinstance(form.signal, Tokens) else form.signal
    views = [""] if form.views == 1 else [f", sequence {v + 1} of {form.views}" for v in range(form.views)]
    shown = []
    for row in chosen.tolist():
        label = _label_text(splits[split].targets[row].numpy(), form, offset)
        shown += [PreviewItem(label + view, splits[split].sequence(row, v)) for v, view in enumerate(views)]
    drawn = [pixels for one in shown if (pixels := task.pixels(one.sequence)) is not None]
    if drawn:
        shown = [PreviewItem(one.caption, pixels) for one, pixels in zip(shown, drawn, strict=True)]
    return Preview(
        title=f"{name_of(task)}, {split}: {signal(form)}, {form.length:,} positions at most",
        shown=tuple(shown),
        targets={split: _labels(e, form, offset) for split, e in splits.items()},
        lengths={split: e.longest.numpy() for split, e in splits.items()},
        names=() if isinstance(form.target, Reals) else tuple(map(printable, form.target.names)),
        symbols=_symbols(task) if values is None else None,
        levels=MAX_LEVELS if drawn else values.levels if values else None,
        low=values.low if values else 0.0,
        high=values.high if values else 1.0,
    )


def _symbols(task: Task) -> tuple[str, ...] | None:
    """Return the text of each token, in imported texts of each byte; None if tokens are numbers."""
    source = task.origin
    if isinstance(source, Imported) and source.data().is_text:
        return tuple(bytes([byte]).decode(errors="surrogateescape") for byte in range(BYTES))
    return task.symbols()


def signal(form: SequenceSpec) -> str:
    """Describe a position, e.g. "15 symbols" or "2 channels"."""
    if isinstance(form.signal, Tokens):
        return f"{form.signal.vocab:,} symbols"
    return f"{form.signal.channels} channel{'s' * (form.signal.channels > 1)}"


def offset_of_labels(task: Task) -> float:
    """Return what an import has subtracted from real labels, 0 for other tasks."""
    source = task.origin
    return source.data().offsets.target if isinstance(source, Imported) else 0.0


def number_text(value: float, offset: float) -> str:
    """Return a real label as text, with what was subtracted from it: then with the digits that differ."""
    return f"{value + offset:.{12 if offset else 4}g}"


def _labels(examples: SequenceDataset, form: SequenceSpec, offset: float) -> np.ndarray:
    """Return all labels of a split as a flat array; an example can have several."""
    targets = examples.targets[examples.labelled].numpy()
    if isinstance(form.target, Reals):
        return targets.astype(np.float64) + offset
    if isinstance(form.target, ClassSets):
        return np.nonzero(targets > 0)[1]
    return targets[targets >= 0] if isinstance(form.target, PositionClasses) else targets


def _label_text(target: np.ndarray, form: SequenceSpec, offset: float) -> str:
    """Return the label as text; for classes of positions, the count of each class."""
    if isinstance(form.target, Reals):
        return (
            "unlabelled" if np.isnan(target) else f"{form.target.name} {number_text(float(target), offset)}"
        )
    names = [printable(name) for name in form.target.names]
    if (target < 0).all():
        return "unlabelled"
    if isinstance(form.target, Classes):
        return names[int(target)]
    if isinstance(form.target, ClassSets):
        return ", ".join(names[k] for k in np.flatnonzero(target > 0)) or "no label"
    counts = np.bincount(target[target >= 0], minlength=len(names))
    return ", ".join(f"{counts[k]:,} {names[k]}" for k in np.argsort(-counts, kind="stable") if counts[k])
