"""``selfpretrain runs``: status and cleanup of a folder of runs."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from .printing import say

Runs = Annotated[Path, typer.Argument(help="Runs folder.", metavar="RUNS")]
app = typer.Typer(help="Look after folders of runs: status, cleanup.", no_args_is_help=True)


@app.callback()
def runs() -> None:
    """Look after folders of runs: status, cleanup."""


@app.command()
def status(folder: Runs) -> None:
    """Show the state of every stage (done, running, stopped, failed or waiting), and the Slurm jobs."""
    from ..runner.executors.slurm import SILENT, count_queued
    from ..runner.status import STATES, statuses

    found = statuses(folder)
    for each in found:
        if each.state in ("running", "stopped", "failed"):
            say(f"{each.state}  {each.stage}" + (f": {each.detail}" if each.detail else ""))
    counts = {state: sum(each.state == state for each in found) for state in STATES}
    console = Console()
    console.print(", ".join(f"{count} {state}" for state, count in counts.items()))
    jobs = count_queued(folder)
    told = [f"{count} {state.lower()}" for state, count in jobs.items()] if jobs is not None else [SILENT]
    if told:
        console.print("jobs of Slurm: " + ", ".join(told))


@app.command()
def gc(
    folder: Runs,
    delete: Annotated[bool, typer.Option("--delete", help="Delete the stages that are shown.")] = False,
) -> None:
    """List stages that no study refers to, e.g. trials of --tune, and delete them with --delete."""
    from ..runner import status

    found = status.unused_stages(folder)
    gone = status.delete(found) if delete else found
    size = 0
    count = 0
    for stage, of_stage in gone:
        say(f"{of_stage / 1e6:9.1f} MB  {stage.path.name}")
        size += of_stage
        count += 1
    what = " deleted" if delete else "; --delete deletes them" if count else ""
    Console().print(f"{count} stages, {size / 1e6:.1f} MB{what}")
