"""Importing somebody's data as ``spt data import`` does."""

from pathlib import Path

from selfpretrain.data.importing import importer
from selfpretrain.data.importing.options import ImportOptions
from selfpretrain.data.prepared import PreparedSet, open_set


def bring(origin: str | Path, **options: object) -> PreparedSet:
    """The data at ``origin``, kept as "mine", and undamaged."""
    made = importer.import_data(origin, "mine", ImportOptions(**options))
    open_set(importer.known()["mine"], again=True)
    return made
