"""Data passed to an estimator, as a task in the memory of this process."""

import hashlib
import json
import warnings
from dataclasses import asdict, dataclass, replace
from typing import Any, ClassVar, Literal

import numpy as np
import torch

from ..data.dataset import SequenceDataset, concatenated
from ..data.moments import BYTES, clip_tokens, fit_target, fit_values, nan_spans
from ..data.offsets import Offsets
from ..data.sequences import SequenceKind, Sequences
from ..data.spec import SPLITS, Classes, Reals, SequenceSpec, Signal, Split, Target, Tokens
from ..data.splits import split_rows
from ..data.store import StoredDataset
from ..errors import DataError
from ..registry import name_of
from ..system.files import Json
from ..tasks.base import Card, Task
from ..tasks.imported import Imported
from .annotations import Annotations, copies_together, groups_together, mean_one
from .inputs import Alphabet

ASCII = tuple(map(chr, range(128)))


@dataclass(frozen=True, init=False, eq=False, repr=False)
class InMemoryTask(Task):
    """Sequences and labels in the memory of this process.

    Saving, pickling and copying keep the digest of the data, not the data.
    """

    card = Card(source="data of the user", licence="that of the data")
    name: ClassVar[str] = "given"

    digest: str  # SHA-256 of the data, computed when it is first asked for

    def __init__(self, data: StoredDataset | None = None, digest: str = "") -> None:
        vars(self)["held"] = data  # set like this, since the class is frozen
        if data is None:
            vars(self)["digest"] = digest

    def __getattr__(self, name: str) -> str:
        if name != "digest":
            raise AttributeError(name)
        return vars(self).setdefault("digest", _digest(self.data()))

    def __eq__(self, other: object) -> bool:
        """Return whether both have the same data."""
        if not isinstance(other, InMemoryTask):
            return False
        mine, its = (vars(each)["held"] for each in (self, other))
        if mine is None or its is None:
            return self.digest == other.digest
        # Folds, which differ in their splits, are told apart without hashing.
        return mine is its or (np.array_equal(mine.split, its.split) and self.digest == other.digest)

    def __hash__(self) -> int:
        return hash(self.digest)

    def __reduce__(self) -> tuple[Any, ...]:
        return InMemoryTask, (None, self.digest)

    def data(self) -> StoredDataset:
        """Return the data.

        Raises:
            DataError: if they are no longer in memory.
        """
        if (held := vars(self)["held"]) is None:
            raise DataError("the data of this run were in the memory of a program that has ended; fit again")
        return held

    @property
    def form(self) -> SequenceSpec:
        """Return the spec that was inferred when the data were passed in."""
        return self.data().form

    def load(self, split: Split) -> SequenceDataset:
        """Return the examples of one split; those of train if val is empty, because too few are labelled."""
        held = self.data()
        empty = split == "val" and not (held.split == SPLITS.index(split)).any()
        if split == "train" or empty:
            return held.examples("train")
        return clip_tokens(held.examples(split), held.form)


def _digest(data: StoredDataset) -> str:
    found = hashlib.sha256(json.dumps(asdict(data.form), sort_keys=True).encode())
    whole = data.whole
    for part in (whole.flat, whole.starts, whole.lengths, whole.targets, whole.groups, whole.weights):
        found.update(b"|" if part is None else f"{part.dtype}{tuple(part.shape)}".encode())
        if part is not None:
            found.update(part.contiguous().numpy().tobytes())
    found.update(data.split.astype(np.int8).tobytes())
    if data.offsets != Offsets():
        found.update(repr(data.offsets).encode())
    return found.hexdigest()


def can_have_signs(data: StoredDataset) -> bool:
    """Return whether sequences are symbols, and neither pairs nor overlapping windows."""
    apart = data.whole.views == 1 and len(data.whole.flat) >= int(data.whole.lengths.sum())
    return apart and isinstance(data.form.signal, Tokens)


def in_alphabet(
    data: StoredDataset, kind: Literal["text", "tokens"], signs: bool
) -> tuple[StoredDataset, Alphabet | None]:
    """Return sequences of symbols in an alphabet with an unknown symbol, and that alphabet.

    Symbols of val and test beyond the greatest of train become unknown. Values, pairs and overlapping windows
    are returned unchanged, with None: such windows do not begin where a sequence begins.

    Args:
        signs: whether a begin and an end symbol are put around every sequence.
    """
    whole = data.whole
    if not can_have_signs(data):
        return data, None
    lengths = whole.lengths[0].numpy()
    alphabet = Alphabet.of(kind, signs)
    assert alphabet is not None  # only values have none
    flat = concatenated(whole)
    found = Sequences(kind, flat, lengths, np.arange(len(lengths)))
    found = alphabet.with_signs(alphabet.shifted(found))
    alphabet = alphabet.fit(found.take(data.split == SPLITS.index("train")))
    examples = alphabet.with_unknown(found).dataset(whole.targets.numpy())
    examples = replace(examples, groups=whole.groups, weights=whole.weights)
    form = replace(data.form, signal=Tokens(alphabet.vocab), length=data.form.length + alphabet.signs)
    return replace(data, form=form, whole=examples), alphabet


def has_val(task: Task) -> bool:
    """Return whether a task has a val split; in memory it has none if too few examples are labelled."""
    return not isinstance(task, InMemoryTask) or bool((task.data().split == SPLITS.index("val")).any())


def with_test_split(task: Task, seed: int) -> Task:
    """Return a task with a test split: the task itself, or in-memory data without one, split again.

    Of in-memory data, 15 % of the labelled examples, or of their groups, are val and 15 % test. Statistics
    (centre, spread, range, vocabulary, scale of real targets, mean weight) are computed again, on train.

    Raises:
        DataError: if there are too few labelled examples, or groups.
    """
    if not isinstance(task, InMemoryTask) or (task.data().split == SPLITS.index("test")).any():
        return task
    held = task.data()
    whole = held.whole
    rows = whole.labelled.numpy().nonzero()[0]
    one = isinstance(held.form.target, Classes)
    classes = whole.targets.numpy()[rows] if one else np.zeros(len(rows), int)
    groups = None if whole.groups is None else whole.groups.numpy()[rows]
    split = np.zeros(len(held.split), dtype=np.int64)  # unlabelled examples are in train, or with their group
    split[rows] = split_rows(classes, groups, seed)
    split = groups_together(copies_together(split, whole), whole)
    if not {0, 1, 2} <= set(split[rows].tolist()):
        raise DataError(f"{len(rows)} labelled examples are too few for train, val and test; give more")
    divided = held.with_split(split)
    whole = divided.whole
    if whole.weights is not None:
        weights = mean_one(held.meta["weights"], (split == 0) & whole.labelled.numpy())
        divided = replace(divided, whole=replace(whole, weights=weights))
    return InMemoryTask(divided)


def facts(task: Task) -> Json:
    """Return the data section of the model card."""
    form = task.form
    train = task.load("train")
    signal: SequenceKind = "values"
    if isinstance(form.signal, Tokens):
        held = task.data() if isinstance(task, InMemoryTask | Imported) else None
        # Tokens of tasks of ours are text if all bytes are possible, or if they are ASCII.
        is_text = held.is_text if held else form.signal == Tokens(BYTES) or task.symbols() == ASCII
        signal = "text" if is_text else "tokens"
    return {
        "task": name_of(task),
        "train": len(train),
        "labelled": int(train.labelled.sum()),
        "val": len(task.load("val")) if has_val(task) else 0,
        "length": form.length,
        "signal": signal,
        "digest": task.version() or getattr(task, "digest", ""),
        "licence": task.card.licence,
        "source": task.card.source,
    }


def training_data(
    found: Sequences,
    alphabet: Alphabet | None,
    target: Target,
    annotations: Annotations,
    offsets: Offsets,
    share: float,
    seed: int,
) -> tuple[StoredDataset, Alphabet | None]:
    """Return sequences split into train and val, with the statistics of train, and the alphabet of train.

    Args:
        share: of the labelled examples, for val; see ``Annotations.divided``.
    """
    if alphabet is not None:
        found = alphabet.with_signs(alphabet.shifted(found))
    given, why = annotations.divided(share, seed)
    examples = replace(found.dataset(annotations.targets), groups=annotations.group_numbers)
    split = groups_together(copies_together(given, examples), examples)
    if given[annotations.labelled].any() and not split[annotations.labelled].any():
        said = "all labelled sequences, or those of a class, are copies, or in groups that share copies"
        # Level 4 is the caller of fit.
        warnings.warn(f"{said}: nothing is held out, and nothing compared", stacklevel=4)
        split = np.zeros_like(split)  # no unlabelled examples, either
    train = split == 0
    signal: Signal
    if alphabet is None:
        signal = fit_values(iter([found.flat]), found.lengths, train)
    else:
        alphabet = alphabet.fit(found.take(train))
        found = alphabet.with_unknown(found)
        signal = Tokens(alphabet.vocab)
    if isinstance(target, Reals):
        target = fit_target(target, annotations.targets[train])
    examples = found.examples(signal, annotations.targets)
    examples = replace(examples, groups=annotations.group_numbers)
    weights = annotations.weights
    if weights is not None and len(np.unique(weights[annotations.labelled])) > 1:
        examples = replace(examples, weights=mean_one(weights, train & annotations.labelled))
    unknown = nan_spans(found.flat) if found.kind == "values" else []
    about: dict[str, Any] = {"unknown": unknown, "kind": found.kind, "not by class": why}
    if offsets != Offsets():
        about["offsets"] = asdict(offsets)
    meta = {"about": about, "weights": weights}
    form = SequenceSpec(signal, int(found.lengths.max()), target)
    return StoredDataset(form, meta, examples, split), alphabet


def offsets_of(task: Task) -> Offsets:
    """Return what was subtracted from the values and targets of a task."""
    return task.data().offsets if isinstance(task, InMemoryTask | Imported) else Offsets()


def moved(examples: SequenceDataset, given: Offsets, wanted: Offsets) -> SequenceDataset:
    """Return examples from which the wanted offsets are subtracted instead of the given ones.

    Targets stay as they are.
    """
    if given.values == wanted.values or not examples.flat.is_floating_point():
        return examples
    channels = examples.flat.shape[1]
    levels = [np.array(each.values or [0.0] * channels) for each in (given, wanted)]
    if any(len(level) != channels for level in levels):
        return examples  # the network refuses another number of channels
    flat = examples.flat.double() + torch.from_numpy(levels[0] - levels[1])
    return replace(examples, flat=flat.float())
