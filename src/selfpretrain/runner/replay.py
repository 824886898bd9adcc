"""What a stage told while it was trained, told again from its folder."""

from ..report.evidence import read_log
from ..system.events import Event, emit
from ..training.stage_folder import LOG, Folder


def replay(folder: Folder) -> None:
    """Tell the log of a finished stage, and its scores, to whoever listens now.

    Raises:
        StoreError: if it has not finished, or is damaged.
    """
    result = folder.read("result.json")
    folder.fetch(LOG)
    emit(Event("start", folder.name))
    total = max(1, int(result["steps"]))
    for line in read_log(folder.path / LOG, result.get("files", {})):
        kind = line.pop("kind", "")
        emit(Event(kind, folder.name, min(1.0, line.get("step", 0) / total), 1.0, line))
    emit(Event("end", folder.name, 1.0, 1.0, {"reused": False} | result["scores"]))
