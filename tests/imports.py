"""Importing somebody's data as ``spt data import`` does."""

from pathlib import Path

from selfpretrain.data import own
from selfpretrain.data.prepared import PreparedSet, damage
from selfpretrain.data.source import Reading


def bring(origin: str | Path, **reading: object) -> PreparedSet:
    """The data at ``origin``, kept as "mine", and undamaged."""
    made = own.bring(own.plan(str(origin), Reading(**reading)), "mine")
    assert damage(own.known()["mine"]) == []
    return made
