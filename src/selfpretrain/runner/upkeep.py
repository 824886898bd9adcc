"""Why a stage is to be run although one like it has finished; and stages that nothing refers to."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..errors import StoreError, Taken, UnknownName
from ..system.files import Json
from ..system.lease import last_lease
from ..training.stage_folder import WEIGHTS, Folder
from .detached import plans
from .provenance import locate
from .status import asked_for

NOTHING = object()
MOST = 20
"""Differences that are told."""


@dataclass(frozen=True)
class Unused:
    """A stage that no study and no plan refers to."""

    folder: Folder
    size: int  # bytes


def unused(runs: Path) -> list[Unused]:
    """Stages that no study and no plan refers to, and that nobody works on.

    Raises:
        StoreError: if a study or plan cannot be read: what it refers to is then not known.
    """
    used = asked_for(runs) | {job.stage for plan in plans(runs) for job in plan.jobs}
    free = (Folder(path) for path in sorted(runs.glob("stages/*")) if path.name not in used)
    return [Unused(folder, _size(folder.path)) for folder in free if not _at_work(folder)]


def delete(found: list[Unused]) -> Iterator[Unused]:
    """Delete stages, but for those that somebody has begun to work on; those that are gone."""
    for each in found:
        try:
            with each.folder.locked(lambda: True):
                if not _at_work(each.folder):
                    each.folder.remove()
                    yield each
        except Taken:
            continue


def _at_work(folder: Folder) -> bool:
    last = last_lease(folder.store)
    return last is not None and last.alive(folder.store)


def _size(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def why(run: str, runs: Path) -> list[str]:
    """Why a stage must be run, in lines: what sets its recipe apart from the nearest that has finished.

    Raises:
        UnknownName: if there is no such stage, on disk or in a plan.
    """
    name, recipe = _asked(run, runs)
    folder = Folder(runs / "stages" / name)
    if folder.finished and folder.has(WEIGHTS):
        return [f"{name} has finished; it is not run again"]
    if folder.finished:
        return [f"{name} has finished, but without weights: it is run again where another starts from it"]
    near = _nearest(recipe, runs)
    if near is None:
        return [f"{name}: nothing has finished in {runs}"]
    other, differences = near
    if not differences:
        same = "the data, a module from outside or the numerics of this package are another version"
        return [f"{name}: {other} has the same recipe, but {same}"]
    told = [f"  {place}: {mine}, there {theirs}" for place, mine, theirs in differences[:MOST]]
    more = [f"  and {len(differences) - MOST} more"] if len(differences) > MOST else []
    return [f"{name}: the nearest that has finished is {other}", *told, *more]


def _asked(run: str, runs: Path) -> tuple[str, Json]:
    jobs = [job for plan in plans(runs) for job in plan.jobs if run in (job.stage, job.stage[-10:])]
    if jobs:
        return jobs[0].stage, jobs[0].recipe
    path = locate(run, runs)
    if path.parent.name != "stages":
        raise UnknownName(f"{run} is not a stage; give a fingerprint or the name of a stage")
    recipe = Folder(path).read("recipe.json" if (path / "recipe.json").exists() else "result.json")
    recipe.pop("format", None)
    return path.name, recipe.get("recipe", recipe)


def _nearest(recipe: Json, runs: Path) -> tuple[str, list[tuple[str, str, str]]] | None:
    found = []
    for path in sorted(runs.glob("stages/*/result.json")):
        try:
            other = Folder(path.parent).read("result.json")["recipe"]
        except (StoreError, KeyError):
            continue
        found.append((path.parent.name, list(_differences(recipe, other))))
    return min(found, key=lambda pair: len(pair[1]), default=None)


def _differences(mine: Any, theirs: Any, place: str = "") -> Iterator[tuple[str, str, str]]:
    """Where two recipes differ: the place, and what stands there."""
    if isinstance(mine, list) and isinstance(theirs, list):
        mine, theirs = dict(enumerate(mine)), dict(enumerate(theirs))
    if isinstance(mine, dict) and isinstance(theirs, dict) and mine.get("is") == theirs.get("is"):
        for key in [*mine, *(key for key in theirs if key not in mine)]:
            inner = f"{place}.{key}" if place else str(key)
            yield from _differences(mine.get(key, NOTHING), theirs.get(key, NOTHING), inner)
    elif json.dumps(mine, default=str) != json.dumps(theirs, default=str):
        yield place, _short(mine), _short(theirs)


def _short(value: Any) -> str:
    if value is NOTHING:
        return "nothing"
    return str(value["is"]) if isinstance(value, dict) and "is" in value else json.dumps(value)[:100]
