"""``selfpretrain show``: trace a reported number to its recipe, code, data and cost, or check files."""

import csv
import io
import math
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from ..errors import SpecError, StoreError
from ..system.progress import show_progress
from .options import DataRoot, Json, Trust
from .printing import print_json, say, show_facts

if TYPE_CHECKING:
    from ..runner.provenance import Provenance

app = typer.Typer()
BARS = "▁▂▃▄▅▆▇█"
MAX_WIDTH = 48  # of a sparkline, in characters
MAX_NAMES = 6  # in a line
COLUMNS = ("kind", "step", "epoch", "seconds", "loss", "score", "lr")
Facts = list[tuple[str, str]]


@app.command()
def show(
    run: Annotated[
        str, typer.Argument(help="Stage or study: its folder, its fingerprint, or any part of its name.")
    ],
    runs: Annotated[Path, typer.Option(help="Runs folder in which names are looked up.")] = Path("runs"),
    as_json: Json = False,
    curve: Annotated[
        bool, typer.Option("--curve", help="Print only the learning curve of a stage, as CSV.")
    ] = False,
    check: Annotated[
        bool,
        typer.Option(
            "--check",
            help="Compare files with their digests; also for a runs folder, data folder or data set.",
        ),
    ] = False,
    no_data: Annotated[
        bool, typer.Option("--no-data", help="Do not hash the training examples again.")
    ] = False,
    trust: Trust = None,
    data_root: DataRoot = None,
) -> None:
    """Trace a printed number: recipe, stages, code, data, cost, and whether training saw val or test.

    For a study, list every cell with the stage behind its score. With --check, compare files with their
    digests and scores with predictions; exit code 1 if something is wrong.
    """
    from ..report.results import STUDY
    from ..runner.provenance import locate, trace

    if curve and (as_json or check):
        raise SpecError("--curve prints the lines of one stage as CSV; leave out --json and --check")
    if check:
        raise typer.Exit(_check(run, runs, as_json))
    try:
        folder = locate(run, runs)
        if (folder / STUDY).is_file():
            if curve:
                raise SpecError(f"{folder} is a study; --curve needs one of its stages")
            _show_cells(folder, as_json)
            return
        provenance = trace(folder, not (no_data or curve), tuple(trust or ()))
    except StoreError as error:  # the path is an argument of this command, so a bad one is a usage error
        raise SpecError(str(error)) from error
    if curve:
        text = io.StringIO()
        writer = csv.DictWriter(text, COLUMNS, extrasaction="ignore", lineterminator="\n")
        writer.writeheader()
        writer.writerows(provenance.curve)
        typer.echo(text.getvalue(), nl=False)
    elif as_json:
        print_json(provenance)
    else:
        _show(provenance)


def _check(name: str, runs: Path, as_json: bool) -> int:
    """Print the flaws of a runs folder, stage, study or data set; return the exit code."""
    from ..runner import status

    with show_progress(as_json):
        found = list(status.check(name, runs))
    flaws = [flaw for _, lines in found for flaw in lines]
    if as_json:
        print_json({"checked": [what for what, _ in found], "flaws": flaws})
    else:
        for flaw in flaws:
            say(flaw)
        sound = sum(not lines for _, lines in found)
        say(f"{sound} of {len(found)} stages, studies and data sets are as they were written")
    return int(bool(flaws))


def _show(provenance: "Provenance") -> None:
    from ..runner.provenance import recipe_in_words

    say(provenance.stage, style="bold")
    chapters = {"Recipe": list(recipe_in_words(provenance.recipe)), **_stages(provenance)}
    for title, facts in chapters.items():
        if facts:
            say(f"\n{title}", style="bold")
            show_facts(facts, "dim")
    say(f"\nfolder: {provenance.folder}")
    if provenance.unreadable:
        say(f"note: not readable: {', '.join(provenance.unreadable)}", style="yellow")


def _stages(provenance: "Provenance") -> dict[str, Facts]:
    """Return what is known of the stages of the chain, by the title of the chapter."""
    chain = []
    seen = []
    for number, link in enumerate(provenance.chain, 1):
        name = f"{number} {link.objective}"
        others = [other for other in link.used_by if other != provenance.stage]
        also = f"; also the start of {_some(others)}" if others else ""
        chain.append((name, f"{link.stage or 'not among these runs'}{also}"))
        rows = f"{link.rows:,} training examples, {link.sha256[:16]}; " if link.sha256 else ""
        held = ", ".join(f"{count:,} of {of:,} in {split}" for split, (count, of) in link.shared.items())
        seen.append(
            (name, f"{rows}among them {held} ({link.how})" if held else f"{rows}not checked: {link.how}")
        )
    if provenance.version:
        seen.append(("data", f"version {provenance.version}"))
    if now := provenance.now:
        changed = now != provenance.result.get("fingerprint", now)
        today = f"today it would be {now}: data, numerics or a class from outside have changed since"
        seen.append(("fingerprint", today if changed else f"{now}, as it would be today"))
    weights = []
    for kind, names in (provenance.result.get("transfer") or {}).items():
        if kind in ("moved", "fresh", "unused"):
            weights.append(
                (kind, f"{len(names)}" + (f": {_some(names)}" if names and kind != "moved" else ""))
            )
    known = provenance.environment
    made_with = [(name, str(value)) for name, value in known.items() if name not in ("format", "git")]
    if git := known.get("git"):
        dirty = ", with changes that are not in it" if git["dirty"] else ""
        made_with.insert(0, ("commit", f"{git['commit']}{dirty}"))
    elif known:
        made_with.insert(0, ("commit", "not known: not run from a repository"))
    printed = []
    for cell in provenance.printed:
        text = f"{cell.row} | {cell.column} | seed {cell.seed}{'' if cell.scored else ' (a stage before it)'}"
        if paper := cell.paper:
            where = f"{paper.paper}, {paper.table}, {paper.row}, {paper.column}"
            text += f"; {paper.value}{paper.unit} in {where}"
        printed.append((cell.study, text))
    return {
        "Stages": chain,
        "Result": list(_result(provenance)),
        "What training saw": seen,
        "Weights": weights,
        "Made with": made_with,
        "Printed in": printed,
    }


def _result(provenance: "Provenance") -> Iterator[tuple[str, str]]:
    from ..report import format
    from ..system.events import format_duration

    result = provenance.result
    if result:
        for split, scores in result["scores"].items():
            yield split, ", ".join(f"{name} {value:.4f}" for name, value in scores.items())
        steps = f"{result['steps']:,}, {result['epochs']:.1f} epochs, ended by {result['stopped']}"
        yield "steps", f"{steps}; best on validation at {result['best_step']:,}"
        cost = result["cost"]
        size = f"{cost['parameters']:,} parameters"
        yield "cost", f"{format.flops(cost['flops'])}, {format_duration(cost['seconds'])}, {size}"
    else:
        yield "state", "not finished"
    for kind, what in (("train", "loss"), ("val", "score")):
        values = [float(line.get(what, math.nan)) for line in provenance.curve if line["kind"] == kind]
        if values := [value for value in values if math.isfinite(value)]:
            yield f"{kind} {what}", f"{sparkline(values)} {values[0]:.3f} to {values[-1]:.3f}"


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - MAX_NAMES} more" if len(names) > MAX_NAMES else ""
    return ", ".join(names[:MAX_NAMES]) + more


def _show_cells(folder: Path, as_json: bool) -> None:
    """List every cell of an experiment with the stage behind its score."""
    from ..report.results import read

    results = read(folder)
    if as_json:
        keys = ("study", "task", "row", "column", "seed", "fold", "score")
        rows = results.to_rows()
        print_json([{k: r[k] for k in keys if k in r} | {"stage": Path(r["stage"]).name} for r in rows])
        return
    say(f"{folder.name}: {results.title}", style="bold")
    found = []
    for task in results.tasks:
        for cell in task.cells:
            score = f"{cell.score:.4f}" if cell.score is not None else cell.state
            words = (task.label, cell.row, cell.column, task.repetition(cell), score)
            found.append((*words, Path(cell.folders[-1]).name))
    table = Table("task", "row", "column", "seed", "test", box=None, padding=(0, 2, 0, 0))
    table.add_column("stage", min_width=max((len(row[-1]) for row in found), default=0))  # whole, to be typed
    for row in found:
        table.add_row(*map(Text, row))
    Console().print(table, soft_wrap=True)
    say("next: selfpretrain show STAGE")


def sparkline(values: list[float], width: int = MAX_WIDTH) -> str:
    """Return a curve as one line of block characters; values that share a column are averaged."""
    count = min(width, len(values))
    edges = [len(values) * i // count for i in range(count + 1)]
    means = [sum(values[a:b]) / (b - a) for a, b in pairwise(edges)]
    low = min(means)
    span = (max(means) - low) or 1.0
    return "".join(BARS[min(len(BARS) - 1, int((mean - low) / span * len(BARS)))] for mean in means)
