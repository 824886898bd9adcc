"""What the verbs of the command line share: flags, tasks by name, and how far long work is."""

import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from ..errors import SpecError
from ..registry import find
from ..spec import amend

REDRAW, EVERY = 0.1, 10.0
"""Seconds between two looks at how far something is, where somebody watches; and where nobody does."""


def set_data_root(folder: Path | None) -> Path | None:
    """Let data live in a folder, for this process and those it starts; data elsewhere are found as before."""
    if folder is not None:
        from ..data import paths

        before = os.environ.get(paths.VARIABLE, "")
        os.environ[paths.VARIABLE] = os.pathsep.join([str(folder.absolute()), *([before] if before else [])])
    return folder


DataRoot = Annotated[
    Path | None,
    typer.Option("--data-root", callback=set_data_root, help="Folder for data, instead of SPT_DATA."),
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Show no progress.")]
Set = Annotated[
    list[str] | None,
    typer.Option(
        "--set", "-s", help="Change a setting: task.train=500, pretrain.optim.lr=3e-3, s4d.mixer.states=32."
    ),
]


def named(shelf: str, name: str) -> Any:
    """What a name on a shelf stands for, with its default settings.

    Raises:
        SpecError: if there is no such name, or it needs settings.
    """
    try:
        return find(shelf, name)()
    except TypeError as error:
        raise SpecError(f"{name} cannot be made without settings: {error}") from error


def assignments(texts: list[str] | None) -> list[tuple[str, str]]:
    """Settings and their new values, from what was given to --set.

    Raises:
        SpecError: if one is not of the form setting=value.
    """
    return [_assignment(text) for text in texts or []]


def amended(thing: Any, changes: list[tuple[str, str]]) -> Any:
    """The same spec with settings changed, one after another."""
    for path, value in changes:
        thing = amend(thing, path, value)
    return thing


def _assignment(text: str) -> tuple[str, str]:
    path, equals, value = text.partition("=")
    if not equals or not path:
        raise SpecError(f"--set {text}: write it as setting=value, e.g. pretrain.optim.lr=3e-3")
    return path.strip(), value.strip()


@contextmanager
def telling(quiet: bool = False) -> Iterator[None]:
    """Show how far long work is: a bar where somebody watches, else a line now and then."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

    from ..system.watch import watching

    console = Console(stderr=True)
    if quiet:
        yield
    elif not console.is_terminal:
        with watching(_Lines()):
            yield
    else:
        columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
        with Progress(*columns, console=console, transient=True) as bar, watching(_Bar(bar)):
            yield


class _Bar:
    """Moves a bar."""

    def __init__(self, bar: Any) -> None:
        self.bar, self.line, self.last = bar, bar.add_task("", total=None), 0.0

    def __call__(self, what: str, done: int, total: int) -> None:
        if time.monotonic() - self.last > REDRAW or done == total:
            self.last = time.monotonic()
            self.bar.update(self.line, description=what, completed=done, total=total or None)


class _Lines:
    """Writes a line now and then."""

    def __init__(self) -> None:
        self.last = time.monotonic()

    def __call__(self, what: str, done: int, total: int) -> None:
        if time.monotonic() - self.last > EVERY:
            self.last = time.monotonic()
            sys.stderr.write(f"{what}: {done:,}" + (f" of {total:,}\n" if total else "\n"))
            sys.stderr.flush()
