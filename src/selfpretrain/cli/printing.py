"""Terminal and JSON output shared by several commands."""

import contextlib
import os
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from pydantic_core import to_json
from rich.console import Console
from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from ..report.analysis import Analysis
    from ..report.results import ExperimentResults
    from ..runner.forecast import Forecast
    from ..system.events import Event

    Outcome = Forecast | ExperimentResults | str


MAX_WIDTH = 240  # of tables that are written to a pipe or file
LONG = 3600  # estimated seconds above which a command warns before it starts


def content_of(outcome: "Outcome") -> dict[str, Any]:
    """Return a forecast, the jobs of a detached run, or results as JSON values."""
    from ..runner.forecast import Forecast

    if isinstance(outcome, Forecast):
        stages = [dict(zip(outcome.headings, row, strict=True)) for row in outcome.rows]
        notes = {"notes": list(outcome.notes)} if outcome.notes else {}
        return {"stages": stages, "total": outcome.total, "seconds": outcome.seconds} | notes
    if isinstance(outcome, str):
        return {"detached": outcome}
    return measured(outcome)


def measured(results: "ExperimentResults") -> dict[str, Any]:
    """Return results as JSON values; kept separate as the import of forecasts takes a second."""
    from ..report.analysis import verdicts

    page = str(results.folder / "report.html")
    return {"report": page, "rows": results.to_rows(), "verdicts": verdicts(results)}


def show(outcome: "Outcome") -> None:
    """Print a forecast, the jobs of a detached run, or results; with torchrun, the main process prints."""
    from ..report.analysis import analyse
    from ..runner.forecast import Forecast

    if not prints():
        return
    if isinstance(outcome, Forecast):
        show_forecast(outcome)
    elif isinstance(outcome, str):
        say(f"{outcome}; the same command without --detach makes the page")
    else:
        show_report(outcome.folder, analyse(outcome))
        notes = dict.fromkeys(note for task in outcome.tasks for note in task.notes)
        for note in notes:
            if "left out" in note:
                say(f"note: {note}")


def prints() -> bool:
    """Return whether this process prints: with torchrun only the first one does, also after training."""
    return os.environ.get("RANK", "0") == "0"


def show_forecast(forecast: "Forecast") -> None:
    """Print the stages to train and their cost; a task or number that all stages share is in the title."""
    cells = dict(zip(forecast.headings, zip(*forecast.rows, strict=True), strict=False))
    shared = {name: cells.pop(name)[0] for name in ("task", "times") if len(set(cells.get(name, ()))) == 1}
    table = Table(box=None, padding=(0, 1, 0, 0), header_style="bold")
    for name in cells:
        table.add_column(name, no_wrap=name != "stages")
    for row in zip(*cells.values(), strict=True):
        table.add_row(*map(Text, row))
    title = ", ".join(["Stages to run", *(f"{name} {cell}" for name, cell in shared.items())])
    if forecast.rows:
        wide().print(Text(title, style="bold"))
        wide().print(table)
    for line in (forecast.total, *forecast.notes):
        say(line)


def say(line: str, style: str = "") -> None:
    """Print a line, wrapped by the terminal only."""
    Console().print(Text(line, style=style), soft_wrap=True)


def say_news(event: "Event") -> None:
    """Print how many stages bundled results save, and which rows an interim analysis leaves undecided."""
    if event.kind == "restored":
        line = f"{event.done} stages are taken from {event.name}; --fresh trains them here"
    elif event.kind == "interim":
        line = f"after {event.done} of at most {event.total} seeds, not decided: {event.name}"
    else:
        return
    Console(stderr=True).print(Text(line), soft_wrap=True)


def show_facts(rows: Iterable[tuple[str | Text, ...]], style: str = "bold") -> None:
    """Print a two-column list: a name, in this style, and its value."""
    table = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
    for what, *values in rows:
        name = Text(what, style) if isinstance(what, str) else what
        table.add_row(name, *(Text(each) if isinstance(each, str) else each for each in values))
    wide().print(table)


def wide() -> Console:
    """Return the console for tables: as wide as the terminal, or ``MAX_WIDTH`` for pipes and files."""
    console = Console()
    return console if console.is_terminal or "COLUMNS" in os.environ else Console(width=MAX_WIDTH)


@contextlib.contextmanager
def json_alone() -> Iterator[None]:
    """Send what code of the user prints to standard error; ``print_json`` writes to standard output."""
    _outputs.append(sys.stdout)
    try:
        with contextlib.redirect_stdout(sys.stderr):
            yield
    finally:
        _outputs.pop()


_outputs: list[TextIO] = []


def print_json(content: object) -> None:
    """Print only JSON; with torchrun, only the main process prints."""
    if prints():
        text = to_json(content, indent=1, inf_nan_mode="null").decode()
        print(text, file=_outputs[-1] if _outputs else sys.stdout)


def warn_of_length(forecast: "Forecast", limited: bool) -> None:
    """Warn before a long run, and name the options that shorten it."""
    from ..system.events import format_duration

    if prints() and forecast.seconds > LONG:
        hint = "" if limited else "; --minutes 60 shortens all arms alike, --dry-run shows the stages"
        note = f"note: this takes about {format_duration(forecast.seconds)} on this machine{hint}"
        Console(stderr=True).print(Text(note), soft_wrap=True)


def show_report(folder: Path, analysis: "Analysis") -> None:
    """Print the report of an experiment's folder, and the path of its HTML page."""
    from ..report import page

    Console().print(page.show(folder, analysis))
    say(f"report: {folder / 'report.html'}")
