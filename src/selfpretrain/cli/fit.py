"""``spt fit``: a model to use, from a task or a file."""

from pathlib import Path
from typing import Annotated

import typer

from ..data.importing.kinds import Kind, MissingPolicy, TargetKind
from .options import DataRoot, Device, Quiet, Runs

app = typer.Typer()


@app.command()
def fit(
    data: Annotated[str, typer.Argument(metavar="TASK|FILE", help="A task of `spt data list`, or a file.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder for the model.")],
    label: Annotated[str, typer.Option(help="Column to predict; of sets also several: a,b or is_*.")] = "",
    sequence: Annotated[str, typer.Option(help="Column, or several: a,b or t*.")] = "",
    group: Annotated[str, typer.Option(help="Column of patient, speaker, file: none is in two splits.")] = "",
    split: Annotated[str, typer.Option(help="Column that says train, val or test; left out: 70/15/15.")] = "",
    kind: Annotated[Kind, typer.Option(help="What sequences hold.")] = "auto",
    target: Annotated[TargetKind, typer.Option(help="What labels are.")] = "auto",
    id: Annotated[str, typer.Option(help="Long tables: column of the sequence.")] = "",
    time: Annotated[str, typer.Option(help="Long tables: column of the time.")] = "",
    value: Annotated[str, typer.Option(help="Long tables: column of the value, or several.")] = "",
    rate: Annotated[int | None, typer.Option(min=1, help="Recordings: samples per second.")] = None,
    missing: Annotated[MissingPolicy, typer.Option(help="What to do about unknown values.")] = "refuse",
    mixer: Annotated[str, typer.Option(help="A mixer of `spt list mixers`, or auto.")] = "auto",
    objective: Annotated[str, typer.Option(help="How to pretrain; none: from scratch.")] = "masked",
    scale: Annotated[str, typer.Option(help="auto, or smoke: seconds, proves nothing.")] = "auto",
    epochs: Annotated[float | None, typer.Option(help="Of finetuning.")] = None,
    pretrain_epochs: Annotated[float | None, typer.Option(help="Of pretraining.")] = None,
    time_limit: Annotated[float | None, typer.Option(help="Minutes of training, at most.")] = None,
    members: Annotated[int, typer.Option(min=1, help="Networks whose answers are averaged.")] = 1,
    balanced: Annotated[bool, typer.Option("--balanced", help="Let all classes count alike.")] = False,
    calibrate: Annotated[bool, typer.Option("--calibrate", help="Fit probabilities to validation.")] = False,
    patience: Annotated[int, typer.Option(min=0, help="Validations of 20 to wait; 0: to the end.")] = 0,
    seed: Annotated[int, typer.Option(min=0, help="Another number, another model.")] = 0,
    runs: Runs = Path("runs"),
    device: Device = "auto",
    data_root: DataRoot = None,
    quiet: Quiet = False,
) -> None:
    """Train a model to use: pretrained on all sequences, finetuned on the labelled ones, scored on test."""
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
