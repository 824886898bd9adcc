"""Builds a dataset from what has been read: checks values, chooses the smallest dtype, assigns splits."""

from collections.abc import Callable
from dataclasses import asdict, replace
from typing import Any

import numpy as np
import pyarrow.compute as pc

from ...errors import DataError, join_names
from ..moments import BYTES, Spans, fit_values, in_blocks, max_symbol, nan_spans
from ..near_duplicates import find_similar, fingerprints
from ..offsets import BLUR, EXACT, Offsets, blurred, centred, offsets_of
from ..sequences import MAX_TOKENS, Sequences, interpolate, not_tokens
from ..spec import SPLITS, SequenceSpec, Signal, Tokens
from ..splits import MIN_GROUPS, assign_splits, split_number
from ..store import DatasetWriter, StoredDataset
from . import MissingPolicy
from .label_columns import LabelColumn, lookalikes
from .options import ImportOptions
from .plan import ImportPlan, without_labels
from .source import first_true

CHOICES = (
    "--missing drop leaves the row out, cut ends it where only missing values follow, fill interpolates, "
    "mask fills and marks"
)
SUSPICIOUS = 0.02
"""Maximum share of val and test sequences with a near-duplicate in train; above it, the user is warned."""


def build(out: DatasetWriter, plan: ImportPlan, about: dict[str, Any]) -> StoredDataset:
    """Check sequences, assign splits, measure statistics, and write all; notes for the user are in ``about``.

    Raises:
        DataError: naming the first sequence, label or split that cannot be used.
    """
    found = plan.sequences
    options = plan.options
    label_column = LabelColumn(options.target, join_names([options.label or "label"]), plan.classes)
    if options.target == "positions" and options.missing == "cut":
        raise DataError("--missing cut leaves labels of positions without a place; use fill or drop")
    if plan.signal != "values" and options.missing not in ("refuse", "drop"):
        raise DataError(
            f"--missing {options.missing} is for values, and these are {plan.signal}; leave it out"
        )
    if not len(found.lengths):
        raise DataError("there is no sequence to import")
    counts: dict[str, int] = {}
    found = label_column.separate(without_labels(found, counts), plan.name)
    found, offsets = _usable(found, plan, counts)
    if not len(found.lengths):
        raise DataError("there is no sequence to import")
    flat = _tokens(found, plan) if plan.signal == "tokens" else found.flat
    lengths = found.lengths
    groups = _numbers(found, "group", plan) if "group" in found.columns else None
    given = _numbers(found, "split", plan) if "split" in found.columns else None
    equal, sketch = fingerprints(flat, lengths)

    labels = label_column.encode(found, plan.name)
    strata = labels.strata
    if (different := len(np.unique(equal[strata >= 0]))) < len(SPLITS):
        raise DataError(
            f"{different} different sequences with a label cannot fill three splits, and equal ones are "
            f"never in two; give more examples"
        )
    split, split_notes = assign_splits(strata, groups, given, equal, options.split_seed)
    counts = {
        f"of {len(equal):,} sequences are copies of others": len(equal) - len(np.unique(equal)),
        "sequences have no label; they serve pretraining": int((split[strata < 0] == 0).sum()),
        "sequences without a label are in val or test, and serve nothing": int((split[strata < 0] > 0).sum()),
    } | counts
    notes = [f"{count:,} {what}" for what, count in counts.items() if count]
    notes += split_notes + _on_numbers(found) + labels.check(split, split >= 0)
    if groups is not None:  # a score on one patient says little about others
        held = [(name, len(np.unique(groups[split == i]))) for i, name in enumerate(SPLITS)]
        few = ", ".join(f"{name} holds {count}" for name, count in held if count < MIN_GROUPS)
        notes += [f"of {len(np.unique(groups)):,} groups {few}; scores rest on so few"] if few else []
        notes += lookalikes(found.columns["group"].unique().to_pylist(), "groups")
    notes += _near_duplicates(flat, sketch, lengths, split, groups)

    symbols = int(flat.max()) + 1 if plan.signal == "tokens" else 0
    signal, stored, unknown = _signal(flat, lengths, split == 0, plan)
    if isinstance(signal, Tokens) and symbols > signal.vocab:
        notes.append(
            f"symbols of val and test from {signal.vocab:,} on are not in train; they are read as "
            f"{signal.vocab - 1:,}, the greatest that is"
        )
    starts, lengths, rows = _windows(lengths, np.flatnonzero(split >= 0), options)
    # Windows of one sequence overlap or resemble each other: they are not independent examples.
    if options.window and groups is None:
        groups = np.arange(len(split))
    out.append(stored)
    targets = labels.of_examples(starts, lengths, rows)
    out.add_examples(starts, lengths, targets, split[rows], None if groups is None else groups[rows])
    subtracted = Offsets(offsets, label_column.offset).padded(out.channels)
    facts: dict[str, Any] = {
        "options": asdict(options),
        "kind": found.kind,
        "notes": [*plan.notes, *label_column.notes, *subtracted.notes(), *notes],
        "unknown": unknown,
        "val_given": given is not None and bool((given == SPLITS.index("val")).any()),
    }
    if subtracted != Offsets():
        facts["offsets"] = asdict(subtracted)
    if symbols:
        facts["symbols"] = symbols
    return out.finish(SequenceSpec(signal, int(lengths.max()), labels.target(split)), about | facts)


def _usable(
    found: Sequences, plan: ImportPlan, counts: dict[str, int]
) -> tuple[Sequences, tuple[float, ...]]:
    """Handle missing values, drop empty sequences, and truncate; also return what was subtracted."""
    options = plan.options
    before = len(found.lengths)
    offsets: tuple[float, ...] = ()
    kept_as_is = found.flat.dtype in (np.uint8, np.int16) and options.missing != "mask"
    if plan.signal == "values" and not kept_as_is:
        offsets = offsets_of(found.flat)  # without them, float32 would blur the values
        flat = centred(found.flat, offsets)
        counts["whole numbers among the values are rounded to float32"] = _rounded(flat)
        counts[f"sequences {BLUR}"] = blurred(flat, found.lengths)
        found = _fill_missing(replace(found, flat=flat), options.missing, plan)
    elif options.missing == "drop" and found.flat.dtype.kind == "f" and found.flat.ndim == 1:
        found = found.take(~found.owners(np.isnan(found.flat)))
    empty = found.lengths == 0
    if empty.any():
        if options.missing != "drop":
            name = plan.name(int(found.rows[empty.argmax()]))
            raise DataError(f"{name}: there is no sequence; --missing drop leaves such rows out")
        found = found.take(~empty)
    counts["rows with missing values are left out"] = before - len(found.lengths)
    if options.length and (long := found.lengths > options.length).any():
        counts[f"sequences are cut to {options.length} positions"] = int(long.sum())
        found = found.truncated(np.full_like(found.lengths, options.length))
    return found, offsets


def _fill_missing(found: Sequences, policy: MissingPolicy, plan: ImportPlan) -> Sequences:
    """Return the values (T, C) as float32 without NaN, except where a channel of a row is missing throughout.

    refuse  is the default: an error names the position
    drop    leaves out rows with a missing value
    cut     ends a row where only missing values follow; missing values before that are refused
    fill    interpolates linearly; before the first and after the last known value, repeats that value
    mask    fills, and adds one channel per channel: 1 where the value was known
    """
    with np.errstate(over="ignore"):
        found = replace(found, flat=found.flat.astype(np.float32))
    if policy == "mask":
        marks = np.isfinite(found.flat).astype(np.float32)
        return replace(found, flat=np.concatenate([interpolate(found.flat, found.lengths), marks], axis=1))
    if policy == "fill":
        return replace(found, flat=interpolate(found.flat, found.lengths))
    if policy == "drop":
        return found.take(~found.owners(~np.isfinite(found.flat).all(1)))
    if policy == "cut":
        found = found.until_known(np.isfinite(found.flat).any(1))
    unknown = ~np.isfinite(found.flat)
    if not unknown.any():
        return found
    raise DataError(f"{plan.place(found, unknown)} is missing, infinite or beyond float32; {CHOICES}")


def _tokens(found: Sequences, plan: ImportPlan) -> np.ndarray:
    """Return tokens as integers.

    Raises:
        DataError: if they have channels, or naming the first number that is no token.
    """
    flat = found.flat
    if flat.ndim > 1:
        raise DataError(
            f"the sequences have {flat.shape[1]} channels, and tokens have none; name one column, or use "
            f"--kind values"
        )
    if flat.dtype == np.uint8:
        return flat
    wrong = not_tokens(flat)
    if wrong.any():
        raise DataError(
            f"{plan.place(found, wrong)} is {flat[wrong][0]}, not a token: these are whole numbers from 0 to "
            f"{MAX_TOKENS - 1:,}; use --kind values"
        )
    return flat.astype(np.int32)


def _numbers(found: Sequences, role: str, plan: ImportPlan) -> np.ndarray:
    """Return (n,) the number of each sequence's group, by first appearance, or split."""
    column = found.columns[role]
    name = plan.options.roles.get(role, "groups" if role == "group" else role)
    if column.null_count:
        row = int(found.rows[first_true(column.is_null())])
        raise DataError(f"{plan.name(row)}: {name} is empty; every sequence needs one")
    encoded = column.dictionary_encode()
    codes = encoded.indices.to_numpy().astype(np.int64)
    if role == "group":
        return codes
    words = encoded.dictionary.to_pylist()
    if set(words) == {"0", "1"}:
        raise DataError(f"{name} holds 0 (train) and 1 (val), but no 2 (test); if 1 is test, write the words")
    return np.array([split_number(word) for word in words], dtype=np.int64)[codes]


def _on_numbers(found: Sequences) -> list[str]:
    """Return a note if splits are numbers, which may be those of folds."""
    if "split" not in found.columns or not pc.any(pc.utf8_is_digit(found.columns["split"])).as_py():
        return []
    return ["split: 0 is train, 1 is val, 2 is test; if these number folds, give them to --group"]


def _windows(
    lengths: np.ndarray, rows: np.ndarray, options: ImportOptions
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return start, length and sequence of every example: a whole sequence, or one of its windows."""
    starts = lengths.cumsum() - lengths
    size = options.window
    if not size:
        return starts[rows], lengths[rows], rows
    stride = options.stride or size
    count = np.maximum(lengths[rows] - size, 0) // stride + 1
    inside = np.arange(int(count.sum())) - np.repeat(count.cumsum() - count, count)
    rows = np.repeat(rows, count)
    return starts[rows] + inside * stride, lengths[rows].clip(max=size), rows


def _signal(
    flat: np.ndarray, lengths: np.ndarray, train: np.ndarray, plan: ImportPlan
) -> tuple[Signal, np.ndarray, Spans]:
    """Return the signal measured on the training split, the sequences as they are stored, and unknown spans.

    They are stored in a smaller dtype if nothing is lost.
    """
    if plan.signal == "tokens":
        stored = flat.astype(np.uint8) if flat.max() < BYTES else flat
        return Tokens(plan.vocab or max_symbol(flat, lengths, train) + 1), stored, []
    values = fit_values(in_blocks(flat, []), lengths, train)
    if flat.dtype == np.uint8:
        return replace(values, levels=256, low=0.0, high=255.0), flat, []
    if flat.dtype == np.int16:
        return values, flat, []
    low = np.fmin.reduce(flat, axis=None)  # fmin and fmax ignore NaN
    high = np.fmax.reduce(flat, axis=None)
    if (np.rint(flat) == flat).all() and low >= -(2**15) and high < 2**15:
        return values, flat.astype(np.uint8 if 0 <= low <= high < 256 else np.int16), []
    # NaN is left only where a channel of a sequence is missing throughout; the mean replaces it.
    unknown = nan_spans(flat)
    return values, np.where(np.isnan(flat), np.array(values.centre, dtype=np.float32), flat), unknown


def _near_duplicates(
    flat: np.ndarray, sketch: np.ndarray, lengths: np.ndarray, split: np.ndarray, groups: np.ndarray | None
) -> list[str]:
    """Return a note if many sequences of val and test resemble one of train."""
    ends = lengths.cumsum()
    train = np.flatnonzero(split == 0)
    held = np.flatnonzero(split > 0)

    def sequence(rows: np.ndarray) -> Callable[[int], np.ndarray]:
        return lambda place: flat[ends[rows[place]] - lengths[rows[place]] : ends[rows[place]]]

    count = len(find_similar(sketch[held], sketch[train], sequence(held), sequence(train)))
    if count <= SUSPICIOUS * len(held):
        return []
    advice = "is the group right?" if groups is not None else "--group COLUMN keeps what belongs together"
    return [
        f"{count:,} of {len(held):,} val and test sequences share half of their content with one of "
        f"train; are they overlapping windows of one recording? {advice}"
    ]


def _rounded(flat: np.ndarray) -> int:
    """Count whole numbers that float32 cannot represent, such as counts and times beyond 16,777,216."""
    if flat.dtype.itemsize < 4 or flat.dtype == np.float32 or not flat.size:  # most are, and may be large
        return 0
    large = flat[(np.abs(flat) > EXACT) & np.isfinite(flat)]
    with np.errstate(over="ignore"):
        return int(((large % 1 == 0) & (large.astype(np.float32) != large)).sum())
