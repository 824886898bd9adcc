"""``spt doctor``: versions, devices, threads, memory, speed and free disk space of this machine."""

from pathlib import Path

import typer

from .options import Json, Runs
from .printing import print_json, show_facts

app = typer.Typer()


@app.command()
def doctor(runs: Runs = Path("runs"), as_json: Json = False) -> None:
    """Show versions, devices, speed and disk space of this machine, and report problems."""
    from ..system.hardware import collect_env

    if as_json:
        print_json(dict(collect_env(runs)))
        return
    show_facts(collect_env(runs))
