"""``selfpretrain study``: reproduce one study of the papers, or all of them, and write their reports."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.text import Text

from ..errors import DataError, DoesNotFit, SpecError
from ..registry import names, resolve
from ..system.events import listen
from . import options as flags
from .printing import content_of, print_json, say_news, show

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..api import PlannedRequest
    from .printing import Outcome

app = typer.Typer()
Mixers = Annotated[
    str | None, typer.Option(help="Mixers to add as rows, comma-separated, or package.module:Class.")
]
Results = Annotated[
    Path | None,
    typer.Option(help="Folder of bundled results, reused and updated; default: ours, read-only."),
]
Only = Annotated[
    str | None,
    typer.Option(
        help="Run only ROW/COLUMN or TASK/ROW/COLUMN, e.g. 'attention/SPT*'; others are reported as missing."
    ),
]


@app.command()
@flags.expanded
def study(
    *,
    name: Annotated[
        str, typer.Argument(help="Study (`selfpretrain list studies`), package.module:Class, or all.")
    ],
    seeds: flags.Seeds = "3",
    first_seed: flags.FirstSeed = 0,
    scale: flags.ScaleName = "small",
    mixers: Mixers = None,
    settings: flags.Set = None,
    only: Only = None,
    tune: flags.TuneCells = False,
    run: flags.RunFlags,
    results: Results = None,
    fresh: Annotated[bool, typer.Option("--fresh", help="Ignore bundled results; train everything.")] = False,
    gpu: Annotated[
        str, typer.Option(help="With --dry-run: memory, hours and dollars on this GPU, e.g. a100.")
    ] = "",
) -> None:
    """Run a study, or all of them, and report the results next to the numbers of the paper."""
    from .. import api
    from ..report.sequential import parse_seeds
    from ..training.cost import COUNTED
    from ..training.gpus import find_gpu

    if name == "all" and run.detach:
        raise SpecError("--detach submits the jobs of one study at a time; name it")
    most, design = parse_seeds(seeds)
    workspace = run.workspace()
    chosen_scale = flags.scale_of(scale)
    changed = flags.assignments(settings)
    if gpu and not run.dry_run:
        raise SpecError("--gpu is about the forecast of --dry-run; add --dry-run, or leave it out")
    if gpu and run.measure:
        raise SpecError("--measure times steps on this machine, --gpu forecasts those of another; give one")
    if gpu:
        find_gpu(gpu)
    if changed and results:
        raise SpecError("--results keeps studies as they are; leave out -s, or --results")
    extra = tuple(resolve("mixers", each.strip()) for each in mixers.split(",")) if mixers else ()
    forecaster = api.forecast_planner(chosen_scale, stubs=True)

    def plan(each: str) -> api.PlannedRequest:
        wanted = api.find_study(each, chosen_scale, most, workspace)
        wanted = wanted.with_mixers(extra) if extra else wanted
        wanted = wanted.with_settings(changed) if changed else wanted
        if results and not wanted.lasting and name != "all":
            raise SpecError(f"--results: {each} keeps no results beside its runs; leave it out")
        request = api.Request(wanted, chosen_scale, first_seed, only, tune, results, fresh, design)
        return api.plan_request(request, forecaster if run.dry_run else COUNTED)

    def carry_out(planned: api.PlannedRequest) -> "Outcome":
        with listen(say_news):
            outcome = run.forecast_or_submit(planned, workspace, gpu)
            return outcome or api.run_request(planned.request, workspace, planned)

    if name == "all":
        _every(plan, carry_out, run.as_json, gpu)
    else:
        outcome = carry_out(plan(name))
        print_json(content_of(outcome)) if run.as_json else show(outcome)


def _every(
    plan: "Callable[[str], PlannedRequest]",
    carry_out: "Callable[[PlannedRequest], Outcome]",
    json: bool,
    gpu: str,
) -> None:
    """Plan and carry out every study; those that cannot be planned at this scale are left out."""
    from pydantic import ValidationError

    from ..config import explain
    from ..training.gpus import find_gpu

    requested = 0
    failure: Exception | None = None
    different = set[str]()
    hours = dict[str, float]()
    found = dict[str, Any]()
    console = Console(quiet=json)
    for each in names("studies"):
        planned = None
        try:
            planned = plan(each)
            console.rule(each)
            outcome = carry_out(planned)
        except (SpecError, DataError, ValidationError) as error:
            why = explain(error) if isinstance(error, ValidationError) else str(error)
            console.print(Text(f"{each}: left out: {why}"), soft_wrap=True)
            found[each] = {"left_out": why}
            failure = failure or (error if planned else None)
            continue
        except DoesNotFit as error:  # its page says so; the other studies may fit
            failure = failure or error
            continue
        if json:
            found[each] = content_of(outcome)
        else:
            show(outcome)
        requested += sum(len(cell.stages) for cell in planned.plan.experiment.cells)
        different |= planned.plan.stages.keys()
        hours |= getattr(outcome, "gpu_hours", None) or {}
    totals = {}
    spent = ""
    if gpu:
        whole = sum(hours.values(), 0.0)
        card = find_gpu(gpu)
        totals = {"hours": whole, "dollars": card.price(whole)}
        spent = f"; {len(hours):,} to run: {card.bill(whole)} on one {gpu}"
    console.print(
        f"{requested:,} stages requested by all studies, {len(different):,} different ones{spent}",
        soft_wrap=True,
        highlight=False,
    )
    if json:
        print_json({"asked": requested, "different": len(different), "studies": found} | totals)
    if failure is not None:
        raise failure
