"""Data sets of the Hugging Face hub, through the library ``datasets`` (extra ``hf``)."""

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import pyarrow as pa

from ...errors import DataError
from ..download import silence
from .csv_files import Piece, TableFile
from .table_files import ROWS, class_names

PATIENCE = 3.0
"""Seconds to wait for the hub before only what has been downloaded earlier is looked at."""


@dataclass(frozen=True)
class HubTable(TableFile):
    """All splits of a data set; the split is a column."""

    splits: dict[str, Any]  # by name, of datasets.Dataset

    @property
    def columns(self) -> list[str]:
        """Those of the first split, and ``split``."""
        return [*next(iter(self.splits.values())).column_names, "split"]

    @property
    def divided(self) -> bool:
        """By its splits."""
        return True

    @property
    def rows(self) -> int:
        """Of all splits."""
        return sum(len(part) for part in self.splits.values())

    @property
    def manner(self) -> str:
        """The splits there are."""
        return f"Hugging Face, {', '.join(self.splits)}"

    def pieces(self, columns: Sequence[str]) -> Iterator[Piece]:
        """One split after the other."""
        for name, part in self.splits.items():
            for found in part.with_format("arrow").iter(ROWS):
                own = {c: found[c].combine_chunks() for c in columns if c != "split"}
                yield own | {"split": pa.repeat(name, len(found))}

    def names(self, column: str) -> list[str]:
        """Names of classes."""
        return class_names(next(iter(self.splits.values())).features.arrow_schema, column)


def hub_table(name: str) -> HubTable:
    """The data set ``owner/name``, from the hub or from what has been downloaded earlier.

    Raises:
        DataError: if it cannot be had; offline, that is said within seconds.
    """
    online = _reachable()
    if not online:  # the library reads it when it is imported, and tries for half a minute otherwise
        os.environ["HF_HUB_OFFLINE"] = "1"
    datasets = _library()
    try:
        found = datasets.load_dataset(name)
    except Exception as error:  # the library has many, and wraps those of others
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
    return not silence(os.environ.get("HF_ENDPOINT") or "https://huggingface.co", PATIENCE)
