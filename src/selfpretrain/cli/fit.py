"""``spt fit``: train a model on a task or a file, for use on new data."""

from pathlib import Path
from typing import Annotated

import typer

from ..data.importing import Kind, MissingPolicy, TargetKind
from .options import DataRoot, Device, Quiet, Runs

app = typer.Typer()


@app.command()
def fit(
    data: Annotated[str, typer.Argument(metavar="TASK|FILE", help="Task (`spt data list`), or a file.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder for the trained model.")],
    label: Annotated[str, typer.Option(help="Column to predict; several for multilabel: a,b or is_*.")] = "",
    sequence: Annotated[str, typer.Option(help="Column or columns of the sequence: a,b or t*.")] = "",
    group: Annotated[
        str, typer.Option(help="Column that identifies patient, speaker or file; a group is never split.")
    ] = "",
    split: Annotated[
        str, typer.Option(help="Column with train, val or test; default: random 70/15/15.")
    ] = "",
    kind: Annotated[Kind, typer.Option(help="Kind of sequences.")] = "auto",
    target: Annotated[TargetKind, typer.Option(help="Kind of labels.")] = "auto",
    id: Annotated[str, typer.Option(help="Long tables: column with the sequence of a row.")] = "",
    time: Annotated[str, typer.Option(help="Long tables: column that orders the rows of a sequence.")] = "",
    value: Annotated[str, typer.Option(help="Long tables: column or columns of the measured values.")] = "",
    rate: Annotated[int | None, typer.Option(min=1, help="Resample recordings to this rate, in Hz.")] = None,
    missing: Annotated[MissingPolicy, typer.Option(help="What to do with missing values.")] = "refuse",
    mixer: Annotated[str, typer.Option(help="Mixer (`spt list mixers`), or auto.")] = "auto",
    objective: Annotated[
        str, typer.Option(help="Pretraining objective (`spt list objectives`); none: train from scratch.")
    ] = "masked",
    scale: Annotated[str, typer.Option(help="Scale: auto, or smoke (seconds, a test run only).")] = "auto",
    epochs: Annotated[float | None, typer.Option(help="Epochs of finetuning.")] = None,
    pretrain_epochs: Annotated[float | None, typer.Option(help="Epochs of pretraining.")] = None,
    time_limit: Annotated[float | None, typer.Option(help="Maximum training time in minutes.")] = None,
    members: Annotated[
        int, typer.Option(min=1, help="Size of the ensemble: networks whose predictions are averaged.")
    ] = 1,
    balanced: Annotated[
        bool, typer.Option("--balanced", help="Weight classes inversely to their frequency.")
    ] = False,
    calibrate: Annotated[
        bool, typer.Option("--calibrate", help="Calibrate probabilities on validation.")
    ] = False,
    patience: Annotated[
        int,
        typer.Option(min=0, help="Early stopping: validations (of 20) without improvement; 0 disables it."),
    ] = 0,
    seed: Annotated[int, typer.Option(min=0, help="Random seed.")] = 0,
    runs: Runs = Path("runs"),
    device: Device = "auto",
    data_root: DataRoot = None,
    quiet: Quiet = False,
) -> None:
    """Train a model: pretrain on all sequences, finetune on the labelled ones, score on the test split."""
    from ..data.importing.options import ImportOptions
    from ..estimators import files
    from ..system.progress import showing

    options = ImportOptions(label, sequence, group, split, kind, target, id, time, value, missing, rate=rate)
    settings = {
        "mixer": mixer,
        "objective": None if objective == "none" else objective,
        "scale": scale,
        "epochs": epochs,
        "pretrain_epochs": pretrain_epochs,
        "time_limit": time_limit,
        "n_members": members,
        "class_weight": "balanced" if balanced else None,
        "calibrate": calibrate,
        "patience": patience,
        "random_state": seed,
        "runs": runs,
        "device": device,
        "verbose": not quiet,
    }
    with showing(quiet):
        estimator = files.fit(data, options, settings)
    folder = estimator.save(output)
    for name, score in estimator.scores_["test"].items():
        typer.echo(f"{name}: {score['value']:.3f} ({score['low']:.3f} to {score['high']:.3f})")
    typer.echo(f"on the test split, with 95 % intervals; the model: {folder}")
