"""Options shared by several commands, and their parsing."""

import os
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..errors import SpecError, nearest

if TYPE_CHECKING:
    from ..runner.workspace import Workspace
    from ..studies.base import Scale


def set_data_root(folder: Path | None) -> Path | None:
    """Prepend a folder to the data folders of this process and its children; others are still searched."""
    if folder is not None:
        from ..data import paths

        before = os.environ.get(paths.VARIABLE, "")
        os.environ[paths.VARIABLE] = os.pathsep.join([str(folder.absolute()), *([before] if before else [])])
    return folder


Runs = Annotated[Path, typer.Option(help="Folder for all results; finished stages are reused.")]
Device = Annotated[str, typer.Option(help="Device: auto, cpu, cuda or cuda:1.")]
Jobs = Annotated[
    str, typer.Option(help="Stages to run in parallel: a number, or auto (one per core or GPU).")
]
Executor = Annotated[str, typer.Option(help="Executor (`spt list executors`); auto chooses by --jobs.")]
ExecutorSettings = Annotated[
    list[str] | None,
    typer.Option(
        "--with", help="Setting of the executor: address=auto, gpus=0.25, partition=gpu. Repeatable."
    ),
]
TuneCells = Annotated[
    bool,
    typer.Option(
        "--tune", "--grid", help="First tune learning rate and batch size of every cell on validation."
    ),
]
Track = Annotated[
    list[str] | None,
    typer.Option(help="Log training to this tracker (`spt list trackers`). Repeatable."),
]
ScaleName = Annotated[
    str,
    typer.Option(
        "--scale",
        help="Scale: smoke (seconds, a test run only), small (two CPU cores) or paper (as published).",
    ),
]
Seeds = Annotated[int, typer.Option(min=1, help="Number of seeds; all of 0 to n-1 are run and reported.")]
FirstSeed = Annotated[
    int, typer.Option(min=0, help="First seed, e.g. to repeat a comparison with new seeds.")
]
DryRun = Annotated[
    bool, typer.Option("--dry-run", help="Show the stages and their estimated cost without training.")
]
Detach = Annotated[
    bool,
    typer.Option("--detach", help="Submit all stages to Slurm and return; needs --executor slurm."),
]
Measure = Annotated[
    bool,
    typer.Option(
        "--measure", help="With --dry-run: measure the time per step instead of estimating it from FLOPs."
    ),
]
TimeLimit = Annotated[
    str | None,
    typer.Option(
        "--time-limit",
        help="Wall-clock budget, e.g. 45s, 30m, 2h. All arms are shortened by the same factor.",
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print only JSON.")]
Trust = Annotated[
    list[str] | None, typer.Option(help="Other package whose classes recipes may load. Repeatable.")
]
DataRoot = Annotated[
    Path | None,
    typer.Option("--data-root", callback=set_data_root, help="Folder for data; default: SPT_DATA."),
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Hide progress.")]
Set = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        "-s",
        help="Change a setting, e.g. task.train=500, pretrain.batch=64, s4d.mixer.states=32. Repeatable.",
    ),
]


def workspace_of(
    runs: Path,
    device: str,
    jobs: str,
    quiet: bool,
    executor: str = "auto",
    track: list[str] | None = None,
    settings: list[str] | None = None,
) -> "Workspace":
    """Return the workspace of a command.

    Raises:
        SpecError: if there is no such device, or the number of jobs is invalid.
    """
    from dataclasses import replace

    from ..runner.workspace import Workspace

    here = Workspace.of(runs, device, jobs)
    return replace(
        here,
        quiet=quiet,
        command=f"spt {shlex.join(sys.argv[1:])}",
        executor=here.executor if executor == "auto" else executor,
        executor_settings=assignments(settings, "--with", "address=auto"),
        trackers=tuple(track or ()),
    )


def scale_of(name: str) -> "Scale":
    """Return a scale by its name.

    Raises:
        SpecError: if there is none of that name.
    """
    from ..studies.base import SCALES

    for scale in SCALES:
        if scale == name:
            return scale
    raise SpecError(f"--scale {name}: there is no such scale{nearest(name, SCALES)}")


def seconds_of(text: str) -> float:
    """Return a time limit in seconds, e.g. 1800 for ``30m``.

    Raises:
        SpecError: if it is not a positive number with the unit s, m or h.
    """
    unit = {"s": 1, "m": 60, "h": 3600}.get(text[-1:], 0)
    try:
        seconds = float(text[:-1]) * unit
    except ValueError:
        seconds = 0
    if not 0 < seconds < float("inf"):
        raise SpecError(f"--time-limit {text}: write it as 45s, 30m or 2h")
    return seconds


def assignments(
    texts: list[str] | None, flag: str = "--set", example: str = "pretrain.optim.lr=3e-3"
) -> dict[str, str]:
    """Parse ``setting=value`` arguments of an option into a dictionary.

    Raises:
        SpecError: if one does not have this form.
    """
    return dict(_assignment(text, flag, example) for text in texts or [])


def _assignment(text: str, flag: str, example: str) -> tuple[str, str]:
    path, equals, value = text.partition("=")
    if not equals or not path:
        raise SpecError(f"{flag} {text}: write it as setting=value, e.g. {example}")
    return path.strip(), value.strip()
