"""``spt compare``: compare training from scratch with self-pretraining for each architecture."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..errors import SpecError
from . import options as flags

if TYPE_CHECKING:
    from ..tasks.base import Task
    from .printing import Outcome

app = typer.Typer()
Tune = Annotated[bool, typer.Option(help="First tune each arm on validation, over the same search space.")]
Match = Annotated[str, typer.Option(help="Scale widths to match the first architecture: params or flops.")]
GroupFolds = Annotated[
    int | None,
    typer.Option(min=3, help="Cross-validation folds over the groups of imported data; each is tested once."),
]
Objective = Annotated[
    str | None,
    typer.Option(
        help="Pretraining objective (`spt list objectives`), or package.module:Class; "
        "default: the one that suits the task."
    ),
]


@app.command()
def compare(
    task: Annotated[
        str | None,
        typer.Option(
            help="Tasks (`spt list tasks`), comma-separated, or package.module:Class; "
            "default: paths, with a budget of minutes."
        ),
    ] = None,
    mixers: Annotated[
        str, typer.Option(help="Mixers (`spt list mixers`), comma-separated, or package.module:Class.")
    ] = "attention,s4d",
    objective: Objective = None,
    seeds: flags.Seeds = 4,
    first_seed: flags.FirstSeed = 0,
    scale: flags.ScaleName = "small",
    runs: flags.Runs = Path("runs"),
    device: flags.Device = "auto",
    jobs: flags.Jobs = "auto",
    executor: flags.Executor = "auto",
    executor_settings: flags.ExecutorSettings = None,
    track: flags.Track = None,
    settings: flags.Set = None,
    match: Match = "none",
    tune: Tune = False,
    group_folds: GroupFolds = None,
    time_limit: flags.TimeLimit = None,
    dry_run: flags.DryRun = False,
    detach: flags.Detach = False,
    measure: flags.Measure = False,
    as_json: flags.Json = False,
    data_root: flags.DataRoot = None,
    quiet: flags.Quiet = False,
) -> None:
    """Compare training from scratch with self-pretraining for each architecture."""
    from .. import api as running
    from ..system.progress import show_progress
    from .printing import content_of, print_json, show, warn_of_length

    workspace = flags.workspace_of(runs, device, jobs, quiet, executor, track, executor_settings)
    at, changed = flags.scale_of(scale), running.settled(flags.assignments(settings), workspace)
    with (
        running.planning(workspace, at) if dry_run else show_progress(quiet)
    ):  # building the study may prepare data
        tasks = _tasks(task, group_folds)
        study = running.comparison(tasks, _listed(mixers), objective, seeds, at, changed).match_size(match)
    if time_limit:
        study = running.within(flags.seconds_of(time_limit), study, at, workspace, dry_run)
    request = running.Request(study, at, first_seed, tune=tune)
    outcome: Outcome
    if dry_run:
        outcome = running.foreseen(request, workspace, timed=measure)
    elif detach:
        outcome = running.carry_out_later(request, workspace)
    else:
        if not quiet:
            warn_of_length(running.foreseen(request, workspace), time_limit is not None)
        outcome = running.carry_out(request, workspace)
    print_json(content_of(outcome)) if as_json else show(outcome)


def _tasks(names: str | None, folds: int | None) -> "tuple[str | Task, ...] | None":
    from ..tasks.base import load_task

    if names is None:
        if folds:
            raise SpecError("--group-folds divides imported data: name them with --task")
        return None
    return tuple(load_task(name).with_folds(folds) if folds else name for name in _listed(names))


def _listed(names: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in names.split(","))
