"""What several verbs print."""

from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from ..report.analysis import Analysis
    from ..report.results import ExperimentResults
    from ..runner.plan import Forecast


LONG = 3600
"""Seconds from which on a command says before its start how long it will take."""


def show_forecast(forecast: "Forecast") -> None:
    """Show what would be trained, and what it costs."""
    table = Table(*forecast.headings, title="Stages to run")
    for row in forecast.rows:
        table.add_row(*row)
    Console().print(table)
    Console().print(forecast.total)


def warn_of_length(forecast: "Forecast", limited: bool) -> None:
    """Tell somebody who is about to wait for long, and what they can do."""
    from ..system.events import duration

    if forecast.seconds > LONG:
        hint = "" if limited else "; --time-limit 1h shortens all arms alike, --dry-run tells more"
        said = f"note: this takes about {duration(forecast.seconds)} on this machine{hint}"
        Console(stderr=True).print(Text(said), soft_wrap=True)


def show_results(results: "ExperimentResults") -> None:
    """Print what came out, and where the report is; of several processes of torchrun, the first does."""
    from ..system import distributed

    if distributed.is_main():
        show_report(results.folder)


def show_report(folder: Path, analysis: "Analysis | None" = None) -> None:
    """Print what an experiment's folder holds, and where its report is."""
    from ..report import page

    console = Console()
    console.print(page.show(folder, analysis))
    console.print(Text(f"report: {folder / 'report.html'}"), soft_wrap=True)
