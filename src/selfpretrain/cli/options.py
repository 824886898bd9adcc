"""Flags that several verbs share, and what becomes of them."""

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
    """Let data live in a folder, for this process and those it starts; data elsewhere are found as before."""
    if folder is not None:
        from ..data import paths

        before = os.environ.get(paths.VARIABLE, "")
        os.environ[paths.VARIABLE] = os.pathsep.join([str(folder.absolute()), *([before] if before else [])])
    return folder


Runs = Annotated[Path, typer.Option(help="Folder for all that is computed; finished work is never repeated.")]
Device = Annotated[str, typer.Option(help="auto, cpu, cuda or cuda:1.")]
Jobs = Annotated[str, typer.Option(help="Stages at once: a number, or auto (one per core, or per GPU).")]
Executor = Annotated[
    str, typer.Option(help="Where stages run: one of `spt list executors`, or auto (by the number of jobs).")
]
ExecutorSettings = Annotated[
    list[str] | None,
    typer.Option(
        "--with", help="Setting of the executor: address=auto, gpus=0.25, partition=gpu; can be repeated."
    ),
]
TuneCells = Annotated[
    bool,
    typer.Option(
        "--tune", "--grid", help="First choose learning rate and batch of every cell by validation."
    ),
]
Track = Annotated[
    list[str] | None,
    typer.Option(help="Live view of training: one of `spt list trackers`; can be repeated."),
]
ScaleName = Annotated[
    str,
    typer.Option("--scale", help="smoke (seconds, proves nothing), small (two cores), paper (as printed)."),
]
Seeds = Annotated[int, typer.Option(min=1, help="Repetitions: seeds 0 to n-1 are run, none is chosen.")]
FirstSeed = Annotated[
    int, typer.Option(min=0, help="Count seeds from here on, e.g. to repeat with seeds that nobody has run.")
]
DryRun = Annotated[
    bool, typer.Option("--dry-run", help="Show the stages and their estimated cost; train nothing.")
]
Detach = Annotated[
    bool,
    typer.Option("--detach", help="Hand all stages to Slurm, and return; needs --executor slurm."),
]
Measure = Annotated[
    bool, typer.Option("--measure", help="For --dry-run: time the steps here, rather than guess from FLOPs.")
]
TimeLimit = Annotated[
    str | None,
    typer.Option(
        "--time-limit", help="Shorten all arms alike, so that it takes about so long here: 45s, 30m, 2h."
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON and nothing else.")]
Trust = Annotated[
    list[str] | None, typer.Option(help="A package from outside whose specs may be loaded; can be repeated.")
]
DataRoot = Annotated[
    Path | None,
    typer.Option("--data-root", callback=set_data_root, help="Folder for data, instead of SPT_DATA."),
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Show no progress.")]
Set = Annotated[
    list[str] | None,
    typer.Option(
        "--set", "-s", help="Change a setting: task.train=500, pretrain.batch=64, s4d.mixer.states=32."
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
    """Where a command works.

    Raises:
        SpecError: if there is no such device, or the number of jobs is not one.
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
    """A scale by its name.

    Raises:
        SpecError: if there is none of that name.
    """
    from ..studies.base import SCALES

    for scale in SCALES:
        if scale == name:
            return scale
    raise SpecError(f"--scale {name}: there is no such scale{nearest(name, SCALES)}")


def seconds_of(text: str) -> float:
    """A length of time in seconds, e.g. of ``30m``.

    Raises:
        SpecError: if it is none.
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
    """Settings and their new values, from what was given to a flag.

    Raises:
        SpecError: if one is not of the form setting=value.
    """
    return dict(_assignment(text, flag, example) for text in texts or [])


def _assignment(text: str, flag: str, example: str) -> tuple[str, str]:
    path, equals, value = text.partition("=")
    if not equals or not path:
        raise SpecError(f"{flag} {text}: write it as setting=value, e.g. {example}")
    return path.strip(), value.strip()
