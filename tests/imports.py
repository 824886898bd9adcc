"""Importing somebody's data as ``spt data import`` does."""

from pathlib import Path

from selfpretrain.data.importing import importer
from selfpretrain.data.importing.options import ImportOptions
from selfpretrain.data.prepared import PreparedSet, damage


def bring(origin: str | Path, **reading: object) -> PreparedSet:
    """The data at ``origin``, kept as "mine", and undamaged."""
    made = importer.import_data(importer.plan_import(str(origin), ImportOptions(**reading)), "mine")
    assert damage(importer.known()["mine"]) == []
    return made
