"""Builds a prepared dataset from parts: checks values, chooses the smallest dtype, assigns splits."""

from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ...errors import DataError, join_names
from ..labels import LabelColumn
from ..moments import BYTES, Spans, fit_values, max_symbol, nan_spans
from ..near_duplicates import find_similar, fingerprints
from ..offsets import BLUR, EXACT, Offsets, blurred, centred, offsets_of
from ..spec import SPLITS, SequenceSpec, Signal, Tokens, Values
from ..splits import ENOUGH_GROUPS, UNLABELLED, assign_splits, split_number
from ..store import DatasetWriter, StoredDataset
from .options import ImportOptions
from .source import Part, Source, fill_missing, positions

MOST_TOKENS = 1 << 24
SUSPICIOUS = 0.02
"""Maximum share of val and test sequences with a near-duplicate in train; above it, the user is warned."""


@dataclass
class SetBuilder:
    """State of an import: everything except the sequences, which the writer has."""

    out: DatasetWriter
    source: Source
    options: ImportOptions
    labels: LabelColumn = field(init=False)
    dropped: int = 0
    shortened: int = 0
    rounded: int = 0
    ignored: int = 0
    blurred: int = 0
    offsets: tuple[float, ...] | None = None  # of the values, from the first part
    low: float = np.inf
    high: float = -np.inf
    is_whole: bool = True
    unknown: Spans = field(default_factory=list)
    groups: dict[str, int] = field(default_factory=dict)
    _columns: dict[str, list[np.ndarray]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.labels = LabelColumn(self.options.target, join_names([self.options.label or "label"]))
        if self.options.target == "positions" and self.options.missing == "cut":
            raise DataError("--missing cut leaves labels of positions without a place; use fill or drop")

    def add(self, part: Part) -> None:
        """Check and store a part.

        Raises:
            DataError: naming the first sequence that cannot be used.
        """
        part = self._usable(self.labels.separate(self._unlabelled(part), self.source.name))
        if not len(part.lengths):
            return
        flat = self._stored(part)
        self.labels.add(part)
        if "group" in part.columns:
            self._keep("groups", self._numbered(part, "group", self._group))
        if "split" in part.columns:
            self._keep("split", self._numbered(part, "split", split_number))
        equal, sketch = fingerprints(flat, part.lengths)
        self._keep("lengths", part.lengths)
        self._keep("equal", equal)
        self._keep("sketch", sketch)
        self.out.append(flat)

    def _unlabelled(self, part: Part) -> Part:
        """Return the part without labels where the split is called unlabelled; these are for train."""
        if "split" not in part.columns:
            return part
        split, label = part.columns["split"], part.columns["label"]
        extra = pc.fill_null(pc.is_in(pc.utf8_lower(split), pa.array(UNLABELLED, split.type)), False)
        self.ignored += pc.sum(pc.and_(extra, label.is_valid())).as_py() or 0
        kept = pc.if_else(extra, None, np.arange(len(split)))
        columns = {"label": label.take(kept), "split": pc.if_else(extra, SPLITS[0], split)}
        return replace(part, columns=part.columns | columns)

    def _usable(self, part: Part) -> Part:
        """Handle missing values, drop empty sequences, and truncate to the maximum length."""
        before = len(part.lengths)
        kept_as_is = part.flat.dtype in (np.uint8, np.int16) and self.options.missing != "mask"
        if self.source.kind == "values" and not kept_as_is:
            part = fill_missing(self._centred(part), self.options.missing, self.source)
        empty = part.lengths == 0
        if empty.any():
            if self.options.missing != "drop":
                name = self.source.name(int(part.rows[empty.argmax()]))
                raise DataError(f"{name}: there is no sequence; --missing drop leaves such rows out")
            part = part.take(~empty)
        self.dropped += before - len(part.lengths)
        longest = self.options.length
        if longest and (part.lengths > longest).any():
            self.shortened += int((part.lengths > longest).sum())
            part = part.shortened(np.full_like(part.lengths, longest))
        return part

    def _centred(self, part: Part) -> Part:
        """Return values from which their offsets are subtracted, so that float32 does not blur them."""
        if self.offsets is None:
            self.offsets = offsets_of(part.flat)
        flat = centred(part.flat, self.offsets)
        self.rounded += _rounded(flat)
        self.blurred += blurred(flat, part.lengths)
        return replace(part, flat=flat)

    def _stored(self, part: Part) -> np.ndarray:
        """Return the sequences in the dtype in which they are written."""
        flat = part.flat
        if self.source.kind == "tokens" and flat.dtype != np.uint8:
            wrong = ~((flat >= 0) & (flat < MOST_TOKENS) & (flat % 1 == 0))
            if wrong.any():
                position = int(wrong.argmax())
                owner, place = positions(part.lengths)
                name = self.source.name(int(part.rows[owner[position]]))
                raise DataError(
                    f"{name}: {self.source.spot(int(place[position]), 0)} is {flat[position]}, no token: "
                    f"tokens are whole numbers from 0; use --kind values"
                )
            flat = flat.astype(np.int32)
        self.low = min(self.low, float(np.fmin.reduce(flat, axis=None)))  # fmin and fmax ignore NaN
        self.high = max(self.high, float(np.fmax.reduce(flat, axis=None)))
        self.is_whole = self.is_whole and bool((np.rint(flat) == flat).all())
        name = self.source.name(int(part.rows[0]))
        if self.out.dtype and flat.dtype.str != self.out.dtype:
            before = np.dtype(self.out.dtype)
            raise DataError(f"{name}: values are {flat.dtype}, those before {before}; convert them")
        if self.out.dtype and flat.ndim == 2 and flat.shape[1] != self.out.channels:
            raise DataError(
                f"{name}: it has {flat.shape[1]} channels, those before {self.out.channels}; leave it out"
            )
        return flat

    def _numbered(self, part: Part, role: str, number: Callable[[str], int]) -> np.ndarray:
        """Return (n,) the number of each sequence's group or split."""
        column = part.columns[role]
        if column.null_count:
            row = int(np.argmin(column.is_valid().to_numpy(zero_copy_only=False)))
            name = self.options.roles.get(role, "groups" if role == "group" else role)
            raise DataError(
                f"{self.source.name(int(part.rows[row]))}: {name} is empty; every sequence needs one"
            )
        encoded = column.dictionary_encode()
        codes = [number(name) for name in encoded.dictionary.to_pylist()]
        return np.array(codes, dtype=np.int64)[encoded.indices.to_numpy()]

    def _group(self, name: str) -> int:
        return self.groups.setdefault(name, len(self.groups))

    def _keep(self, name: str, values: np.ndarray) -> None:
        self._columns.setdefault(name, []).append(values)

    def finish(self, about: dict[str, object]) -> StoredDataset:
        """Assign splits, measure statistics and close the dataset; notes for the user are in its ``about``.

        Raises:
            DataError: if labels or splits cannot be used.
        """
        if not self._columns:
            raise DataError("there is no sequence to import")
        columns = {name: np.concatenate(parts) for name, parts in self._columns.items()}
        lengths = columns["lengths"]
        groups = columns.get("groups")
        labels = self.labels.encode(lengths, self.source.name)
        strata = labels.strata
        _check_different(columns["equal"][strata >= 0])
        given = columns.get("split")
        split, notes = assign_splits(strata, groups, given, columns["equal"], self.options.split_seed)
        kept = split >= 0
        notes = self._notes(strata, columns["equal"]) + notes + labels.check(split, kept)
        notes += _few_groups(split, groups)
        notes += self._near_duplicates(columns["sketch"], lengths, split, groups)
        signal = self._signal(lengths, split == 0)
        notes += self._new_symbols(signal)
        starts, lengths, rows = self._windows(lengths, np.flatnonzero(kept))
        # Windows of one sequence overlap or resemble each other: they are no independent examples.
        if self.options.window and groups is None:
            groups = np.arange(len(kept))
        self.out.add_examples(
            starts,
            lengths,
            labels.of_examples(starts, lengths, rows),
            split[rows],
            None if groups is None else groups[rows],
        )
        offsets = Offsets(self.offsets or (), self.labels.offset).padded(self.out.channels)
        facts: dict[str, object] = {
            "options": asdict(self.options),
            "notes": [
                *self.source.hints,
                *self.source.notes(),
                *self.labels.notes,
                *offsets.notes(),
                *notes,
            ],
            "unknown": self.unknown,
            "val_given": given is not None and bool((given == SPLITS.index("val")).any()),
        }
        if offsets != Offsets():
            facts["offsets"] = asdict(offsets)
        if isinstance(signal, Tokens):
            facts["symbols"] = int(self.high) + 1
        return self.out.finish(SequenceSpec(signal, int(lengths.max()), labels.target(split)), about | facts)

    def _new_symbols(self, signal: Signal) -> list[str]:
        """Return a note on symbols that training has not, if there are any."""
        if not isinstance(signal, Tokens) or self.high < signal.vocab:
            return []
        return [
            f"symbols of val and test from {signal.vocab:,} on are not in train; they are read as "
            f"{signal.vocab - 1:,}, the greatest that is"
        ]

    def _windows(self, lengths: np.ndarray, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return start, length and sequence of every example: a whole sequence, or one of its windows."""
        starts = lengths.cumsum() - lengths
        size = self.options.window
        if not size:
            return starts[rows], lengths[rows], rows
        stride = self.options.stride or size
        count = np.maximum(lengths[rows] - size, 0) // stride + 1
        inside = np.arange(int(count.sum())) - np.repeat(count.cumsum() - count, count)
        rows = np.repeat(rows, count)
        return starts[rows] + inside * stride, lengths[rows].clip(max=size), rows

    def _notes(self, strata: np.ndarray, equal: np.ndarray) -> list[str]:
        found = {
            f"of {len(equal):,} sequences are copies of others": len(equal) - len(np.unique(equal)),
            "sequences have no label; they serve pretraining": int((strata < 0).sum()),
            "labels of a part that is called unlabelled are ignored": self.ignored,
            "rows with missing values are left out": self.dropped,
            f"sequences are cut to {self.options.length} positions": self.shortened,
            "whole numbers among the values are rounded to float32": self.rounded,
            f"sequences {BLUR}": self.blurred,
        }
        return [f"{count:,} {what}" for what, count in found.items() if count]

    def _near_duplicates(
        self, sketch: np.ndarray, lengths: np.ndarray, split: np.ndarray, groups: np.ndarray | None
    ) -> list[str]:
        """Return a note if many sequences of val and test resemble one of train."""
        flat = self.out.flat()
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

    def _signal(self, lengths: np.ndarray, train: np.ndarray) -> Signal:
        """Return the signal measured on the training split; store data in a smaller dtype if lossless."""
        if self.source.kind == "tokens":
            if self.high < BYTES and np.dtype(self.out.dtype) != np.uint8:
                self.out.rewrite(lambda block: block.astype(np.uint8))
            return Tokens(self.source.vocab or max_symbol(self.out.blocks(), lengths, train) + 1)
        levels = 256 if np.dtype(self.out.dtype) == np.uint8 else None
        values = fit_values(self.out.blocks(), lengths, train)
        if levels:
            return replace(values, levels=levels, low=0.0, high=255.0)
        self._narrow(values)
        return values

    def _narrow(self, values: Values) -> None:
        if self.is_whole and self.low >= -(2**15) and self.high < 2**15 and self.out.dtype != "<i2":
            small = np.dtype(np.uint8 if 0 <= self.low <= self.high < 256 else np.int16)
            self.out.rewrite(lambda block: block.astype(small))
        elif np.dtype(self.out.dtype) == np.float32:
            # NaN is left only where a channel of a sequence is missing throughout; the mean replaces it.
            self.unknown = nan_spans(self.out.flat())
            centre = np.array(values.centre, dtype=np.float32)
            self.out.rewrite(lambda block: np.where(np.isnan(block), centre, block))


def _check_different(equal: np.ndarray) -> None:
    """Check that labelled sequences are different enough to fill all splits; equal ones are never in two.

    Args:
        equal: (n,) a number per labelled sequence, the same for equal ones.

    Raises:
        DataError: if they are not.
    """
    different = len(np.unique(equal))
    if different < len(SPLITS):
        raise DataError(
            f"{different} different sequences with a label cannot fill three splits, and equal ones are "
            f"never in two; give more examples"
        )


def _few_groups(split: np.ndarray, groups: np.ndarray | None) -> list[str]:
    """Return a note if a split has few groups: a score on one patient says little about others."""
    if groups is None:
        return []
    counts = [len(np.unique(groups[split == number])) for number in range(len(SPLITS))]
    few = [
        f"{name} holds {count}" for name, count in zip(SPLITS, counts, strict=True) if count < ENOUGH_GROUPS
    ]
    note = f"of {len(np.unique(groups)):,} groups {', '.join(few)}; scores rest on so few"
    return [note] if few else []


def _rounded(flat: np.ndarray) -> int:
    """Count whole numbers that float32 cannot represent, such as counts and times beyond 16,777,216."""
    if flat.dtype.itemsize < 4 or flat.dtype == np.float32 or not flat.size:
        return 0
    large = flat[(np.abs(flat) > EXACT) & np.isfinite(flat)]
    with np.errstate(over="ignore"):
        return int(((large % 1 == 0) & (large.astype(np.float32) != large)).sum())
