"""``spt predict``: apply a trained model to new sequences."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from .options import Device, Trust

app = typer.Typer()
Longer = Literal["cut", "refuse"]
ModelFolder = Annotated[Path, typer.Argument(metavar="MODEL", help="Folder written by spt fit.")]
NewData = Annotated[
    Path, typer.Argument(metavar="NEW", help="Table, folder or file like the one given to spt fit, or .npy.")
]
SkipBad = Annotated[bool, typer.Option("--skip-bad", help="Skip invalid rows, and report them.")]


@app.command()
def predict(
    model: ModelFolder,
    new: NewData,
    output: Annotated[Path, typer.Option("--output", "-o", help="CSV file for the predictions.")],
    skip_bad: SkipBad = False,
    longer: Annotated[
        Longer, typer.Option(help="What to do with sequences longer than in training.")
    ] = "cut",
    device: Device = "auto",
    trust: Trust = None,
) -> None:
    """Predict every row of a file, in order, with probabilities and the other columns of the row."""
    from ..estimators import files, models

    estimator = models.load(model, device, tuple(trust or ()))
    estimator.longer = longer
    data = files.read_new(new, estimator)
    without = files.predict(estimator, data, output, skip_bad)
    left = f", {without:,} without an answer (see column problem)" if without else ""
    typer.echo(f"{data.sequences.given:,} rows{left}: {output}")
