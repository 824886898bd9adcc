"""``spt doctor``: this machine, and whether all is well."""

from pathlib import Path

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from .options import Json, Runs
from .printing import print_json

app = typer.Typer()


@app.command()
def doctor(runs: Runs = Path("runs"), as_json: Json = False) -> None:
    """Show what this machine offers, and whether all is well."""
    from ..system.doctor import findings

    if as_json:
        print_json(dict(findings(runs)))
        return
    table = Table(box=None, show_header=False, padding=(0, 2))
    for what, value in findings(runs):
        table.add_row(f"[bold]{what}[/bold]", Text(value))
    Console().print(table)
