"""``spt list`` and ``spt doctor``: what is on the shelves (tasks, mixers and more), and on this machine."""

import dataclasses
import functools
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from ..errors import SpecError, nearest
from ..registry import SHELVES, find, names, summary
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
    """List what is on a shelf (tasks, mixers and more), or the settings for -s."""
    if shelf not in (*SHELVES, SETTINGS):
        raise SpecError(f"no shelf called {shelf!r}{nearest(shelf, [*SHELVES, SETTINGS])}")
    if shelf == SETTINGS:
        rows = _settings(name or "digits")
    else:
        rows = _offered(shelf) if name is None else _described(shelf, name)
    if as_json:
        print_json(rows)
        return
    show_facts((name, str(text)) for name, text in rows.items())


def _offered(shelf: str) -> dict[str, str]:
    """Return the names on a shelf, and the user's imported data for tasks, each with its first sentence."""
    found = {known: summary(shelf, known) for known in names(shelf)}
    if shelf == "tasks":
        from ..data.paths import imported_datasets

        found |= {own: f"Imported, in {place}." for own, place in imported_datasets().items()}
    return found


def _settings(task: str) -> dict[str, Any]:
    """Return the settings of a comparison on a task, with their defaults."""
    from ..api import comparison

    return comparison(task, ("attention",), None, 1, "small", {}).settings()


def _described(shelf: str, name: str) -> dict[str, Any]:
    """Return the docstring and settings of one entry of a shelf; for tasks, also the data card."""
    import inspect

    kind: Any = find(shelf, name)
    kind = kind.func if isinstance(kind, functools.partial) else kind  # an imported data set
    set_by_fields = dataclasses.is_dataclass(kind)
    documented = kind if set_by_fields else sys.modules[kind.__module__]
    found = {"is": inspect.getdoc(documented) or ""}
    if shelf == "tasks":
        found |= {what: value for what, value in dataclasses.asdict(kind.card).items() if value}
    return found | {
        f"setting {each.name}": "" if each.default is dataclasses.MISSING else repr(each.default)
        for each in (dataclasses.fields(kind) if set_by_fields else ())
    }


@app.command()
def doctor(runs: Runs = Path("runs"), as_json: Json = False) -> None:
    """Show versions, devices, speed and disk space of this machine, and report problems."""
    from ..system.hardware import collect_env

    if as_json:
        print_json(dict(collect_env(runs)))
        return
    show_facts(collect_env(runs))
