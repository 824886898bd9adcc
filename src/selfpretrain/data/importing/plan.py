"""What an import has read, before anything is written: sequences, how messages name them, and notes."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ...errors import DataError, join_names
from ...system.files import Json
from ..sequences import Sequences, positions
from ..spec import SPLITS
from ..splits import UNLABELLED
from .label_columns import LabelColumn, look_real
from .options import ImportOptions
from .source import is_list

TARGETS = {
    "classes": "one class per sequence",
    "reals": "a real number per sequence",
    "sets": "several classes per sequence, or none",
    "positions": "one class per position",
}
"""Kind of target -> what is predicted."""


@dataclass(frozen=True)
class ImportPlan:
    """The sequences of a file, a folder or arrays, as they were read."""

    sequences: Sequences
    options: ImportOptions  # completed by what was found
    name: Callable[[int], str]  # returns how messages name a row
    spot: Callable[[int, int], str]  # returns how they name a position and channel of a sequence
    vocab: int = 0  # 0: the greatest token + 1
    found: dict[str, str] = field(default_factory=dict)  # shown to the user
    notes: list[str] = field(default_factory=list)  # for the user
    layout: Json | None = None  # by which files to predict are read; None: there is none to reuse
    others: dict[str, list[Any]] = field(default_factory=dict)  # columns of a file to predict, by name
    unseen: dict[int, str] = field(default_factory=dict)  # row -> its first event that training lacks
    origin: str = ""
    unused: tuple[str, ...] = ()  # columns of a wide table that are no sequences and have no role
    classes: tuple[str, ...] = ()  # columns of labels, each 0 or 1; empty: classes are what labels hold

    @property
    def signal(self) -> str:
        """Return the kind of the sequences: tokens, which text is, or values."""
        return "values" if self.sequences.kind == "values" else "tokens"

    @property
    def reading(self) -> Json:
        """Return how files to predict are read, as the estimators note it."""
        how = {name: getattr(self.options, name) for name in ("encoding", "header", "missing")}
        return (self.layout or {"form": "arrays"}) | how

    def place(self, found: Sequences, marked: np.ndarray) -> str:
        """Return how messages name the first marked position, (T,) or (T, C), of what was read."""
        at, channel = np.argwhere(marked.reshape(len(marked), -1))[0].tolist()
        owner, place = positions(found.lengths)
        return f"{self.name(int(found.rows[owner[at]]))}: {self.spot(int(place[at]), channel)}"

    def facts(self) -> dict[str, str]:
        """Return what was found, as names and descriptions.

        Raises:
            DataError: if the sequences cannot be used.
        """
        lengths = self.sequences.lengths
        if not len(lengths):
            raise DataError(f"{self.origin} holds no sequence")
        column = LabelColumn(self.options.target, self.options.label or "label")
        labels = column.separate(without_labels(self.sequences, {}), self.name).columns["label"]
        labels = (labels.flatten() if is_list(labels.type) else labels).drop_null().unique().to_pylist()
        found = {"signal": self.signal, "sequences": f"{len(lengths):,}"}
        if self.signal == "values":
            flat = self.sequences.flat
            found["signal"] = f"values of {flat.dtype}, channels: {flat.shape[1]}"
        found["lengths"] = f"{lengths.min():,} to {lengths.max():,}, median {int(np.median(lengths)):,}"
        target = self.options.target
        if target == "auto":
            target = "reals" if look_real(labels) else "classes"
        found["target"] = TARGETS[target]
        found["labels"] = join_names(self.classes or sorted(labels), 40)
        return self.found | found | self.found  # those of the reader win, in first place


def without_labels(found: Sequences, counts: dict[str, int]) -> Sequences:
    """Return sequences without labels where the split is called unlabelled; these are for train.

    Args:
        counts: gets the number of labels that this ignores.
    """
    if "split" not in found.columns:
        return found
    split = found.columns["split"]
    label = found.columns["label"]
    extra = pc.fill_null(pc.is_in(pc.utf8_lower(split), pa.array(UNLABELLED, split.type)), False)
    ignored = pc.sum(pc.and_(extra, label.is_valid())).as_py() or 0
    counts["labels of a part that is called unlabelled are ignored"] = ignored
    kept = pc.if_else(extra, None, np.arange(len(split)))
    columns = {"label": label.take(kept), "split": pc.if_else(extra, SPLITS[0], split)}
    return replace(found, columns={**found.columns, **columns})


def numbered(row: int) -> str:
    """Return how messages name a row that has no line or name."""
    return f"row {row + 1}"


def at_position(position: int, channel: int) -> str:
    """Return how messages name a position."""
    return f"position {position}"
