"""``spt report``: tables and pages again, without training."""

from pathlib import Path
from typing import Annotated

import typer

from .options import Json
from .printing import measured, print_json, say, show_report

app = typer.Typer()


@app.command()
def report(
    runs: Annotated[
        Path, typer.Argument(help="A folder given to --runs before, or one study's folder in it.")
    ],
    pdf: Annotated[bool, typer.Option("--pdf", help="Every figure as PDF, too, letters embedded.")] = False,
    as_json: Json = False,
) -> None:
    """Make tables and pages again from what is on disk, without training."""
    from ..report import analysis, page, results

    folders, made = results.experiments(runs), []
    for folder in folders:
        found = analysis.analyse(results.read(folder))
        page.write(folder, found)
        if pdf:
            page.write_pdf(folder, found)
        if as_json:
            made.append(measured(found.results))
        elif len(folders) == 1:
            show_report(folder, found)
        else:
            say(f"{found.results.record.title}: {folder / 'report.html'}")
    if as_json:
        print_json(made)
