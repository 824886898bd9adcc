"""``spt list``: what is on the shelves."""

import dataclasses
import functools
import sys
from typing import Annotated, Any

import typer

from ..errors import SpecError, nearest
from ..registry import SHELVES, about, find, names
from .options import DataRoot, Json
from .printing import print_json, show_facts

app = typer.Typer()
SETTINGS = "settings"


@app.command(name="list")
def list_shelf(
    shelf: Annotated[str, typer.Argument(help=f"{', '.join(SHELVES)}; or settings, of -s.")],
    name: Annotated[
        str | None, typer.Argument(help="Tell all about one thing on it; of settings: those for a task.")
    ] = None,
    as_json: Json = False,
    data_root: DataRoot = None,
) -> None:
    """Show what is on a shelf, or what can be set with -s."""
    if shelf not in (*SHELVES, SETTINGS):
        raise SpecError(f"no shelf called {shelf!r}{nearest(shelf, [*SHELVES, SETTINGS])}")
    if shelf == SETTINGS:
        rows = _settings(name or "digits")
    else:
        rows = _offered(shelf) if name is None else _described(shelf, name)
    if as_json:
        print_json(rows)
        return
    show_facts((known, str(said)) for known, said in rows.items())


def _offered(shelf: str) -> dict[str, str]:
    """What is on a shelf, and the user's own data, each with its first sentence."""
    found = {known: about(shelf, known) for known in names(shelf)}
    if shelf == "tasks":
        from ..data.importing import importer

        found |= {own: f"Imported, in {place}." for own, place in importer.known().items()}
    return found


def _settings(task: str) -> dict[str, Any]:
    """Settings of a comparison on a task, and what they are unless changed."""
    from ..api import comparison
    from ..studies.compare import Compare

    study = comparison(task, ("attention",), None, 1, "small", {})
    return study.settings() if isinstance(study, Compare) else {}


def _described(shelf: str, name: str) -> dict[str, Any]:
    """All about one thing on a shelf: what it is, a task's card, and its settings."""
    import inspect

    kind: Any = find(shelf, name)
    kind = kind.func if isinstance(kind, functools.partial) else kind  # one of the user's own sets
    set_by_fields = dataclasses.is_dataclass(kind)
    told = kind if set_by_fields else sys.modules[kind.__module__]
    found = {"is": inspect.getdoc(told) or ""}
    if shelf == "tasks":
        found |= {what: value for what, value in dataclasses.asdict(kind.card).items() if value}
    return found | {
        f"setting {each.name}": "" if each.default is dataclasses.MISSING else repr(each.default)
        for each in (dataclasses.fields(kind) if set_by_fields else ())
    }
