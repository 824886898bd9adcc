"""Verify that all files in a runs folder are what was written, and say how to repair them."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Literal

from ..errors import ForeignRun, SelfPretrainError, StoreError
from ..report import page, results
from ..report.integrity import MEND
from ..report.page import DIGESTS
from ..report.render import csv_long
from ..system.files import LEFTOVER, explained, read_json
from ..training.run_dir import CHECKPOINT, WEIGHTS, RunDir

Level = Literal["wrong", "note"]
CACHES = ("costs.json", "time-limits.json", "baselines/*.json", "manifests/*.json")
"""Files that are recomputed automatically."""


@dataclass(frozen=True)
class Flaw:
    """A problem with a file in a runs folder."""

    level: Level
    said: str  # which file, what is wrong with it, and how to repair it


def verify(runs: Path) -> Iterator[tuple[str, list[Flaw]]]:
    """Yield every stage, experiment and cache of a runs folder with its problems; nothing is changed.

    Raises:
        StoreError: if there is no such folder, or no stage and no study in it.
    """
    stages = sorted(path for path in runs.glob("stages/*") if path.is_dir())
    there = sorted({path.parent for path in runs.glob("*/study.json")})
    if not stages and not there:
        raise StoreError(f"there are no stages and no studies in {runs}; give a folder of runs")
    sound = True
    for path in stages:
        found = list(_stage(RunDir(path)))
        sound = sound and all(flaw.level == "note" for flaw in found)
        yield path.name, found
    for path in there:
        yield path.name, list(_experiment(path, sound))
    caches = [path for pattern in CACHES for path in sorted(runs.glob(pattern))]
    yield "caches", [found for path in caches for found in _tried(partial(read_json, path), " made again")]


def _stage(folder: RunDir) -> Iterator[Flaw]:
    for path in folder.path.iterdir():
        if LEFTOVER.fullmatch(path.name):
            yield Flaw("note", f"{path} was left by a killed process; it goes when the stage is next run")
    if folder.has(CHECKPOINT):
        yield from _tried(lambda: folder.load(CHECKPOINT))
    if folder.is_attempt or not folder.finished:
        yield Flaw("note", f"{folder.path} is unfinished; the command that started it resumes it")
        return
    try:
        _, wrong = results.examined(folder.path)
    except StoreError as error:
        yield _flaw(error)
        return
    yield from map(_flaw, wrong)
    if folder.has(WEIGHTS):
        yield from _tried(lambda: folder.load(WEIGHTS, folder.read("result.json").get("weights", "")))
    elif not folder.has("restored.json"):
        yield Flaw("note", f"{folder.path / WEIGHTS} is gone; it is trained again if a stage needs it")


def _experiment(folder: Path, sound: bool) -> Iterator[Flaw]:
    """Yield the problems of an experiment; its table can be checked only if all stages are sound."""
    wrong = [*_tried(lambda: results.read_record(folder))]
    for path in sorted(folder.glob("measures-*.json")):
        wrong += _tried(partial(read_json, path, mend=MEND.format(path.name)))
    if sound and not wrong:
        wrong = [*_tried(lambda: _table(folder))]
    yield from wrong or _pages(folder)


def _table(folder: Path) -> None:
    """Compare ``results.csv`` with the results of the stages."""
    path, found = folder / "results.csv", results.read(folder)
    if found.missing or not path.exists():  # written once the experiment is complete
        return
    with explained(path, "read"):
        content = path.read_bytes()
    if content != csv_long.document(found).encode():
        raise StoreError(f"{path} is not what its stages give; spt report {folder} makes it again")


def _pages(folder: Path) -> Iterator[Flaw]:
    """Yield the pages that differ from what was written; folders of earlier versions have no hashes."""
    if (folder / DIGESTS).exists():
        yield from map(_flaw, page.altered(folder))


def _tried(look: Callable[[], object], otherwise: str = "") -> Iterator[Flaw]:
    """Yield a problem if ``look`` fails; only a note if ``otherwise`` says that the file is recomputed."""
    try:
        look()
    except SelfPretrainError as error:
        yield Flaw("note", f"{error}; it is{otherwise} when it is next needed") if otherwise else _flaw(error)


def _flaw(error: SelfPretrainError) -> Flaw:
    """Return an error as a flaw; files of another version are only a note."""
    return Flaw("note" if isinstance(error, ForeignRun) else "wrong", str(error))
