"""``spt report`` and ``spt plot``: write pages and figures again from results, without training."""

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

    folders = results.experiments(runs)
    made = []
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


@app.command()
def plot(
    runs: Annotated[Path, typer.Argument(help="Runs folder, or the folder of one study in it.")],
    kind: Annotated[
        str, typer.Option(help="Kind of figure: gain, points, lines, curves, ranks or measures.")
    ] = "gain",
    style: Annotated[
        str,
        typer.Option(
            help="Style: neurips (5.5 in wide), icml (one column, 3.25 in) or page (as in the report)."
        ),
    ] = "neurips",
    output: Annotated[
        Path | None, typer.Option(help="Folder for the files; default: plots-STYLE in the study's folder.")
    ] = None,
) -> None:
    """Draw the figures of an experiment as SVG and PDF files with embedded fonts."""
    from ..report import analysis, pictures, results

    for folder in results.experiments(runs):
        beside = output / folder.resolve().name if output else folder / f"plots-{style}"
        for path in pictures.save(analysis.analyse(results.read(folder)), kind, style, beside):
            print(path)
