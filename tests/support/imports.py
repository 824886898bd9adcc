"""Importing somebody's data as ``selfpretrain data import`` does."""

from pathlib import Path

from selfpretrain.data.importing import importer
from selfpretrain.data.importing.options import ImportOptions
from selfpretrain.data.paths import imported_datasets
from selfpretrain.data.store import StoredDataset, verify


def bring(origin: str | Path, **options: object) -> StoredDataset:
    """The data at ``origin``, kept as "mine", and undamaged."""
    made = importer.import_data(origin, "mine", ImportOptions(**options))
    verify(imported_datasets()["mine"])
    return made
