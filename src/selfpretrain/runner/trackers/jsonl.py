"""Every event as a line of JSON in ``events.jsonl`` of the runs folder."""

import json

from ...system.events import Event
from ...system.files import explain_errors
from .base import Tracker


class JsonLines(Tracker):
    """Appends to the file; several commands in the same folder share it."""

    def log_event(self, event: Event) -> None:
        """Append one line."""
        path = self.workspace.runs / "events.jsonl"
        line = {"kind": event.kind, "name": event.name, "done": event.done, "total": event.total}
        with explain_errors(path), path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line | dict(event.numbers)) + "\n")


tracker = JsonLines
