"""``selfpretrain model``: extract, show, embed with, export and publish trained models."""

from pathlib import Path
from typing import Annotated

import typer

from ..errors import SpecError
from .fit import ModelFolder, NewData, SkipBad
from .options import DataRoot, Device, Trust

app = typer.Typer(help="Extract, show, embed with, export and publish trained models.", no_args_is_help=True)
Output = Annotated[Path, typer.Option("--output", "-o", help="Output path.")]


@app.command()
def take(
    experiment: Annotated[Path, typer.Argument(help="Folder of a finished comparison, in the runs folder.")],
    row: Annotated[str, typer.Option(help="Row of its table, e.g. attention.")],
    column: Annotated[str, typer.Option(help="Column of its table, e.g. SPT.")],
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Folder for the model.")] = None,
    backbone: Annotated[
        Path | None,
        typer.Option(
            help="File (.safetensors) for the weights of a network of your own, by its own names, without "
            "embedding and head."
        ),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed.")] = 0,
    task: Annotated[str, typer.Option(help="Task, if there are several.")] = "",
    trust: Trust = None,
    data_root: DataRoot = None,
) -> None:
    """Save one arm of a finished comparison as a model for new data, or the weights of its network."""
    from ..estimators.models import load_arm

    if output is None and backbone is None:
        raise SpecError(
            "name what to write: -o FOLDER for a model, or --backbone FILE.safetensors for weights"
        )
    estimator = load_arm(experiment, (task, row, column, seed), tuple(trust or ()))
    if backbone is not None:
        typer.echo(f"{estimator.save_backbone(backbone)}: {backbone}")
    if output is not None:
        typer.echo(f"model: {estimator.save(output)}")


@app.command()
def show(model: ModelFolder) -> None:
    """Show the model card: purpose, data, scores and recipe."""
    from rich.console import Console
    from rich.markdown import Markdown

    from ..estimators.persistence import card_of

    Console().print(Markdown(card_of(model).split("---\n", 2)[2]))


@app.command()
def embed(
    model: ModelFolder,
    new: NewData,
    output: Output,
    skip_bad: SkipBad = False,
    device: Device = "auto",
    trust: Trust = None,
) -> None:
    """Write one embedding per row of a file, as .npy; skipped rows are NaN."""
    import numpy as np

    from ..estimators import files, models
    from ..system.files import explain_output_errors, replace_file

    files.check_output(new, output)
    estimator = models.load(model, device, tuple(trust or ()))
    data = files.read_new(new, estimator)
    found, embeddings = files.answered(estimator, data, estimator.transform, skip_bad)
    vectors = np.full((found.given, estimator.predictor_.model.width), np.nan)
    vectors[found.rows] = embeddings
    with explain_output_errors(output), replace_file(output) as temporary, temporary.open("wb") as file:
        np.save(file, vectors, allow_pickle=False)
    typer.echo(f"{len(vectors):,} vectors of width {vectors.shape[1]}: {output}")


@app.command()
def export(
    model: ModelFolder,
    output: Annotated[
        Path, typer.Option("--output", "-o", help="File to write: .onnx, or .pt2 for torch.export.")
    ],
    length: Annotated[
        int | None, typer.Option(min=2, help="Maximum sequence length; default: as in training.")
    ] = None,
    trust: Trust = None,
) -> None:
    """Export a model for other programs, with any batch size and length, and check its outputs."""
    from ..estimators import models

    difference = models.load(model, "cpu", tuple(trust or ())).export(output, length)
    typer.echo(f"{output}: its outputs differ from those of the network by at most {difference:.1e}")


@app.command()
def push(
    model: ModelFolder,
    name: Annotated[str, typer.Argument(metavar="OWNER/NAME", help="Name of the repository on the hub.")],
    private: Annotated[bool, typer.Option("--private", help="Make the repository private.")] = False,
    trust: Trust = None,
) -> None:
    """Publish a model with its card on the Hugging Face Hub."""
    from ..estimators import models

    typer.echo(models.load(model, "cpu", tuple(trust or ())).push_to_hub(name, private))
