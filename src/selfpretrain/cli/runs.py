"""The verbs of ``spt runs``: what lies in a folder of runs, and workers for it."""

import socket
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from ..errors import SpecError
from . import options as flags
from .printing import say

Folder = Annotated[
    Path,
    typer.Argument(
        callback=flags.open_runs, help="A folder or bucket given to --runs before.", metavar="RUNS"
    ),
]
app = typer.Typer(help="Look after folders of runs.", no_args_is_help=True)


@app.callback()
def runs() -> None:
    """Look after folders of runs."""


@app.command()
def verify(folder: Folder) -> None:
    """Read every file, compare digests, recipes and scores; exit code 1 if something is wrong."""
    from ..runner.verify import verify

    console, fine, wrong = Console(), 0, 0
    for _, found in verify(folder):
        bad = sum(finding.level == "wrong" for finding in found)
        fine, wrong = fine + (not bad), wrong + bad
        for finding in found:
            say(f"{finding.level}  {finding.said}")
    console.print(f"{fine} stages, studies and caches are fine, {wrong} files are not")
    raise typer.Exit(int(wrong > 0))


@app.command()
def worker(
    folder: Folder,
    device: flags.Device = "auto",
    trust: flags.Trust = None,
    lease: Annotated[
        float, typer.Option(min=1, help="Seconds of silence after which others may take over a stage.")
    ] = 60.0,
    attempts: Annotated[int, typer.Option(min=1, help="Tries of a stage that loses its worker.")] = 3,
    data_root: flags.DataRoot = None,
    quiet: flags.Quiet = False,
) -> None:
    """Run ready stages of what was left by --detach, until none is left; start as many as you like."""
    from dataclasses import replace

    from ..runner.worker import work
    from ..runner.workspace import at_work

    with at_work(flags.workspace_of(folder, device, "1", quiet)) as workspace:
        done = work(replace(workspace, lease=lease), tuple(trust or ()), attempts)
    console = Console()
    for reason, stages in done.refused.items():
        say(f"refused  {len(stages)} stages on {socket.gethostname()}: {reason}")
    for stage, reason in done.failed.items():
        say(f"failed  {stage}: {reason}")
    console.print(f"{len(done.finished)} stages run here, {len(done.failed)} failed")
    raise typer.Exit(2 if done.refused else int(bool(done.failed)))


@app.command()
def cancel(
    folder: Folder, plan: Annotated[str, typer.Argument(help="A plan by its name; default: all.")] = ""
) -> None:
    """Take plans back: workers save a checkpoint within seconds and end; what has finished stays."""
    from ..runner.detached import cancel

    taken = cancel(folder, plan)
    say(f"cancelled: {', '.join(taken) or 'there was no such plan'}")


@app.command()
def status(folder: Folder) -> None:
    """Tell how far the stages are: done, running where and since when, waiting, stopped, lost, failed."""
    from ..runner.status import STATES, seconds_left, statuses
    from ..system.events import duration

    console, found = Console(), statuses(folder)
    for each in found:
        if each.standing not in ("done", "waiting"):
            told = f", attempt {each.attempts}: {each.told}" if each.told else ""
            say(f"{each.standing}  {each.stage}{told}")
    counts = {state: sum(each.standing == state for each in found) for state in STATES}
    console.print(", ".join(f"{count} {state}" for state, count in counts.items()))
    lost, again = sum(each.lost for each in found), sum(max(0, each.attempts - 1) for each in found)
    if again:
        console.print(f"{again} further attempts; about {duration(lost)} of work counts for nothing")
    left = seconds_left(folder, found)
    if left is not None:
        console.print(f"about {duration(left)} left with as many at once as now")


@app.command()
def watch(
    folder: Folder,
    port: Annotated[int, typer.Option(min=0, max=65535, help="On 127.0.0.1; 0: any that is free.")] = 8800,
) -> None:
    """Serve a page that follows stages, curves and reports while others work, until Ctrl-C."""
    from ..runner.watch import HERE, server
    from ..system.mirror import bucket_of, opened

    bucket = bucket_of(folder)
    try:
        served = server(folder, port, lambda: bucket and opened(Path(bucket.url)))
    except OSError as error:
        raise SpecError(f"--port {port}: {error.strerror}; give another one, or 0") from error
    Console().print(f"http://{HERE}:{served.server_port}  (Ctrl-C ends it)")
    try:
        served.serve_forever()
    except KeyboardInterrupt:
        served.server_close()


@app.command()
def why(
    fingerprint: Annotated[str, typer.Argument(help="Of a stage, begun or planned; or its name.")],
    runs: flags.Runs = Path("runs"),
) -> None:
    """Tell why a stage must be run: what sets it apart from the nearest that has finished."""
    from ..runner.upkeep import why

    for line in why(fingerprint, runs):
        say(line)


@app.command()
def gc(
    folder: Folder, delete: Annotated[bool, typer.Option("--delete", help="Delete what is shown.")] = False
) -> None:
    """Show stages that no study and no plan refers to, e.g. trials of --tune, and delete them if asked."""
    from ..runner import upkeep

    found = upkeep.unused(folder)
    gone = upkeep.delete(found) if delete else found
    console, size, count = Console(), 0, 0
    for each in gone:
        say(f"{each.size / 1e6:9.1f} MB  {each.folder.name}")
        size, count = size + each.size, count + 1
    console.print(
        f"{count} stages, {size / 1e6:.1f} MB " + ("deleted" if delete else "; --delete deletes them")
    )


@app.command()
def copy(
    source: Annotated[Path, typer.Argument(help="A folder of runs, or a bucket such as s3://bucket/runs.")],
    target: Annotated[Path, typer.Argument(help="A bucket, or a folder.")],
) -> None:
    """Copy all runs from a folder to a bucket or back, byte by byte."""
    from ..system import mirror

    say(f"{mirror.copy(source, target)} files are in {target}")


@app.command()
def track(
    folder: Folder, to: Annotated[str, typer.Option("--to", help="One of `spt list trackers`.")]
) -> None:
    """Tell a tracker what finished stages told while they were trained, as if they were trained now."""
    from dataclasses import replace

    from ..runner.replay import replay
    from ..runner.trackers.base import tracking
    from ..training import stage_folder

    workspace = flags.workspace_of(folder, "cpu", "1", True)
    finished = sorted(path.parent for path in folder.glob("stages/*/result.json"))
    with tracking(replace(workspace, trackers=(to,))):
        for path in finished:
            replay(stage_folder.Folder(path))
    Console().print(f"{len(finished)} stages told to {to}")
