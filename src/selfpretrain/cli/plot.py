"""``spt plot``: pictures for papers and talks."""

from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer()


@app.command()
def plot(
    runs: Annotated[
        Path, typer.Argument(help="A folder given to --runs before, or one study's folder in it.")
    ],
    kind: Annotated[str, typer.Option(help="gain, points, lines, curves, ranks or measures.")] = "gain",
    style: Annotated[
        str, typer.Option(help="neurips (5.5 in wide), icml (a column, 3.25 in) or page (as in the report).")
    ] = "neurips",
    output: Annotated[
        Path | None, typer.Option(help="Folder for the files; left out: plots-STYLE in the study's folder.")
    ] = None,
) -> None:
    """Draw an experiment's pictures as SVG and PDF, one file each, with the letters embedded."""
    from ..report import analysis, pictures, results

    for folder in results.experiments(runs):
        beside = output / folder.resolve().name if output else folder / f"plots-{style}"
        for path in pictures.save(analysis.analyse(results.read(folder)), kind, style, beside):
            print(path)
