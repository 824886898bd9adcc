"""``spt list``: what is on the shelves."""

import dataclasses
import functools
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from ..errors import SpecError, nearest
from ..registry import SHELVES, about, find, names
from .options import DataRoot

app = typer.Typer()


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
        Console().print(_described(shelf, name))
        return
    table = Table(box=None, show_header=False, padding=(0, 2))
    for known in names(shelf):
        table.add_row(f"[bold]{known}[/bold]", about(shelf, known))
    Console().print(table)


def _described(shelf: str, name: str) -> Table:
    """All about one thing on a shelf: what it is, a task's card, and its settings."""
    import inspect

    kind: Any = find(shelf, name)
    kind = kind.func if isinstance(kind, functools.partial) else kind  # one of the user's own sets
    table = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
    table.add_row("[bold]is[/bold]", Text(inspect.getdoc(kind) or ""))
    if shelf == "tasks":
        for what, value in dataclasses.asdict(kind.card).items():
            if value:
                table.add_row(f"[bold]{what}[/bold]", Text(value))
    for setting in dataclasses.fields(kind):
        default = "" if setting.default is dataclasses.MISSING else f" = {setting.default!r}"
        table.add_row("[dim]setting[/dim]", Text(f"{setting.name}{default}"))
    return table
