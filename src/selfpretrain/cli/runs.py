"""The verbs of ``spt runs``: whether what lies in a folder of runs is what was written."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.text import Text

app = typer.Typer(help="Look after folders of runs.", no_args_is_help=True)


@app.callback()
def runs() -> None:
    """Look after folders of runs."""


@app.command()
def verify(
    folder: Annotated[Path, typer.Argument(help="A folder given to --runs before.", metavar="RUNS")],
) -> None:
    """Read every file, compare digests, recipes and scores; exit code 1 if something is wrong."""
    from ..runner.verify import verify

    console, fine, wrong = Console(), 0, 0
    for _, found in verify(folder):
        bad = sum(finding.level == "wrong" for finding in found)
        fine, wrong = fine + (not bad), wrong + bad
        for finding in found:
            console.print(Text(f"{finding.level}  {finding.said}"), soft_wrap=True)
    console.print(f"{fine} stages, studies and caches are fine, {wrong} files are not")
    raise typer.Exit(int(wrong > 0))
