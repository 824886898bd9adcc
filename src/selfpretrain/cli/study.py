"""``spt study``: reproduce one study of the papers, or all of them, and write their reports."""

from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.text import Text

from ..errors import DataError, SpecError
from ..registry import names, resolve
from ..system.events import Event, listen
from . import options as flags
from .printing import content_of, print_json, show

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..api import Request
    from ..runner.workspace import Workspace
    from .printing import Outcome

app = typer.Typer()
Mixers = Annotated[
    str | None, typer.Option(help="Mixers to add as rows, comma-separated, or package.module:Class.")
]
Results = Annotated[
    Path | None,
    typer.Option(help="Folder of kept results, reused and updated; default: the shipped ones, read-only."),
]
Only = Annotated[
    str | None,
    typer.Option(help="Run only ROW/COLUMN, e.g. 'attention/SPT*'; other cells are reported as missing."),
]


@app.command()
def study(
    name: Annotated[str, typer.Argument(help="Study (`spt list studies`), package.module:Class, or all.")],
    seeds: flags.Seeds = 3,
    first_seed: flags.FirstSeed = 0,
    scale: flags.ScaleName = "small",
    mixers: Mixers = None,
    settings: flags.Set = None,
    only: Only = None,
    tune: flags.TuneCells = False,
    runs: flags.Runs = Path("runs"),
    results: Results = None,
    fresh: Annotated[bool, typer.Option("--fresh", help="Ignore kept results and train everything.")] = False,
    gpu: Annotated[
        str, typer.Option(help="With --dry-run: also estimate the time on this GPU, e.g. a100.")
    ] = "",
    device: flags.Device = "auto",
    jobs: flags.Jobs = "auto",
    executor: flags.Executor = "auto",
    executor_settings: flags.ExecutorSettings = None,
    track: flags.Track = None,
    dry_run: flags.DryRun = False,
    detach: flags.Detach = False,
    measure: flags.Measure = False,
    as_json: flags.Json = False,
    data_root: flags.DataRoot = None,
    quiet: flags.Quiet = False,
) -> None:
    """Run a study, or all of them, and report the results next to the numbers of the paper."""
    from ..api import Request, asked, carry_out, carry_out_later, foreseen, planning

    workspace = flags.workspace_of(runs, device, jobs, quiet, executor, track, executor_settings)
    at, changed = flags.scale_of(scale), flags.assignments(settings)
    if changed and results:
        raise SpecError("--results keeps studies as they are; leave out -s, or --results")
    extra = tuple(resolve("mixers", each.strip()) for each in mixers.split(",")) if mixers else ()

    def request(each: str) -> Request:
        wanted = asked(each, at, seeds, workspace)
        wanted = wanted.with_mixers(extra) if extra else wanted
        wanted = wanted.with_settings(changed) if changed else wanted
        return Request(wanted, at, first_seed, only, tune, results, fresh)

    def one(wanted: Request) -> "Outcome":
        with listen(_say_restored):
            if dry_run:
                return foreseen(wanted, workspace, gpu, measure)
            return carry_out_later(wanted, workspace) if detach else carry_out(wanted, workspace)

    with planning(workspace, at) if dry_run else nullcontext():
        if name == "all":
            _every(request, one, workspace, as_json)
        else:
            outcome = one(request(name))
            print_json(content_of(outcome)) if as_json else show(outcome)


def _every(
    request: "Callable[[str], Request]",
    one: "Callable[[Request], Outcome]",
    workspace: "Workspace",
    json: bool,
) -> None:
    asked, different, found = 0, set[str](), dict[str, Any]()
    console = Console(quiet=json)
    for each in names("studies"):
        try:
            wanted = request(each)
            console.rule(each)
            outcome = one(wanted)
        except (SpecError, DataError) as error:
            console.print(Text(f"{each}: left out: {error}"), soft_wrap=True)
            found[each] = {"left_out": str(error)}
            continue
        if json:
            found[each] = content_of(outcome)
        else:
            show(outcome)
        cells = wanted.experiment().cells
        asked += sum(len(cell.recipe.stages) for cell in cells)
        different |= {workspace.stage(p).name for cell in cells for p in cell.recipe.prefixes()}
    console.print(f"{asked:,} stages asked for by all studies, {len(different):,} different ones")
    if json:
        print_json({"asked": asked, "different": len(different), "studies": found})


def _say_restored(event: Event) -> None:
    if event.kind == "restored":
        Console(stderr=True).print(
            f"{event.done} stages are taken from {event.name}; --fresh runs them here", soft_wrap=True
        )
