"""Importing somebody's data as ``selfpretrain data import`` does, and writing some as a task does."""

from pathlib import Path

import numpy as np

from selfpretrain.data.importing import importer
from selfpretrain.data.importing.options import ImportOptions
from selfpretrain.data.paths import imported_datasets
from selfpretrain.data.store import DatasetWriter, StoredDataset, verify


def bring(origin: str | Path, **options: object) -> StoredDataset:
    """The data at ``origin``, kept as "mine", and undamaged."""
    made = importer.import_data(origin, "mine", ImportOptions(**options))
    verify(imported_datasets()["mine"])
    return made


def add_sequences(out: DatasetWriter, sequences: list[np.ndarray], *columns: np.ndarray) -> None:
    """Append sequences, each as an example of its own, with their targets, splits and groups."""
    lengths = np.array([len(s) for s in sequences], dtype=np.int64)
    start = out.append(np.concatenate(sequences))
    out.add_examples(start + lengths.cumsum() - lengths, lengths, *columns)
