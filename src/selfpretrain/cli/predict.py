"""``spt predict``: what a model says of new sequences."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from .options import Device, Trust

app = typer.Typer()
Longer = Literal["cut", "refuse"]
ModelFolder = Annotated[Path, typer.Argument(metavar="MODEL", help="A folder that spt fit has made.")]
NewData = Annotated[
    Path, typer.Argument(metavar="NEW", help="A table, folder or file like that of spt fit, or .npy.")
]
SkipBad = Annotated[bool, typer.Option("--skip-bad", help="Answer the rows that are fine; name the others.")]


@app.command()
def predict(
    model: ModelFolder,
    new: NewData,
    output: Annotated[Path, typer.Option("--output", "-o", help="CSV file for the answers.")],
    skip_bad: SkipBad = False,
    longer: Annotated[Longer, typer.Option(help="What to do with longer ones than in training.")] = "cut",
    device: Device = "auto",
    trust: Trust = None,
) -> None:
    """Answer every row of a file, in its order, with probabilities and whatever else stood in the row."""
    from ..estimators import files, persistence, predict_input

    estimator = persistence.load(model, device, tuple(trust or ()))
    estimator.longer = longer
    rows = predict_input.open_file(new, estimator)
    without = files.answer(estimator, rows, output, skip_bad)
    left = f", {without:,} without an answer (see column problem)" if without else ""
    typer.echo(f"{len(rows.rows):,} rows{left}: {output}")
