"""``spt data import``: import labelled sequences; prints what it inferred, and then what it wrote."""

import dataclasses
import sys
from typing import TYPE_CHECKING, Annotated

import typer

from ..data.importing import AudioFeatures
from ..data.paths import imported_datasets
from ..errors import DataError, printable
from ..system.progress import show_progress
from .options import ColumnFlags, DataRoot, expanded
from .printing import say, show_facts

if TYPE_CHECKING:
    from ..data.store import StoredDataset

SHOWN = 40
"""Maximum number of classes whose counts are shown."""

app = typer.Typer()
Origin = Annotated[
    str,
    typer.Argument(
        metavar="ORIGIN",
        help="CSV, TSV, JSONL, Parquet, Arrow, .npy, .npz or .ts file; folder of such files, recordings or "
        "texts; or hf:owner/name.",
    ),
]


Features = Annotated[
    AudioFeatures,
    typer.Option(help="Features of recordings: raw samples, or mel bands or cepstra every 10 ms."),
]
Header = Annotated[
    bool,
    typer.Option("--header/--no-header", help="Whether the first row of a CSV file has the column names."),
]


@app.command("import")
@expanded
def import_data(
    *,
    origin: Origin,
    name: Annotated[str, typer.Option(help="Name of the data set; default: the name of the file.")] = "",
    columns: ColumnFlags,
    length: Annotated[int | None, typer.Option(min=1, help="Truncate sequences to this length.")] = None,
    window: Annotated[
        int | None, typer.Option(min=1, help="Split sequences into windows of this length.")
    ] = None,
    stride: Annotated[
        int | None, typer.Option(min=1, help="Step between windows; default: no overlap.")
    ] = None,
    features: Features = "raw",
    header: Header = True,
    test: Annotated[str, typer.Option(help="File of test sequences; ORIGIN then has the others.")] = "",
    encoding: Annotated[str, typer.Option(help="Encoding of a text file, e.g. latin-1.")] = "",
    skip_bad: Annotated[bool, typer.Option("--skip-bad", help="Skip files that cannot be read.")] = False,
    split_seed: Annotated[int, typer.Option(min=0, help="Seed of the random split.")] = 0,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what would be imported, without writing.")
    ] = False,
    yes: Annotated[
        bool, typer.Option("--yes", "-y", help="Import without asking, replacing data of the same name.")
    ] = False,
    data_root: DataRoot = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing.")] = False,
) -> None:
    """Import your own labelled sequences as a task for `spt compare --task NAME`."""
    from ..data.importing import importer
    from ..data.importing.options import ImportOptions

    options = ImportOptions(
        **dataclasses.asdict(columns),
        length=length,
        window=window,
        stride=stride,
        features=features,
        header=header,
        test=test,
        encoding=encoding,
        skip_bad=skip_bad,
        split_seed=split_seed,
    )
    name = name or importer.suggested_name(origin)
    importer.check_name(name)
    plan = importer.plan_import(origin, options)
    if not quiet or dry_run:
        _show(f"{origin}, as {name}", plan.facts(), plan.source.hints)
    if dry_run:
        return
    _agree(name, name in imported_datasets(), yes)
    with show_progress(quiet):
        made = importer.import_data(plan, name)
    if quiet:
        return
    _show(f"{name} is imported", _outcome(made), made.meta["about"]["notes"])
    say(f"next: spt data check {name}, then spt compare --task {name}")


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


def _show(title: str, facts: dict[str, str], notes: list[str]) -> None:
    say(printable(title), style="bold")
    show_facts(((f"  {what}", printable(value)) for what, value in facts.items()), "")
    for note in notes:
        say(printable(f"note: {note}"))


def _outcome(made: "StoredDataset") -> dict[str, str]:
    """Return counts, signal, lengths and labels of an imported data set, for display."""
    import numpy as np

    from ..data.spec import SPLITS, ClassSets, Reals, Tokens
    from ..report.format import plural

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
        found["real numbers"] = f"mean {form.target.centre:.4g}, standard deviation {form.target.spread:.4g}"
    return found
