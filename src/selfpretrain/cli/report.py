"""``spt report``: write tables and report pages again, without training."""

from pathlib import Path
from typing import Annotated

import typer

from .options import Json
from .printing import measured, print_json, say, show_report

app = typer.Typer()


@app.command()
def report(
    runs: Annotated[Path, typer.Argument(help="Runs folder, or the folder of one study in it.")],
    pdf: Annotated[
        bool, typer.Option("--pdf", help="Also save every figure as PDF with embedded fonts.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Write tables and report pages again from the results on disk, without training."""
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
