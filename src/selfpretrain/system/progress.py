"""Live progress: a bar with what every worker is doing, or one JSON line per stage where nobody watches."""

import json
import sys
import time
from types import TracebackType
from typing import Any

from rich.console import Console, Group
from rich.live import Live
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

Line = dict[str, Any]
REFRESH = 4
"""Redraws per second, at most."""


class Watch:
    """Hears what stages tell, and shows it.

    Args:
        costs: FLOPs of every stage that is still to run, by name; the remaining time is estimated from them.
        quiet: say nothing at all.
    """

    def __init__(self, costs: dict[str, float], stages: int, quiet: bool = False) -> None:
        self.costs, self.quiet = costs, quiet
        self.console = Console(stderr=True)
        self.alive: dict[str, Line] = {}
        self.finished: set[str] = set()
        self.begin = time.monotonic()
        self.bar = Progress(
            TextColumn("stages"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("{task.fields[left]}"),
        )
        self.overall = self.bar.add_task("stages", total=stages, left="")
        self.live = Live(
            console=self.console, refresh_per_second=REFRESH, transient=True, get_renderable=self._draw
        )

    def __enter__(self) -> "Watch":
        if self._drawing:
            self.live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._drawing:
            self.live.stop()

    def tell(self, line: Line) -> None:
        """Take in one line of one stage."""
        name = line["stage"]
        if line["kind"] == "end":
            self.alive.pop(name, None)
            self.finished.add(name)
            self.bar.update(self.overall, completed=len(self.finished))
        else:
            self.alive[name] = self.alive.get(name, {}) | line
        self.bar.update(self.overall, left=self._left())
        if not self._drawing and not self.quiet and line["kind"] in ("start", "end"):
            sys.stderr.write(json.dumps(line) + "\n")
            sys.stderr.flush()

    @property
    def _drawing(self) -> bool:
        return self.console.is_terminal and not self.quiet

    def _draw(self) -> Group:
        table = Table.grid(padding=(0, 2))
        for name, line in sorted(self.alive.items()):
            epoch = f"epoch {line['epoch']:.1f}" if "epoch" in line else "preparing"
            loss = f"loss {line['loss']:.3f}" if "loss" in line else ""
            score = f"score {line['score']:.3f}" if "score" in line else ""
            table.add_row("  " + name, f"{100 * line.get('progress', 0):3.0f} %", epoch, loss, score)
        return Group(self.bar, table)

    def _left(self) -> str:
        done = sum(flops for name, flops in self.costs.items() if name in self.finished)
        done += sum(self.costs.get(name, 0) * line.get("progress", 0) for name, line in self.alive.items())
        total = sum(self.costs.values())
        if done <= 0 or total <= 0:
            return ""
        seconds = (time.monotonic() - self.begin) * (total - done) / done
        return f"about {duration(seconds)} left"


def duration(seconds: float) -> str:
    """A length of time in words, e.g. ``3 min 20 s``."""
    if seconds < 60:
        return f"{seconds:.0f} s"
    if seconds < 3600:
        return f"{seconds // 60:.0f} min {seconds % 60:.0f} s"
    return f"{seconds // 3600:.0f} h {seconds % 3600 // 60:.0f} min"
