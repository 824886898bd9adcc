"""Progress display: live bars in a terminal, occasional lines elsewhere."""

import math
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext

from rich import progress as rich
from rich.console import Console, Group
from rich.live import Live
from rich.table import Table

from .events import Event, format_duration, listen

REFRESH = 4  # maximum redraws per second
EVERY = 10.0  # seconds between two lines outside of a terminal


@contextmanager
def show_progress(quiet: bool) -> Iterator[None]:
    """Show the progress of long preparations."""
    console = Console(stderr=True)
    if quiet:
        yield
        return
    text = rich.TextColumn("{task.description}")
    columns = (text, rich.BarColumn(), rich.TaskProgressColumn(), rich.TimeRemainingColumn())
    bar = rich.Progress(*columns, console=console, transient=True)
    line = bar.add_task("", total=None)
    last = 0.0 if console.is_terminal else time.monotonic()

    def show(event: Event) -> None:
        nonlocal last
        pause = 1 / REFRESH if console.is_terminal else EVERY
        complete = console.is_terminal and event.done == event.total
        if event.kind != "progress" or (time.monotonic() - last <= pause and not complete):
            return
        last = time.monotonic()
        if console.is_terminal:
            bar.update(line, description=event.name, completed=event.done, total=event.total or None)
        else:
            write_line(f"{event.name}: {event.done:,}" + (f" of {event.total:,}" if event.total else ""))

    with listen(show), bar if console.is_terminal else nullcontext():
        yield


@contextmanager
def show_stages(
    costs: dict[str, float], stages: int, quiet: bool, titles: Mapping[str, str]
) -> Iterator[None]:
    """Show every running stage; outside of a terminal, print a line when one starts or ends.

    Args:
        costs: FLOPs of every stage that must be run, by name, for the estimate of the remaining time.
        stages: number of all stages, including finished ones.
        titles: readable names of the stages, by name.
    """
    display = _Stages(costs, stages, titles)
    if quiet:
        yield
    elif display.console.is_terminal:
        with listen(display), display.live:
            yield
    else:
        with listen(display.write):
            yield


class _Stages:
    """A progress bar over all stages, and a line for each running one."""

    def __init__(self, costs: dict[str, float], stages: int, titles: Mapping[str, str]) -> None:
        self.titles = titles
        self.costs = costs
        self.stages = stages
        self.console = Console(stderr=True)
        self.alive: dict[str, Event] = {}
        self.numbers: dict[str, dict[str, float]] = {}
        self.finished: set[str] = set()
        self.begin = time.monotonic()
        self.bar = rich.Progress(
            rich.TextColumn("stages"),
            rich.BarColumn(),
            rich.MofNCompleteColumn(),
            rich.TimeElapsedColumn(),
            rich.TextColumn("{task.fields[left]}"),
        )
        self.overall = self.bar.add_task("stages", total=stages, left="")
        self.live = Live(
            console=self.console, refresh_per_second=REFRESH, transient=True, get_renderable=self.draw
        )

    def __call__(self, event: Event) -> None:
        if event.kind == "progress":
            return
        if event.kind in ("end", "lost"):
            self.alive.pop(event.name, None)
            self.finished |= {event.name} if event.kind == "end" else set()
        else:
            self.alive[event.name] = event
            self.numbers[event.name] = self.numbers.get(event.name, {}) | dict(event.numbers)
        self.bar.update(self.overall, completed=len(self.finished), left=self.left())

    def draw(self) -> Group:
        """Return the bar and the lines."""
        table = Table.grid(padding=(0, 2))
        for name, event in sorted(self.alive.items()):
            known = self.numbers[name]
            epoch = f"epoch {known['epoch']:.1f}" if "epoch" in known else "preparing"
            loss = f"loss {known['loss']:.3f}" if "loss" in known else ""
            score = f"score {known['score']:.3f}" if "score" in known else ""
            table.add_row(
                "  " + self.titles.get(name, name), f"{100 * event.done:3.0f} %", epoch, loss, score
            )
        return Group(self.bar, table)

    def left(self) -> str:
        """Return the estimated remaining time as text; "" if unknown."""
        done = sum(flops for name, flops in self.costs.items() if name in self.finished)
        done += sum(self.costs.get(name, 0) * event.done for name, event in self.alive.items())
        total = sum(self.costs.values())
        if done <= 0 or total <= 0:
            return ""
        return f"about {format_duration((time.monotonic() - self.begin) * (total - done) / done)} left"

    def write(self, event: Event) -> None:
        """Print a line when a stage starts, ends or is lost."""
        self(event)
        title = self.titles.get(event.name, event.name)
        if event.kind == "start":
            write_line(f"started   {title}")
        elif event.kind == "memory":
            write_line(f"memory    {title}: {event.numbers['said']}")
        elif event.kind == "lost":
            write_line(f"lost      {title}; attempt {event.numbers.get('attempts', 1)}")
        elif event.kind == "end":
            facts = [*_scores(event), f"{len(self.finished)} of {self.stages} stages"]
            left = self.left()
            how = "reused   " if event.numbers.get("reused") else "finished "
            write_line(f"{how} {title}: {', '.join([*facts, left] if left else facts)}")


def _scores(event: Event) -> list[str]:
    """Return the scores of a finished stage as text, e.g. "test score 0.812"; its loss if that is scored."""
    found = []
    for split in ("val", "test"):
        numbers = event.numbers.get(split, {})
        score = numbers.get("score")
        if score is not None:
            is_loss = score == -numbers.get("loss", math.nan)
            found.append(f"{split} loss {-score:.3f}" if is_loss else f"{split} score {score:.3f}")
    return found


def write_line(line: str) -> None:
    """Write a line to stderr at once."""
    sys.stderr.write(line + "\n")
    sys.stderr.flush()
