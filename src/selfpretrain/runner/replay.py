"""What a stage told while it was trained, told again from its folder."""

import json

from ..system.events import Event, emit
from ..system.files import explained
from ..training.stage_folder import LOG, Folder


def replay(folder: Folder) -> None:
    """Tell the log of a finished stage, and its scores, to whoever listens now.

    Raises:
        StoreError: if it has not finished, or is damaged.
    """
    result, path = folder.read("result.json"), folder.path / LOG
    folder.fetch(LOG)
    emit(Event("start", folder.name))
    with explained(path, "read"):
        lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    total = max(1, int(result["steps"]))
    for line in map(json.loads, lines):
        kind = line.pop("kind")
        emit(Event(kind, folder.name, min(1.0, line.get("step", 0) / total), 1.0, line))
    emit(Event("end", folder.name, 1.0, 1.0, {"reused": False} | result["scores"]))
