"""Datasets of the Hugging Face hub, through the library ``datasets`` (extra ``hf``)."""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import ModuleType

import pyarrow as pa

from ...errors import DataError
from ..download import connection_problem
from .tables import ROWS, Table, with_column

PATIENCE = 3.0
"""Seconds to wait for the hub before falling back to the local cache."""


def hub_table(name: str) -> Table:
    """Load all splits of the dataset ``owner/name``, from the hub or the local cache.

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
    splits = {split: part for split, part in found.items() if split in ("train", "validation", "test")}
    if "train" not in splits:
        raise DataError(f"hf:{name} has no split called train, only {', '.join(found)}; save one as a file")

    def read(columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        for split, part in splits.items():
            for rows in part.with_format("arrow").iter(ROWS):
                batch = rows.select([column for column in columns if column != "split"]).combine_chunks()
                yield with_column(batch.to_batches()[0], "split", split)

    first = next(iter(splits.values()))
    return Table(
        Path(name.replace("/", "-")),
        [*first.column_names, "split"],
        read,
        f"Hugging Face, {', '.join(splits)}",
        sum(map(len, splits.values())),
        first.features.arrow_schema.metadata or {},
        has_split=True,
    )


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
