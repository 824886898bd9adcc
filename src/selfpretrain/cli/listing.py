"""Commands ``list`` and ``doctor``: tasks, mixers and all that is found by name, and this machine."""

import dataclasses
import functools
import inspect
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from ..data.paths import imported_datasets
from ..errors import SpecError, nearest
from ..registry import SHELVES, find, names, shown, summary
from .options import DataRoot, Json, Runs
from .printing import print_json, show_facts

app = typer.Typer()
SETTINGS = "settings"


@app.command(name="list")
def list_shelf(
    shelf: Annotated[str, typer.Argument(help=f"{', '.join(SHELVES)}, or settings (for -s).")],
    name: Annotated[
        str | None, typer.Argument(help="Describe this one; for settings: those of this task.")
    ] = None,
    as_json: Json = False,
    data_root: DataRoot = None,
) -> None:
    """List tasks, mixers or whatever else is found by name, or the settings for -s."""
    if shelf == SETTINGS:
        rows = _settings(name or "digits")
    elif shelf not in SHELVES:
        raise SpecError(f"no shelf called {shelf!r}{nearest(shelf, [*SHELVES, SETTINGS])}")
    elif name is not None:
        rows = _described(shelf, name)
    else:
        rows = {known: summary(shelf, known) for known in names(shelf)}
        if shelf == "tasks":
            rows |= {own: f"Imported, in {place}." for own, place in imported_datasets().items()}
    if as_json:
        print_json(rows)
    else:
        show_facts((name, str(text)) for name, text in rows.items())


def _settings(task: str) -> dict[str, Any]:
    """Return the settings of a comparison on a task, with their defaults."""
    from ..api import comparison, forecast_planner

    planner = forecast_planner("small", stubs=True)  # settings need no data
    return comparison(task, ("attention",), None, 1, "small", {}, planner=planner).settings()


def _described(shelf: str, name: str) -> dict[str, Any]:
    """Return the docstring and settings of one entry of a shelf; for tasks, also the data card."""
    kind: Any = find(shelf, name)
    given: dict[str, Any] = {}
    if isinstance(kind, functools.partial):  # a task of several data sets
        kind, given = kind.func, kind.keywords
    has_settings = dataclasses.is_dataclass(kind)
    found = {"is": shown(inspect.getdoc(kind if has_settings else sys.modules[kind.__module__]) or "")}
    if shelf == "tasks":
        found |= {what: value for what, value in dataclasses.asdict(kind.card).items() if value}
        found |= {"files": "one of " + ", ".join(kind.places)} if kind.places else {}
    for each in dataclasses.fields(kind) if has_settings else ():
        value = given.get(each.name, each.default)
        found[f"setting {each.name}"] = "" if value is dataclasses.MISSING else repr(value)
    return found


@app.command()
def doctor(runs: Runs = Path("runs"), as_json: Json = False) -> None:
    """Show versions, devices, speed and disk space of this machine, and report problems."""
    from ..system.hardware import collect_env

    if as_json:
        print_json(dict(collect_env(runs)))
    else:
        show_facts(collect_env(runs))
