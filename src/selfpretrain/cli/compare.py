"""``selfpretrain compare``: compare training from scratch with self-pretraining for each architecture."""

from contextlib import nullcontext
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..errors import SpecError
from . import options as flags

if TYPE_CHECKING:
    from ..tasks.base import Task

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
        help="Pretraining objective (`selfpretrain list objectives`), or package.module:Class; "
        "default: the one that suits the task."
    ),
]
FailIf = Annotated[
    str,
    typer.Option(
        help="Exit with code 3 if SPT stands like this to its control for any architecture: better, ahead, "
        "equal, unclear, behind, worse; comma-separated."
    ),
]
VERDICT = 3
"""Exit code of --fail-if."""


@app.command()
@flags.expanded
def compare(
    *,
    task: Annotated[
        str | None,
        typer.Option(
            help="Tasks (`selfpretrain list tasks`), comma-separated, or package.module:Class; "
            "default: paths, with a budget of minutes."
        ),
    ] = None,
    mixers: Annotated[
        str,
        typer.Option(help="Mixers (`selfpretrain list mixers`), comma-separated, or package.module:Class."),
    ] = "attention,lru",
    objective: Objective = None,
    arms: Annotated[
        str,
        typer.Option(help="Arms (`selfpretrain list arms`), comma-separated, or package.module:Class."),
    ] = "scratch,matched,spt",
    seeds: flags.Seeds = "4",
    first_seed: flags.FirstSeed = 0,
    scale: flags.ScaleName = "small",
    run: flags.RunFlags,
    settings: flags.Set = None,
    match: Match = "none",
    tune: Tune = False,
    group_folds: GroupFolds = None,
    minutes: flags.Minutes = None,
    fail_if: FailIf = "",
) -> None:
    """Compare training from scratch with self-pretraining for each architecture."""
    from .. import api
    from ..report.sequential import parse_seeds
    from ..system.events import listen
    from ..system.progress import show_progress
    from ..training.cost import COUNTED
    from .printing import content_of, print_json, say_news, show, warn_of_length

    failing = _standings(fail_if)
    if failing and run.detach:
        raise SpecError("--fail-if needs results; run it without --detach")
    most, design = parse_seeds(seeds)
    workspace = run.workspace()
    chosen_scale = flags.scale_of(scale)
    changed = api.resolve_settings(flags.assignments(settings), workspace)
    forecaster = api.forecast_planner(chosen_scale, stubs=run.dry_run)
    planner = forecaster if run.dry_run else COUNTED
    with nullcontext() if run.dry_run else show_progress(run.quiet):  # building the study may prepare data
        tasks = _tasks(task, group_folds)
        study = api.comparison(
            tasks, _names(mixers), objective, most, chosen_scale, changed, planner, _names(arms)
        )
        study = study.match_size(match, planner)
    request = api.Request(study, chosen_scale, first_seed, tune=tune, design=design)
    if minutes:
        request = api.fit_to_time_limit(request, 60 * minutes, workspace, forecaster)
    planned = api.plan_request(request, forecaster)
    if not (run.dry_run or run.detach or run.quiet or workspace.elsewhere):
        warn_of_length(api.forecast_request(planned, workspace), minutes is not None)
    with listen(say_news):
        outcome = run.forecast_or_submit(planned, workspace) or api.run_request(request, workspace, planned)
    content = content_of(outcome) if run.as_json or failing else {}
    print_json(content) if run.as_json else show(outcome)
    if failing and not run.dry_run:
        _gate(content["verdicts"], failing)


def _gate(verdicts: list[dict[str, Any]], failing: frozenset[str]) -> None:
    """Exit with code 3 if a verdict fails, or cannot be given.

    It cannot with one seed, without finite scores, or for a lead that is not evidence, as after divergence.
    """
    from ..report.analysis import JUDGED, LEADS

    passing = {standing.value for standing in JUDGED} - failing
    leads = {standing.value for standing in LEADS}
    failed = []
    for one in verdicts:
        void = one["standing"] in leads and one["no_evidence"]
        if void or one["standing"] not in passing:
            arms = f"{one['arm']} against {one['against']}"
            but = f", but {void}" if void else ""
            failed.append(f"{one['task']}, {one['row']}: {one['standing']}{but} ({arms})")
    if failed:
        typer.echo(f"--fail-if: {'; '.join(failed)}", err=True)
        raise typer.Exit(VERDICT)


def _tasks(names: str | None, folds: int | None) -> "tuple[str | Task, ...] | None":
    from ..tasks.base import load_task

    if names is None:
        if folds:
            raise SpecError("--group-folds divides imported data: name them with --task")
        return None
    return tuple(load_task(name).with_folds(folds) if folds else name for name in _names(names))


def _standings(names: str) -> frozenset[str]:
    """Return the standings that --fail-if names."""
    from ..report.analysis import JUDGED

    chosen = frozenset(_names(names)) if names else frozenset()
    known = [standing.value for standing in JUDGED]
    if wrong := chosen - set(known):
        raise SpecError(f"--fail-if: {', '.join(sorted(wrong))} is not one of {', '.join(known)}")
    return chosen


def _names(names: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in names.split(","))
