"""What a study writes down for its report, besides the results of its stages."""

import sys
from dataclasses import asdict
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from .. import __version__
from ..data.schema import SPLITS, Classes, Form, Split, Tokens
from ..registry import name_of
from ..report.paper_numbers import look_up
from ..system.files import FORMAT, Json
from ..tasks.base import Task
from .plan import Cell
from .workspace import Bench

if TYPE_CHECKING:
    from ..studies.base import Study


TIE = 0.01
"""Score differences smaller than this (one point of accuracy, or of R2) are ties."""


Manifest = dict[Split, list[str]]
"""The short hash of every example of every split: proof of what pretraining could and could not see."""


def record(study: "Study", cells: list[Cell], bench: Bench, command: str, prints: Manifest) -> Json:
    """The content of ``study.json``: question, task, metric, and where every cell's stages are."""
    task = cells[0].recipe.task
    return {
        "format": FORMAT,
        "study": name_of(study),
        "version": __version__,
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "command": command,
        "title": sentence(study),
        "task": card(task, prints),
        "metric": metric(task.form),
        "baselines": {},
        "contrasts": _asked(study, cells),
        "cells": [_entry(cell, bench, study.paper) for cell in cells],
        "notes": study.notes(),
    }


def _asked(study: "Study", cells: list[Cell]) -> list[list[str]]:
    """The contrasts of which these cells have both sides; all of them where there is none."""
    columns = {cell.column for cell in cells}
    return [list(pair) for pair in study.contrasts if columns.issuperset(pair)] or list(
        map(list, study.contrasts)
    )


def card(task: Task, prints: Manifest) -> Json:
    """What a task is: in words, in counts, and how many examples two of its splits share."""
    form, digests = task.form, {split: set(prints[split]) for split in SPLITS}
    pairs: tuple[tuple[Split, Split], ...] = (("train", "val"), ("train", "test"), ("val", "test"))
    return {
        "name": name_of(task),
        "about": sentence(task),
        "source": task.card.source,
        "licence": task.card.licence,
        "signal": _signal(form),
        "length": form.length,
        "target": _target(form),
        "kind": "classes" if isinstance(form.target, Classes) else "reals",
        "labelled": int(task.load("train").labelled.sum()),
        "chance": 1 / len(form.target.names) if isinstance(form.target, Classes) else None,
        "overlap": {f"{a}/{b}": len(digests[a] & digests[b]) for a, b in pairs},
    } | {split: len(prints[split]) for split in SPLITS}


def manifest(task: Task) -> Manifest:
    """The hashes of a task's examples, in their order."""
    return {split: task.load(split).digests() for split in SPLITS}


def metric(form: Form) -> Json:
    """How scores are shown."""
    if isinstance(form.target, Classes):
        return {"name": "accuracy", "unit": "%", "factor": 100, "digits": 1, "tie": TIE}
    return {"name": "r2", "unit": "", "factor": 1, "digits": 3, "tie": TIE}


def sentence(thing: object) -> str:
    """The first line of the docstring of the module that offers a thing, or of its class outside a shelf."""
    kind = thing if isinstance(thing, type) else type(thing)
    text = sys.modules[kind.__module__].__doc__ or kind.__doc__ or name_of(kind)
    return text.strip().splitlines()[0]


def _entry(cell: Cell, bench: Bench, paper: str) -> dict[str, Any]:
    stages = [str(bench.folder(prefix).relative_to(bench.runs)) for prefix in cell.recipe.prefixes()]
    entry = {"row": cell.row, "column": cell.column, "seed": cell.recipe.seed, "stages": stages}
    return entry | (_printed(paper, cell.printed) if cell.printed else {})


def _printed(paper: str, place: tuple[str, str, str]) -> dict[str, Any]:
    """The paper's number as it is printed, and where."""
    found = look_up(paper, place)
    if found.value is None:
        return {}
    where = dict(zip(("table", "row", "column"), place, strict=True))
    return {"printed": {"paper": paper, **where} | asdict(found)}


def _signal(form: Form) -> str:
    if isinstance(form.signal, Tokens):
        return f"tokens, {form.signal.vocab} symbols"
    levels = f", {form.signal.levels} levels" if form.signal.levels else ""
    return f"values, {form.signal.channels} channel{'s' * (form.signal.channels > 1)}{levels}"


def _target(form: Form) -> str:
    return (
        f"{len(form.target.names)} classes"
        if isinstance(form.target, Classes)
        else f"real ({form.target.name})"
    )
