"""Every event as a line of JSON in ``events.jsonl`` of the folder of runs, for any program to follow."""

import json

from ...system.events import Event
from ...system.files import explained
from .base import Tracker


class JsonLines(Tracker):
    """Appends; several runs in the same folder follow each other."""

    def hear(self, event: Event) -> None:
        """Append one line."""
        path = self.workspace.runs / "events.jsonl"
        line = {"kind": event.kind, "name": event.name, "done": event.done, "total": event.total}
        with explained(path), path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line | dict(event.numbers)) + "\n")


tracker = JsonLines
