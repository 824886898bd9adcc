"""``spt plot``: figures for papers and talks."""

from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer()


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
