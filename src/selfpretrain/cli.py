"""The ``spt`` command: verbs over the library; here errors become one line and an exit code."""

import os
import shlex
import sys
import traceback
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from .cli_check import app as check_app
from .cli_data import app as data_app
from .cli_data import describe
from .cli_flags import DataRoot, Quiet, Set, amended, assignments, named, telling
from .cli_show import app as show_app
from .cli_study import preview, show_report
from .errors import Interrupted, SelfPretrainError, SpecError
from .shelf import SHELVES, about, explain, names, nearest

if TYPE_CHECKING:
    from collections.abc import Callable

    from .execute import Machine
    from .study import Scale, Study

app = typer.Typer(
    name="spt",
    help="Self-pretraining against training from scratch: fair comparisons of sequence models.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
)
app.add_typer(check_app)
app.add_typer(show_app)
app.add_typer(data_app, name="data")

Runs = Annotated[Path, typer.Option(help="Folder for all that is computed; finished work is never repeated.")]
Device = Annotated[str, typer.Option(help="auto, cpu, cuda or cuda:1.")]
Jobs = Annotated[str, typer.Option(help="Stages at once: a number, or auto (one per core; one on a GPU).")]
ScaleName = Annotated[
    str,
    typer.Option("--scale", help="smoke (seconds, proves nothing), small (two cores), paper (as printed)."),
]
Seeds = Annotated[int, typer.Option(min=1, help="Repetitions: seeds 0 to n-1 are run, none is chosen.")]
DryRun = Annotated[
    bool, typer.Option("--dry-run", help="Show the stages and their estimated cost; train nothing.")
]
Trust = Annotated[
    list[str] | None, typer.Option(help="A package from outside whose specs may be loaded; can be repeated.")
]


def run(arguments: list[str]) -> int:
    """Run a command line; its exit code. Mistakes get one line, tracebacks with SPT_DEBUG=1 only."""
    import pydantic

    try:
        app(arguments)
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else 1
    except Interrupted as error:
        return _complain(f"{error}: spt {shlex.join(arguments)}", error.exit_code)
    except KeyboardInterrupt:
        return _complain("stopped at once; the same command goes on from the last checkpoint", 130)
    except SelfPretrainError as error:
        return _complain(f"error: {error}", error.exit_code)
    except pydantic.ValidationError as error:
        return _complain(f"error: {explain(error)}", SpecError.exit_code)
    return 0


def _complain(line: str, code: int) -> int:
    if os.environ.get("SPT_DEBUG"):
        traceback.print_exc()
    Console(stderr=True).print(Text(line), soft_wrap=True)
    return code


@app.command()
def compare(
    task: Annotated[
        str, typer.Option(help="A task of `spt list tasks`, or package.module:Class.")
    ] = "stdlib",
    mixers: Annotated[
        str, typer.Option(help="Mixers, comma-separated: names, or package.module:Class.")
    ] = "attention,s4d",
    objective: Annotated[
        str | None, typer.Option(help="How to pretrain: masked or causal; default: what suits the task.")
    ] = None,
    seeds: Seeds = 3,
    scale: ScaleName = "small",
    runs: Runs = Path("runs"),
    device: Device = "auto",
    jobs: Jobs = "auto",
    settings: Set = None,
    match: Annotated[
        str, typer.Option(help="params or flops: architectures as wide as it takes to equal the first.")
    ] = "none",
    tune: Annotated[
        bool, typer.Option(help="First choose each arm's settings on validation, from one grid.")
    ] = False,
    dry_run: DryRun = False,
    data_root: DataRoot = None,
    quiet: Quiet = False,
) -> None:
    """Compare training from scratch with self-pretraining, architecture by architecture."""
    from .studies.compare import prepare

    machine = _machine(runs, device, jobs, quiet)
    changes = assignments(settings)
    for_task = [(path.removeprefix("task."), value) for path, value in changes if path.startswith("task.")]
    the_task = amended(named("tasks", task), for_task)
    the_mixers = tuple(named("mixers", name.strip()) for name in mixers.split(","))
    with telling(quiet):  # the data may have to be prepared
        asked = prepare(the_task, the_mixers, objective or the_task.denoising, _scale(scale), seeds)
        comparison = asked.amended([change for change in changes if not change[0].startswith("task.")])
        comparison = comparison.matched(match)
    _carry_out(comparison, machine, dry_run, comparison.tuned if tune else None)


@app.command()
def study(
    name: Annotated[str, typer.Argument(help="A study of `spt list studies`, package.module:Class, or all.")],
    seeds: Seeds = 3,
    scale: ScaleName = "small",
    only: Annotated[
        str | None,
        typer.Option(help="Run ROW/COLUMN alone, e.g. 'attention/SPT*'; the rest is shown as missing."),
    ] = None,
    grid: Annotated[
        bool, typer.Option("--grid", help="First choose learning rate and batch of every cell by validation.")
    ] = False,
    runs: Runs = Path("runs"),
    results: Annotated[
        Path | None,
        typer.Option(
            help="Folder of kept results, read first and written last; default: those that ship, read only."
        ),
    ] = None,
    fresh: Annotated[bool, typer.Option("--fresh", help="Use no kept results: run everything here.")] = False,
    gpu: Annotated[str, typer.Option(help="For --dry-run: also the hours on this one, e.g. a100.")] = "",
    device: Device = "auto",
    jobs: Jobs = "auto",
    dry_run: DryRun = False,
    data_root: DataRoot = None,
    quiet: Quiet = False,
) -> None:
    """Run a study, or all of them, and make its page: what the paper printed beside what came out here."""
    from .cli_study import Order, carry_out_all

    order = Order(_scale(scale), seeds, only, grid, results, fresh, gpu, dry_run)
    carry_out_all(name, order, _machine(runs, device, jobs, quiet))


@app.command(name="run")
def run_recipe(
    recipe: Annotated[
        Path, typer.Argument(help="A recipe as JSON, e.g. the recipe.json of a finished stage.")
    ],
    runs: Runs = Path("runs"),
    device: Device = "auto",
    trust: Trust = None,
    data_root: DataRoot = None,
    quiet: Quiet = False,
) -> None:
    """Run one recipe, all its stages, and print the scores."""
    import json

    from .execute import perform, together
    from .recipe import Recipe, revive
    from .store import read_json
    from .study import Cell, jobs

    if not recipe.exists():
        raise SpecError(f"there is no file {recipe}")
    plain = read_json(recipe)
    plain.pop("format", None)
    revived = revive(plain, tuple(trust or ()))
    if not isinstance(revived, Recipe):
        raise SpecError(f"{recipe} does not hold a recipe, but a {type(revived).__name__}")
    with together(_machine(runs, device, "1", quiet)) as machine:
        perform(jobs([Cell("", "", revived)], machine.bench), machine)
        folder = machine.bench.folder(revived)
    print(json.dumps(read_json(folder / "result.json")["scores"], indent=1))
    print(f"results: {folder}")


@app.command()
def report(
    runs: Annotated[
        Path, typer.Argument(help="A folder given to --runs before, or one study's folder in it.")
    ],
) -> None:
    """Make tables and pages again from what is on disk, without training."""
    from .report.load import studies

    for folder in studies(runs):
        show_report(folder)


@app.command(name="list")
def list_shelf(
    shelf: Annotated[str, typer.Argument(help=", ".join(SHELVES))],
    name: Annotated[str | None, typer.Argument(help="Tell all about one thing on it.")] = None,
    data_root: DataRoot = None,
) -> None:
    """Show what is on a shelf."""
    if shelf not in SHELVES:
        raise SpecError(f"no shelf called {shelf!r}{nearest(shelf, SHELVES)}")
    if name is not None:
        Console().print(describe(shelf, name))
        return
    table = Table(box=None, show_header=False, padding=(0, 2))
    for known in names(shelf):
        table.add_row(f"[bold]{known}[/bold]", about(shelf, known))
    Console().print(table)


@app.command()
def doctor(runs: Runs = Path("runs")) -> None:
    """Show what this machine offers, and whether all is well."""
    from .doctor import findings

    table = Table(box=None, show_header=False, padding=(0, 2))
    for what, value in findings(runs):
        table.add_row(f"[bold]{what}[/bold]", Text(value))
    Console().print(table)


@app.command()
def bench(
    question: Annotated[
        str, typer.Argument(help="attention: mixers at growing length; lssl: LSSL and S4 at growing width.")
    ],
    mixers: Annotated[str, typer.Option(help="Mixers, comma-separated, or all.")] = "attention,s4",
    lengths: Annotated[str | None, typer.Option(help="Positions, comma-separated; 1k is 1024.")] = None,
    widths: Annotated[str | None, typer.Option("--width", "--widths", help="Channels.")] = None,
    batch: Annotated[int, typer.Option(min=1, help="Sequences per pass.")] = 4,
    causal: Annotated[bool, typer.Option("--causal", help="No position sees later ones.")] = False,
    match: Annotated[
        str, typer.Option(help="width: the same for all; params: as many parameters as attention has.")
    ] = "width",
    repeats: Annotated[int, typer.Option(min=1, help="Rounds over everything; medians are shown.")] = 3,
    limit: Annotated[float, typer.Option(min=1, help="Seconds that one reading may take.")] = 60,
    device: Device = "auto",
    out: Annotated[Path, typer.Option(help="Folder for table and figure.")] = Path("runs/bench"),
) -> None:
    """Measure time and memory of layers, forward and backward, as length or width grows."""
    from .bench import Setting, asked, measure, plan
    from .report.slopes import table

    setting = Setting(batch, causal, _machine(out, device, "1", False).bench.device, limit)
    made = [named("mixers", name) for name in asked(mixers)]
    cells = plan(question, made, (lengths, widths), setting, match)
    report = measure(cells, repeats, out, Console(stderr=True, markup=False, soft_wrap=True).print)
    Console().print(table(report))
    Console().print(Text(f"figure: {out / 'bench.svg'}"), soft_wrap=True)


def version(value: bool | None) -> None:
    """Print the version and end."""
    if value:
        from . import __version__

        print(f"selfpretrain {__version__}")
        raise typer.Exit


@app.callback()
def options(
    show: Annotated[
        bool | None, typer.Option("--version", callback=version, is_eager=True, help="Show the version.")
    ] = None,
) -> None:
    """Self-pretraining against training from scratch: fair comparisons of sequence models."""


def _carry_out(
    study: "Study", machine: "Machine", dry_run: bool, tuned: "Callable[[Machine], Study] | None" = None
) -> None:
    from . import world
    from .execute import carry_out, remembered, together

    if dry_run:
        preview(list(study.cells()), machine)
        return
    with remembered(machine), together(machine) as here:
        folders = carry_out(tuned(here) if tuned else study, here)
        if world.first():
            for folder in folders:
                show_report(folder)


def _machine(runs: Path, device: str, jobs: str, quiet: bool) -> "Machine":
    from .execute import Machine

    return replace(Machine.of(runs, device, jobs), quiet=quiet, command=f"spt {shlex.join(sys.argv[1:])}")


def _scale(name: str) -> "Scale":
    from .study import SCALES

    for scale in SCALES:
        if scale == name:
            return scale
    raise SpecError(f"--scale {name}: there is no such scale{nearest(name, SCALES)}")
