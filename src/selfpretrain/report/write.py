"""Putting the reports of a study beside its study.json."""

import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import StoreError
from . import old_results as results
from . import page
from .analysis import analyse
from .old_results import Study
from .render import csv_long, latex, markdown, terminal

if TYPE_CHECKING:
    from rich.console import RenderableType


def write(folder: Path) -> dict[str, Path]:
    """Write table.md, table.tex, results.csv and report.html into a study folder; their paths by kind.

    Raises:
        StoreError: if the study cannot be read or the folder cannot be written.
    """
    study = results.study(folder)
    analysis = analyse(study)
    made = {
        "markdown": ("table.md", markdown.document(analysis)),
        "latex": ("table.tex", latex.document(analysis)),
        "csv": ("results.csv", csv_long.document(study)),
        "html": ("report.html", page.document(analysis)),
    }
    return {kind: put(folder / name, text) for kind, (name, text) in made.items()}


def show(study: Study) -> "RenderableType":
    """What a rich console prints about a study."""
    return terminal.show(analyse(study))


def put(path: Path, text: str) -> Path:
    """Write a file so that nobody ever sees half of it."""
    try:
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        try:
            with os.fdopen(handle, "w", encoding="utf-8", newline="\n") as file:
                file.write(text)
            os.chmod(name, 0o644)  # mkstemp's file is readable by nobody else
            os.replace(name, path)
        except BaseException:
            os.unlink(name)
            raise
    except OSError as error:
        raise StoreError(f"cannot write {path}: {error.strerror}") from error
    return path
