"""``spt show``: trace a reported number to its recipe, code, data and cost."""

import csv
import io
import math
from collections.abc import Iterator
from dataclasses import asdict
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from ..errors import SpecError, StoreError
from .options import DataRoot, Json, Trust
from .printing import print_json, say, show_facts

if TYPE_CHECKING:
    from ..report.paper_numbers import PaperNumber
    from ..runner.provenance import DataSeen, Provenance

app = typer.Typer()
BARS = "▁▂▃▄▅▆▇█"
WIDTH = 48
"""Width of a sparkline in characters."""
SHOWN = 6
"""Most names shown of a list."""
COLUMNS = ("kind", "step", "epoch", "seconds", "loss", "score", "lr")


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
            "--check/--no-check", help="Hash the training examples again, if the data are available."
        ),
    ] = True,
    trust: Trust = None,
    data_root: DataRoot = None,
) -> None:
    """Trace a printed number: recipe, stages, code, data, cost, and whether training saw val or test.

    For a study, list every cell with the stage behind its score.
    """
    from ..runner.provenance import locate, trace

    try:
        folder = locate(run, runs)
        if (folder / "study.json").is_file():
            if curve:
                raise SpecError(f"{folder} is a study; --curve needs one of its stages")
            _show_cells(folder, as_json)
            return
        provenance = trace(folder, check and not curve, tuple(trust or ()))
    except StoreError as error:  # the path is an argument of this command, so a bad one is a usage error
        raise SpecError(str(error)) from error
    if curve:
        typer.echo(_csv(provenance), nl=False)
    elif as_json:
        print_json(_plain(asdict(provenance)))
    else:
        _show(provenance)


def _show(provenance: "Provenance") -> None:
    say(provenance.stage, style="bold")
    for title, facts in _chapters(provenance):
        if lines := list(facts):
            say(f"\n{title}", style="bold")
            show_facts(lines, "dim")
    say(f"\nfolder: {provenance.folder}")
    if provenance.unreadable:
        say(f"note: not readable: {', '.join(provenance.unreadable)}", style="yellow")


def _chapters(provenance: "Provenance") -> "Iterator[tuple[str, Iterator[tuple[str, str]]]]":
    from ..runner.provenance import recipe_in_words

    yield "Recipe", recipe_in_words(provenance.recipe)
    yield "Stages", _chain(provenance)
    yield "Result", _result(provenance)
    yield "What training saw", _firewall(provenance)
    yield "Weights", _weights(provenance)
    yield "Made with", _environment(provenance)
    yield "Printed in", _printed(provenance)


def _chain(provenance: "Provenance") -> Iterator[tuple[str, str]]:
    for number, link in enumerate(provenance.chain, 1):
        stage = link.stage or "not among these runs"
        if link.used_by:
            others = [name for name in link.used_by if name != provenance.stage]
            stage += f"; also the start of {_some(others)}" if others else ""
        yield f"{number} {link.objective}", stage


def _result(provenance: "Provenance") -> Iterator[tuple[str, str]]:
    from ..report import format
    from ..system.events import format_duration

    if not provenance.result:
        yield "state", "not finished"
    else:
        result = provenance.result
        cost = provenance.result["cost"]
        for split, scores in result["scores"].items():
            yield split, ", ".join(f"{name} {value:.4f}" for name, value in scores.items())
        steps = f"{result['steps']:,}, {result['epochs']:.1f} epochs, ended by {result['stopped']}"
        yield "steps", f"{steps}; best on validation at {result['best_step']:,}"
        flops = format.flops(cost["flops"])
        time = format_duration(cost["seconds"])
        yield "cost", f"{flops}, {time}, {cost['parameters']:,} parameters"
    for kind, what in (("train", "loss"), ("val", "score")):
        values = [float(line.get(what, math.nan)) for line in provenance.curve if line["kind"] == kind]
        if values := [value for value in values if math.isfinite(value)]:
            yield f"{kind} {what}", f"{sparkline(values)} {values[0]:.3f} to {values[-1]:.3f}"


def _firewall(provenance: "Provenance") -> Iterator[tuple[str, str]]:
    for number, (link, seen) in enumerate(zip(provenance.chain, provenance.seen, strict=True), 1):
        yield f"{number} {link.objective}", _said(seen)
    if provenance.version:
        yield "data", f"version {provenance.version}"
    if provenance.now:
        same = provenance.now == provenance.result.get("fingerprint", provenance.now)
        changed = f"{provenance.now}: data, numerics or a class from outside have changed since"
        yield (
            "fingerprint",
            f"{provenance.now}, as it would be today" if same else f"today it would be {changed}",
        )


def _said(seen: "DataSeen") -> str:
    rows = f"{seen.rows:,} training examples, {seen.sha256[:16]}; " if seen.sha256 else ""
    if not seen.shared:
        return f"{rows}not checked: {seen.how}"
    held = ", ".join(f"{count:,} of {of:,} in {split}" for split, (count, of) in seen.shared.items())
    return f"{rows}among them {held} ({seen.how})"


def _weights(provenance: "Provenance") -> Iterator[tuple[str, str]]:
    for kind, names in provenance.moved.items():
        yield kind, f"{len(names)}" + (f": {_some(names)}" if names and kind != "moved" else "")


def _environment(provenance: "Provenance") -> Iterator[tuple[str, str]]:
    git = provenance.environment.get("git")
    if git:
        yield "commit", f"{git['commit']}{', with changes that are not in it' if git['dirty'] else ''}"
    elif provenance.environment:
        yield "commit", "not known: not run from a repository"
    for what, value in provenance.environment.items():
        if what not in ("format", "git"):
            yield what, str(value)


def _printed(provenance: "Provenance") -> Iterator[tuple[str, str]]:
    for citation in provenance.printed:
        behind = "" if citation.reported else " (a stage before it)"
        paper = f"; {_paper(citation.paper)}" if citation.paper else ""
        yield citation.study, f"{citation.row} | {citation.column} | seed {citation.seed}{behind}{paper}"


def _paper(number: "PaperNumber") -> str:
    return f"{number.value}{number.unit} in {number.paper}, {number.table}, {number.row}, {number.column}"


def _show_cells(folder: Path, as_json: bool) -> None:
    """List every cell of an experiment with the stage behind its score."""
    from ..report.results import read

    results = read(folder)
    if as_json:
        keys = ("study", "task", "row", "column", "seed", "fold", "score")
        rows = results.to_rows()
        print_json([{k: r[k] for k in keys if k in r} | {"stage": Path(r["stage"]).name} for r in rows])
        return
    say(f"{folder.name}: {results.record.title}", style="bold")
    table = Table("task", "row", "column", "seed", "test", "stage", box=None, padding=(0, 2, 0, 0))
    for task in results.tasks:
        for cell in task.cells:
            score = f"{cell.score:.4f}" if cell.score is not None else cell.state
            stage = Text(Path(cell.record.stages[-1]).name, no_wrap=True)
            table.add_row(task.label, cell.row, cell.column, task.repetition(cell), score, stage)
    Console().print(table, soft_wrap=True)
    say("next: spt show STAGE")


def sparkline(values: list[float], width: int = WIDTH) -> str:
    """Return a curve as one line of block characters; values that share a column are averaged."""
    count = min(width, len(values))
    edges = [len(values) * i // count for i in range(count + 1)]
    means = [sum(values[a:b]) / (b - a) for a, b in pairwise(edges)]
    low = min(means)
    high = max(means)
    span = (high - low) or 1.0
    return "".join(BARS[min(len(BARS) - 1, int((mean - low) / span * len(BARS)))] for mean in means)


def _csv(provenance: "Provenance") -> str:
    out = io.StringIO()
    writer = csv.DictWriter(out, COLUMNS, extrasaction="ignore", lineterminator="\n")
    writer.writeheader()
    writer.writerows(provenance.curve)
    return out.getvalue()


def _plain(value: Any) -> Any:
    """Replace non-finite numbers by None, as JSON has none."""
    if isinstance(value, dict):
        return {key: _plain(inside) for key, inside in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(inside) for inside in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _some(names: Any) -> str:
    names = list(names)
    return ", ".join(names[:SHOWN]) + (f" and {len(names) - SHOWN} more" if len(names) > SHOWN else "")
