"""``spt report``: tables and pages again, without training."""

from pathlib import Path
from typing import Annotated

import typer

from .printing import show_report

app = typer.Typer()


@app.command()
def report(
    runs: Annotated[
        Path, typer.Argument(help="A folder given to --runs before, or one study's folder in it.")
    ],
) -> None:
    """Make tables and pages again from what is on disk, without training."""
    from ..report import page, results

    for folder in results.experiments(runs):
        page.write(folder)
        show_report(folder)
