"""``spt list``: what is on the shelves."""

from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from ..errors import SpecError
from ..registry import SHELVES, about, names
from ..spec import nearest
from .data import describe
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
        Console().print(describe(shelf, name))
        return
    table = Table(box=None, show_header=False, padding=(0, 2))
    for known in names(shelf):
        table.add_row(f"[bold]{known}[/bold]", about(shelf, known))
    Console().print(table)
