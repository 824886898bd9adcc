"""``spt report``: tables and pages again, without training."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.text import Text

from .printing import show_report

app = typer.Typer()


@app.command()
def report(
    runs: Annotated[
        Path, typer.Argument(help="A folder given to --runs before, or one study's folder in it.")
    ],
    pdf: Annotated[bool, typer.Option("--pdf", help="Every figure as PDF, too, letters embedded.")] = False,
) -> None:
    """Make tables and pages again from what is on disk, without training."""
    from ..report import analysis, page, results

    folders = results.experiments(runs)
    for folder in folders:
        found = analysis.analyse(results.read(folder))
        page.write(folder, found)
        if pdf:
            page.write_pdf(folder, found)
        if len(folders) == 1:
            show_report(folder, found)
        else:
            Console().print(Text(f"{found.results.record.title}: {folder / 'report.html'}"), soft_wrap=True)
