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


def show_forecast(forecast: "Forecast") -> None:
    """Show what would be trained, and what it costs."""
    table = Table(*forecast.headings, title="Stages to run")
    for row in forecast.rows:
        table.add_row(*row)
    Console().print(table)
    Console().print(forecast.total)


def show_plan(plan: Path, stages: int) -> None:
    """What is to be done, where it stands, and who does it."""
    from ..system.mirror import bucket_of

    bucket = bucket_of(plan.parent.parent)
    runs = bucket.url if bucket else plan.parent.parent
    Console().print(
        f"{stages} stages to run: {plan.name}\nspt runs worker {runs} runs them, in as many "
        "shells and on as many machines as reach it; the same command without --detach makes the page",
        soft_wrap=True,
    )


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
