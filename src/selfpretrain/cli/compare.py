"""``spt compare``: training from scratch against self-pretraining, architecture by architecture."""

from pathlib import Path
from typing import Annotated

import typer

from . import options as flags

app = typer.Typer()
Tune = Annotated[bool, typer.Option(help="First choose each arm's settings on validation, from one space.")]
Match = Annotated[
    str, typer.Option(help="params or flops: architectures as wide as it takes to equal the first.")
]
Objective = Annotated[
    str | None,
    typer.Option(
        help="How to pretrain: one of `spt list objectives`, or package.module:Class; "
        "default: what suits the task."
    ),
]


@app.command()
def compare(
    task: Annotated[
        str, typer.Option(help="Tasks of `spt list tasks`, comma-separated, or package.module:Class.")
    ] = "paths",
    mixers: Annotated[
        str, typer.Option(help="Mixers, comma-separated: names, or package.module:Class.")
    ] = "attention,s4d",
    objective: Objective = None,
    seeds: flags.Seeds = 3,
    first_seed: flags.FirstSeed = 0,
    scale: flags.ScaleName = "small",
    runs: flags.Runs = Path("runs"),
    device: flags.Device = "auto",
    jobs: flags.Jobs = "auto",
    executor: flags.Executor = "auto",
    executor_settings: flags.ExecutorSettings = None,
    gpus_per_stage: flags.GpusPerStage = None,
    partition: flags.Partition = None,
    time: flags.Time = None,
    track: flags.Track = None,
    settings: flags.Set = None,
    match: Match = "none",
    tune: Tune = False,
    time_limit: flags.TimeLimit = None,
    dry_run: flags.DryRun = False,
    detach: flags.Detach = False,
    measure: flags.Measure = False,
    as_json: flags.Json = False,
    data_root: flags.DataRoot = None,
    quiet: flags.Quiet = False,
) -> None:
    """Compare training from scratch with self-pretraining, architecture by architecture."""
    from ..studies._running import (
        Request,
        carry_out,
        carry_out_later,
        comparison,
        foreseen,
        planning,
        settled,
        within,
    )
    from ..system.progress import showing
    from .printing import show_forecast, show_plan, show_results, warn_of_length

    own = flags.settings_of(executor_settings, {"gpus": gpus_per_stage, "partition": partition, "time": time})
    workspace = flags.workspace_of(runs, device, jobs, quiet, executor, track, own)
    at, changed = flags.scale_of(scale), settled(flags.assignments(settings), workspace)
    with planning(workspace, at) if dry_run else showing(quiet):  # the data may have to be prepared
        study = comparison(_listed(task), _listed(mixers), objective, seeds, at, changed).matched(match)
    study = within(flags.seconds_of(time_limit), study, at, workspace, dry_run) if time_limit else study
    request = Request(study, at, first_seed, tune=tune)
    if dry_run:
        show_forecast(foreseen(request, workspace, timed=measure), as_json)
    elif detach:
        show_plan(*carry_out_later(request, workspace))
    else:
        if not quiet:
            warn_of_length(foreseen(request, workspace), time_limit is not None)
        show_results(carry_out(request, workspace), as_json)


def _listed(names: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in names.split(","))
