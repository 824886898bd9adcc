"""``selfpretrain report``: write pages and figures again from results, without training."""

from pathlib import Path
from typing import Annotated

import typer

from ..errors import StoreError
from .options import Json
from .printing import measured, print_json, say, show_report

app = typer.Typer()


@app.command()
def report(
    runs: Annotated[Path, typer.Argument(help="Runs folder, or the folder of one study in it.")],
    figures: Annotated[
        str | None,
        typer.Option(
            metavar="STYLE",
            help="Also save every figure as SVG and PDF in figures-STYLE: neurips (5.5 in wide), icml (one "
            "column, 3.25 in) or page (as in the report).",
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Write tables and report pages again from the results on disk, without training."""
    from ..report import analysis, page, results

    folders = results.experiments(runs)
    made = []
    damaged = []
    for folder in folders:
        try:
            found = analysis.analyse(results.read(folder))
            page.write(folder, found)
            if figures:
                page.save_figures(found, figures, folder / f"figures-{figures}")
        except StoreError as error:  # the other pages are written all the same
            damaged.append(str(error))
            continue
        if as_json:
            made.append(measured(found.results))
        elif len(folders) == 1:
            show_report(folder, found)
        else:
            say(f"{found.results.title}: {folder / 'report.html'}")
    if as_json:
        print_json(made)
    if damaged:
        raise StoreError("; ".join(damaged))
