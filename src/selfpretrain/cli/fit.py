"""Commands ``fit`` and ``predict``: train a model on a task or a file, and apply it to new sequences."""

from pathlib import Path
from typing import Annotated, Any, Literal, cast

import typer

from ..errors import Interrupted
from .options import ColumnFlags, DataRoot, Device, Minutes, Quiet, Runs, Trust, assignments, choice, expanded

app = typer.Typer()
Longer = Literal["cut", "refuse"]
ModelFolder = Annotated[Path, typer.Argument(metavar="MODEL", help="Folder written by selfpretrain fit.")]
NewData = Annotated[
    Path,
    typer.Argument(
        metavar="NEW", help="Table, folder or file like the one given to selfpretrain fit, or .npy."
    ),
]
SkipBad = Annotated[bool, typer.Option("--skip-bad", help="Skip invalid rows, and report them.")]


@app.command()
@expanded
def fit(
    *,
    data: Annotated[
        str, typer.Argument(metavar="TASK|FILE", help="Task (`selfpretrain data list`) or file.")
    ],
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder for the trained model.")],
    columns: ColumnFlags,
    mixer: Annotated[str, typer.Option(help="Mixer (`selfpretrain list mixers`), or auto.")] = "auto",
    model: Annotated[
        str, typer.Option(help="Model to save: best (network, simple method or their average), or network.")
    ] = "best",
    objective: Annotated[
        str, typer.Option(help="Objective (`selfpretrain list objectives`) or auto; none: from scratch.")
    ] = "auto",
    trials: Annotated[
        int | None, typer.Option(min=1, help="Maximum number of network settings to try; 1: the default.")
    ] = None,
    scale: Annotated[str, typer.Option(help="Scale: auto, or smoke (seconds, a test run only).")] = "auto",
    epochs: Annotated[float | None, typer.Option(help="Epochs of finetuning.")] = None,
    pretrain_epochs: Annotated[float | None, typer.Option(help="Epochs of pretraining.")] = None,
    minutes: Minutes = None,
    exhaustive: Annotated[
        bool,
        typer.Option(
            "--exhaustive", help="Train networks even if a simple method is right on all of validation."
        ),
    ] = False,
    members: Annotated[
        int, typer.Option(min=1, help="Size of the ensemble: networks whose predictions are averaged.")
    ] = 1,
    balanced: Annotated[
        bool, typer.Option("--balanced", help="Weight classes inversely to their frequency.")
    ] = False,
    calibrate: Annotated[bool, typer.Option("--calibrate", help="Calibrate outputs on validation.")] = False,
    patience: Annotated[
        int | None,
        typer.Option(min=0, help="Early stopping: validations (of 20) without improvement; 0 disables it."),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Random seed.")] = 0,
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", "-s", help="Any other setting of the estimator, e.g. pooling=max. Repeatable."),
    ] = None,
    runs: Runs = Path("runs"),
    device: Device = "auto",
    data_root: DataRoot = None,
    quiet: Quiet = False,
) -> None:
    """Train a model: pretrain on all sequences, finetune on the labelled ones, score on the test split."""
    from ..config import read_value
    from ..data.importing.options import ImportOptions
    from ..estimators import files, scores
    from ..system.progress import show_progress
    from ..system.startup import others_interrupt

    options = ImportOptions(**columns.options())
    settings: dict[str, Any] = {"model": model, "mixer": mixer, "scale": scale, "calibrate": calibrate}
    settings |= {"objective": None if objective == "none" else objective}
    settings |= {"epochs": epochs, "pretrain_epochs": pretrain_epochs, "n_members": members}
    settings |= {"minutes": minutes, "exhaustive": exhaustive}
    settings |= {"class_weight": "balanced" if balanced else None}
    settings |= {"patience": "auto" if patience is None else patience}
    settings |= {"n_trials": "auto" if trials is None else trials}
    settings |= {"random_state": seed, "runs": runs, "device": device, "verbose": not quiet}
    given = assignments(set_, example="pooling=max")
    settings |= {name: read_value(text) for name, text in given.items()}
    with show_progress(quiet), others_interrupt():
        estimator = files.fit(data, options, settings, output)
    folder = estimator.save(output)
    if estimator.kept_:
        typer.echo(estimator.kept_)
    found = estimator.scores_.get("test", {})
    for name, score in found.items():
        typer.echo(f"{name}: {scores.Score(**score)}")
    typer.echo(f"{'on the test split, with 95 % intervals; ' if found else ''}model: {folder}")
    if estimator.interrupted_:
        raise Interrupted("stopped, and the best so far is saved; to go on")


@app.command()
def predict(
    model: ModelFolder,
    new: NewData,
    output: Annotated[Path, typer.Option("--output", "-o", help="CSV file for the predictions.")],
    skip_bad: SkipBad = False,
    longer: Annotated[
        str | None,
        choice("--longer", Longer, "What to do with sequences longer than in training. [default: as fitted]"),
    ] = None,
    device: Device = "auto",
    trust: Trust = None,
) -> None:
    """Predict every row of a file, in order, with probabilities and the other columns of the row."""
    from ..estimators import files, models

    files.check_output(new, output)
    estimator = models.load(model, device, tuple(trust or ()))
    if longer is not None:
        estimator.longer = cast(Longer, longer)
    data = files.read_new(new, estimator)
    without = files.predict(estimator, data, output, skip_bad)
    left = f", {without:,} without an answer (see column problem)" if without else ""
    typer.echo(f"{data.sequences.given:,} rows{left}: {output}")
