"""Datasets of the Hugging Face hub, through the library ``datasets`` (extra ``hf``)."""

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import pyarrow as pa

from ...errors import DataError
from ..download import connection_problem
from .csv_files import Piece, TableFile
from .table_files import ROWS, class_names

PATIENCE = 3.0
"""Seconds to wait for the hub before falling back to the local cache."""


@dataclass(frozen=True)
class HubTable(TableFile):
    """All splits of a dataset, with the split as a column."""

    splits: dict[str, Any]  # datasets.Dataset by name

    @property
    def columns(self) -> list[str]:
        """Columns of the first split, and ``split``."""
        return [*next(iter(self.splits.values())).column_names, "split"]

    @property
    def divided(self) -> bool:
        """True: the column ``split`` names the splits of the dataset."""
        return True

    @property
    def rows(self) -> int:
        """Number of rows in all splits."""
        return sum(len(part) for part in self.splits.values())

    @property
    def manner(self) -> str:
        """The names of the splits."""
        return f"Hugging Face, {', '.join(self.splits)}"

    def pieces(self, columns: Sequence[str]) -> Iterator[Piece]:
        """Yield the rows of one split after the other."""
        for name, part in self.splits.items():
            for found in part.with_format("arrow").iter(ROWS):
                own = {c: found[c].combine_chunks() for c in columns if c != "split"}
                yield own | {"split": pa.repeat(name, len(found))}

    def names(self, column: str) -> list[str]:
        """Return class names, from the features of the first split."""
        return class_names(next(iter(self.splits.values())).features.arrow_schema, column)


def hub_table(name: str) -> HubTable:
    """Load the dataset ``owner/name`` from the hub or the local cache.

    Raises:
        DataError: if it is not available; offline, this takes seconds.
    """
    online = _reachable()
    if not online:  # read when the library is imported; without it, requests time out after 30 s
        os.environ["HF_HUB_OFFLINE"] = "1"
    datasets = _library()
    try:
        found = datasets.load_dataset(name)
    except Exception as error:  # the library raises many kinds of errors
        why = (
            "not downloaded yet, and the hub cannot be reached"
            if not online
            else " ".join(str(error).split())
        )
        raise DataError(
            f"hf:{name}: {why[:200]}; download it where there is a network, and name its folder"
        ) from error
    known = {split: part for split, part in found.items() if split in ("train", "validation", "test")}
    if "train" not in known:
        raise DataError(f"hf:{name} has no split called train, only {', '.join(found)}; save one as a file")
    return HubTable(Path(name.replace("/", "-")), known)


def _library() -> ModuleType:
    try:
        import datasets
    except ImportError as error:
        raise DataError("hf:owner/name needs the library datasets: pip install 'selfpretrain[hf]'") from error
    datasets.disable_progress_bars()
    return datasets


def _reachable() -> bool:
    if os.environ.get("HF_HUB_OFFLINE", "0").upper() in ("1", "TRUE", "ON", "YES"):
        return False
    return not connection_problem(os.environ.get("HF_ENDPOINT") or "https://huggingface.co", PATIENCE)
