"""Importing somebody's data as ``spt data import`` does."""

from pathlib import Path

from selfpretrain.data.importing import importer
from selfpretrain.data.importing.source import Reading
from selfpretrain.data.prepared import PreparedSet, damage


def bring(origin: str | Path, **reading: object) -> PreparedSet:
    """The data at ``origin``, kept as "mine", and undamaged."""
    made = importer.bring(importer.plan(str(origin), Reading(**reading)), "mine")
    assert damage(importer.known()["mine"]) == []
    return made
