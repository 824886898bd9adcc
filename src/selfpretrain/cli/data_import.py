"""The verb ``spt data import``: what is inferred is shown before it is done, what was done afterwards."""

import dataclasses
import sys
from typing import TYPE_CHECKING, Annotated

import typer

from ..data.importing.kinds import AudioFeatures, Kind, MissingPolicy, TargetKind
from ..errors import DataError, printable
from ..system.progress import showing
from .options import DataRoot
from .printing import say, show_facts

if TYPE_CHECKING:
    from ..data.store import StoredDataset

SHOWN = 40
"""Classes whose counts are shown, at most."""

app = typer.Typer()
Origin = Annotated[
    str,
    typer.Argument(
        metavar="ORIGIN",
        help="CSV, TSV, JSONL, Parquet, Arrow, .npy, .npz or .ts file; folder of them, of recordings or "
        "texts; or hf:owner/name.",
    ),
]


Rate = Annotated[int | None, typer.Option(min=1, help="Bring recordings to so many samples per second.")]
Features = Annotated[
    AudioFeatures, typer.Option(help="Of recordings: samples, mel bands or cepstra every 10 ms.")
]
Header = Annotated[
    bool, typer.Option("--header/--no-header", help="Whether a CSV file's first row names its columns.")
]


@app.command("import")
def import_data(
    origin: Origin,
    name: Annotated[
        str, typer.Option(help="What commands will call it; by default the name of the file.")
    ] = "",
    label: Annotated[
        str, typer.Option(help="Column to predict; for a folder, a pattern in file names.")
    ] = "",
    sequence: Annotated[str, typer.Option(help="Column, or several: a,b or t*.")] = "",
    group: Annotated[str, typer.Option(help="Column of patient, speaker, file: none is in two splits.")] = "",
    split: Annotated[str, typer.Option(help="Column that says train, val or test; left out: 70/15/15.")] = "",
    kind: Annotated[Kind, typer.Option(help="What sequences hold.")] = "auto",
    target: Annotated[TargetKind, typer.Option(help="What labels are.")] = "auto",
    id: Annotated[
        str, typer.Option(help="Long tables: column that says to which sequence a row belongs.")
    ] = "",
    time: Annotated[str, typer.Option(help="Long tables: column that orders them.")] = "",
    value: Annotated[str, typer.Option(help="Long tables: column, or several, of what was measured.")] = "",
    missing: Annotated[MissingPolicy, typer.Option(help="What to do about unknown values.")] = "refuse",
    length: Annotated[int | None, typer.Option(min=1, help="Cut sequences to so many positions.")] = None,
    window: Annotated[int | None, typer.Option(min=1, help="Cut sequences into windows of so many.")] = None,
    stride: Annotated[
        int | None, typer.Option(min=1, help="From window to window; by default no overlap.")
    ] = None,
    rate: Rate = None,
    features: Features = "raw",
    header: Header = True,
    test: Annotated[str, typer.Option(help="File of test sequences; ORIGIN then holds the others.")] = "",
    encoding: Annotated[str, typer.Option(help="Of a text file, e.g. latin-1.")] = "",
    skip_bad: Annotated[
        bool, typer.Option("--skip-bad", help="Leave out files that cannot be read.")
    ] = False,
    split_seed: Annotated[int, typer.Option(min=0, help="Another number, another division.")] = 0,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what was found; write nothing.")] = False,
    yes: Annotated[
        bool, typer.Option("--yes", "-y", help="Do not ask; replace data of the same name.")
    ] = False,
    data_root: DataRoot = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing.")] = False,
) -> None:
    """Make your own labelled sequences a task: `spt compare --task NAME`."""
    given = locals()  # every field of the options is a flag of this verb
    from ..data.importing import importer
    from ..data.importing.options import ImportOptions

    options = ImportOptions(**{field.name: given[field.name] for field in dataclasses.fields(ImportOptions)})
    name = name or importer.suggested_name(origin)
    importer.check_name(name)
    plan = importer.plan_import(origin, options)
    if not quiet or dry_run:
        _show(f"{origin}, as {name}", plan.facts(), plan.source.hints)
    if dry_run:
        return
    _agree(name, name in importer.known(), yes)
    with showing(quiet):
        made = importer.import_data(plan, name)
    if quiet:
        return
    _show(f"{name} is imported", _outcome(made), made.meta["about"]["notes"])
    say(f"next: spt data check {name}, then spt compare --task {name}")


def _agree(name: str, there: bool, yes: bool) -> None:
    """Ask, where somebody can answer; without an answer nothing that exists is replaced.

    Raises:
        DataError: if the answer is no.
    """
    if yes:
        return
    if sys.stdin.isatty():
        if not typer.confirm(f"Replace {name}?" if there else "Import this?", default=not there):
            raise DataError("nothing was imported")
    elif there:
        raise DataError(
            f"there are data called {name!r} already; --yes replaces them, or give another --name"
        )


def _show(title: str, facts: dict[str, str], notes: list[str]) -> None:
    say(printable(title), style="bold")
    show_facts(((f"  {what}", printable(value)) for what, value in facts.items()), "")
    for note in notes:
        say(printable(f"note: {note}"))


def _outcome(made: "StoredDataset") -> dict[str, str]:
    """Examples, lengths and labels of the set, by split."""
    import numpy as np

    from ..data.spec import SPLITS, ClassSets, Reals, Tokens
    from ..report.format import plural

    form, targets = made.form, made.whole.targets.numpy()
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
        told = np.nonzero(targets > 0)[1] if isinstance(form.target, ClassSets) else targets[targets >= 0]
        known = np.bincount(told, minlength=len(form.target.names))
        pairs = [f"{name} {count:,}" for name, count in zip(form.target.names, known, strict=True)]
        found["classes"] = ", ".join(pairs[:SHOWN]) + (f" ... ({len(pairs)})" if len(pairs) > SHOWN else "")
    else:
        found["real numbers"] = f"mean {form.target.centre:.4g}, standard deviation {form.target.spread:.4g}"
    return found
