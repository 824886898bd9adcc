"""State of a runs folder: its stages, those that no study refers to, and whether their files are intact."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Literal

from ..data.store import stored_datasets, verify
from ..errors import SelfPretrainError, StoreError, Taken
from ..report.results import STUDY, ExperimentResults, read_plan
from ..report.stage_results import examined
from ..system.files import lock_holder
from .provenance import locate
from .run_dir import CHECKPOINT, ERROR, RESULT, WEIGHTS, RunDir

STATES = ("done", "running", "stopped", "failed", "waiting")


@dataclass(frozen=True)
class StageStatus:
    """State of one stage."""

    stage: str
    state: Literal["done", "running", "stopped", "failed", "waiting"]
    detail: str = ""  # which process runs it, where it resumes, or why it failed


def statuses(runs: Path) -> list[StageStatus]:
    """Return the status of every stage that a study refers to, and of every other stage on disk.

    Raises:
        StoreError: if there is no such folder, or a study cannot be read.
    """
    begun = {stage.name for stage in _stages(runs)}
    return [_status(RunDir(runs / "stages" / name)) for name in sorted(referenced_stages(runs) | begun)]


def referenced_stages(runs: Path) -> set[str]:
    """Return the names of the stages that the studies in a runs folder refer to."""
    plans = [read_plan(path.parent) for path in runs.glob(f"*/{STUDY}")]
    return {Path(stage).name for plan in plans for stage in _stage_paths(plan)}


def _stage_paths(plan: ExperimentResults) -> set[str]:
    return {stage for cell in plan.cells for stage in cell.folders}


def unused_stages(runs: Path) -> list[tuple[RunDir, int]]:
    """Return stages and attempts that no study refers to and no process is running, with their size in bytes.

    Raises:
        StoreError: if there is no such folder, or a study cannot be read, so that its stages are unknown.
    """
    stages = _stages(runs)
    referenced = referenced_stages(runs)
    unused = (stage for stage in stages if stage.name not in referenced and not stage.stage.is_running)
    return [(stage, sum(path.stat().st_size for path in stage.path.iterdir())) for stage in unused]


def _stages(runs: Path) -> list[RunDir]:
    """Return the stages in a runs folder, and the attempts at them."""
    if not runs.is_dir():
        raise StoreError(f"there is no directory {runs}; give a directory of runs")
    if (runs / STUDY).is_file():
        raise StoreError(f"{runs} is a study; give its directory of runs, {runs.absolute().parent}")
    return [RunDir(path) for path in sorted((runs / "stages").glob("*")) if path.is_dir()]


def delete(stages: Iterable[tuple[RunDir, int]]) -> Iterator[tuple[RunDir, int]]:
    """Delete stages, and yield those deleted; stages that a process has started since are skipped."""
    for stage, size in stages:
        try:
            with stage.stage.exclusive():
                if stage.stage.is_live_elsewhere():
                    continue
                stage.remove()
            yield stage, size
        except Taken:
            continue


def _status(stage: RunDir) -> StageStatus:
    if stage.is_running:
        return StageStatus(stage.name, "running", lock_holder(stage.lock) if stage.lock.exists() else "")
    if stage.finished:
        return StageStatus(stage.name, "done")
    if not stage.attempts:
        return StageStatus(stage.name, "waiting")
    attempt = stage.attempts[0]
    if attempt.has(ERROR):
        lines = (attempt.path / ERROR).read_text(encoding="utf-8").strip().splitlines()
        return StageStatus(stage.name, "failed", lines[-1] if lines else "")
    detail = "resumes from its checkpoint" if attempt.has(CHECKPOINT) else "starts again"
    return StageStatus(stage.name, "stopped", detail)


def check(name: str, runs: Path) -> Iterator[tuple[str, list[str]]]:
    """Yield the studies, stages or data sets that a name stands for, with their flaws in one line each.

    Files of a finished stage are compared with the digests in its result, its recipe with its fingerprint,
    its score with its predictions. The plan of a study is read. Files of a data set are hashed.

    Args:
        name: a runs folder, a data folder, the name of a data set, or a stage or study as for ``locate``.
        runs: folder of runs in which names are looked up.

    Raises:
        SpecError: if several stages or studies match.
        UnknownName: if nothing matches.
    """
    folder = Path(name)
    if (folder / "stages").is_dir():
        for study in sorted(path.parent for path in folder.glob(f"*/{STUDY}")):
            yield study.name, _flaws(partial(read_plan, study))
        stages = _stages(folder)
    elif datasets := _datasets(folder):
        for dataset in datasets:
            yield dataset.name, _flaws(partial(verify, dataset))
        return
    elif ((found := locate(name, runs)) / STUDY).is_file():
        flaws = _flaws(partial(read_plan, found))
        yield found.name, flaws
        paths = set() if flaws else _stage_paths(read_plan(found))
        stages = [RunDir(found.resolve().parent / path) for path in sorted(paths)]
    else:
        stages = [RunDir(found)]
    for stage in stages:
        if stage.finished and not stage.is_attempt:
            yield stage.name, _flaws_of_stage(stage)


def _datasets(folder: Path) -> list[Path]:
    """Return the data sets in a folder, or else those of this name in the data folders."""
    found = [meta.parent for depth in ("", "*/", "*/*/") for meta in sorted(folder.glob(f"{depth}meta.json"))]
    return [path for path in found if "." not in path.name] or stored_datasets(str(folder))


def _flaws_of_stage(stage: RunDir) -> list[str]:
    try:
        _, flaws = examined(stage.path)
    except StoreError as error:
        return [str(error)]
    weights = partial(stage.load, WEIGHTS, stage.read(RESULT).get("weights", ""))
    # Restored results have no weights; others may be deleted to save space.
    return [*map(str, flaws), *(_flaws(weights) if stage.has(WEIGHTS) else [])]


def _flaws(read: Callable[[], object]) -> list[str]:
    try:
        read()
    except SelfPretrainError as error:
        return [str(error)]
    return []
