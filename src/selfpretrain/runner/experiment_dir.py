"""The folder of an experiment: the planned cells, results of its stages, measurements and the report."""

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path

import numpy as np

from .. import __version__
from ..config import to_dict
from ..data.spec import SPLITS, SequenceSpec, Split, Tokens
from ..errors import StoreError
from ..registry import file_name_of, first_line, name_of
from ..report import page, results
from ..report.analysis import analyse
from ..report.results import STUDY, CellResult, ExperimentResults, Measure, Metric, TaskCard, TaskResults
from ..report.stage_results import parsed
from ..system.files import FORMAT, Json, digest_of, explain_errors, remove_leftovers, sha256_of
from ..tasks.base import Task
from ..training.recipe import digests_of
from .archive import Archive, Measures
from .experiment import Cell, Experiment, Finished
from .plan import Plan, PlannedStage, missing_stages
from .run_dir import RESULT, RunDir
from .workspace import Workspace

OF_BUNDLED = "*This was written of the bundled results, and not of those that were added or changed here.*"
CACHES = ("manifests", "baselines")
"""Folders of caches that all experiments share."""
ABANDONED_SECONDS = 3600.0
"""Age at which temporary files count as abandoned."""
TIE = 0.01
"""Score differences smaller than this (one point of accuracy, or 0.01 of R2) are ties."""
Manifest = dict[Split, list[str]]
"""The short hash of every example by split: evidence of what pretraining could and could not see."""


@dataclass(frozen=True)
class Measured:
    """Content of a file of measurements, and a hash of the results that they were made on."""

    measures: tuple[Measure, ...]
    of: str = ""


@dataclass(frozen=True)
class ExperimentFolder:
    """The folder of an experiment, next to the folder of its stages.

    Args:
        bundled: folder of bundled results and of interpretations written by hand.

    Raises:
        StoreError: from its methods, if the file of bundled results is damaged.
    """

    plan: Plan
    workspace: Workspace
    bundled: Path | None = None

    @property
    def experiment(self) -> Experiment:
        """Return the experiment, whose cells know their stages."""
        return self.plan.experiment

    @property
    def folder(self) -> RunDir:
        """Return the folder; it is created if necessary."""
        return RunDir.make(self.workspace.runs / self.experiment.folder)

    @property
    def path(self) -> Path:
        """Path of the folder."""
        return self.folder.path

    @property
    def archive(self) -> Archive | None:
        """Bundled results of this study at this scale; None without any."""
        return Archive(self.bundled / f"{self._name}.jsonl.xz") if self.bundled else None

    def restore(self) -> int:
        """Restore bundled stages that are not on disk, and return how many."""
        if self.archive is None:
            return 0
        recipes = {stage: to_dict(planned.recipe) for stage, planned in self._planned.items()}
        n_restored, measures = self.archive.restore(self.stages(), recipes)
        if self._measures_file in measures and not self.folder.has(self._measures_file):
            # Otherwise some stages were trained here, with other weights than those measured.
            all_restored = n_restored == len(self.stages())
            self._write_measures(
                measures[self._measures_file], self._results_digest() if all_restored else ""
            )
        return n_restored

    @property
    def bundled_stages(self) -> frozenset[str]:
        """Return the names of the bundled stages, which ``restore`` would restore."""
        return self.archive.names() if self.archive else frozenset()

    def forget(self) -> None:
        """Drop restored results and measurements, so that the stages are trained here."""
        Archive.forget(self.stages().values())
        self.folder.drop(self._measures_file)

    def keep(self) -> int:
        """Add finished stages and measurements on them to the bundled results; return how many stages."""
        return self.keep_stages({self._measures_file: [asdict(one) for one in self.measures()]})

    def keep_stages(self, measures: Measures | None = None) -> int:
        """Add finished stages to the bundled results, and return how many; by default, measure nothing."""
        return self.archive.keep(self.stages().values(), measures or {}) if self.archive else 0

    def write_plan(self, faults: Iterable[str] = ()) -> None:
        """Write the planned cells, so that reports can be made at any time; sweep abandoned files.

        Args:
            faults: what the checks of mixers found.
        """
        for folder in (self.workspace.runs, *(self.workspace.runs / name for name in CACHES), self.path):
            if folder.is_dir():
                with explain_errors(folder):
                    remove_leftovers(folder, ABANDONED_SECONDS)
        self.folder.write(STUDY, self.planned(tuple(faults)).to_json())

    def finish(self, notes: Iterable[str] = ()) -> None:
        """Add baseline scores, measurements and notes on this run, and write the report."""
        found = results.read_plan(self.path)
        tasks = tuple(
            replace(
                task,
                baselines=_baselines(cells[0].recipe.task, self.workspace),
                notes=(*task.notes, *notes),
            )
            for task, cells in zip(found.tasks, self.experiment.by_task(), strict=True)
        )
        found = replace(found, tasks=tasks, measures=self.measures(), stamp=self._stamp())
        self.folder.write(STUDY, found.to_json())
        page.write(self.path, analyse(self.results))

    @cached_property
    def results(self) -> ExperimentResults:
        """Return the results of the finished experiment, read from the folder once."""
        return results.read_plan(self.path).with_stages()

    @property
    def is_current(self) -> bool:
        """Return whether every cell has finished, and the report was made from exactly these results."""
        if not (self.folder.has(STUDY) and self.folder.has("report.html")):
            return False
        found = results.read_plan(self.path)
        written = [(task.contrasts, task.cells) for task in found.tasks]
        groups = self.experiment.by_task()
        if found.stamp != self._stamp() or written != [
            (self.experiment.contrasts_of(cells), tuple(map(_without_stages, cells))) for cells in groups
        ]:
            return False
        return not missing_stages(list(self._planned.values()), self.workspace)

    def stages(self) -> dict[str, RunDir]:
        """Return the folders of all stages by id."""
        return {stage: self.workspace.folder(stage) for stage in self._planned}

    @cached_property
    def _planned(self) -> dict[str, PlannedStage]:
        return {stage.id: stage for stage in self.plan.stages_of(self.experiment.cells)}

    def measures(self) -> tuple[Measure, ...]:
        """Return the study's measurements: cached, new, or the bundled ones if the weights are missing."""
        path = self.path / self._measures_file
        content = self.folder.read(path.name) if path.exists() else {"measures": []}
        stored = parsed(Measured, content, path)
        digest = self._results_digest()
        if stored.of == digest:
            return stored.measures
        try:
            experiment = self.experiment
            due = frozenset(cell.stages[-1] for cell in experiment.cells) if experiment.design else None
            found = experiment.measure(Finished(self.workspace, due, experiment.first_seed))
        except StoreError:  # weights are missing: not trained here, or not yet
            return stored.measures
        if found:
            self._write_measures(found, digest)
        return parsed(Measured, {"measures": found}, path).measures

    def _write_measures(self, measures: list[Json], digest: str) -> None:
        self.folder.write(self._measures_file, {"format": FORMAT, "measures": measures, "of": digest})

    def _results_digest(self) -> str:
        """Return a hash of all results on disk."""
        contents = {}
        for name, folder in sorted(self.stages().items()):
            if folder.finished:
                with explain_errors(folder.path / RESULT, "read"):
                    contents[name] = (folder.path / RESULT).read_bytes()
        return sha256_of(text="", parts=contents)[:10]

    @property
    def _name(self) -> str:
        return f"{self.experiment.name}.{self.experiment.scale}"

    @property
    def _measures_file(self) -> str:
        """Return the name of the file of measurements on exactly these cells."""
        names = "\n".join(sorted(self.stages()))
        return f"measures-{digest_of(names.encode())[:10]}.json"

    def _interpretation(self) -> str:
        """Return the interpretation written by hand, from the folder of bundled results; "" without.

        It says so if other stages than those that it was written of have finished, and there is none if none
        of them is planned: the study was changed.
        """
        file = self.bundled / f"{self._name}.md" if self.bundled else None
        if not file or not file.exists():
            return ""
        written = file.read_text(encoding="utf-8").strip()
        bundled = self.bundled_stages
        if not bundled:  # there are no results beside it
            return written
        others = any(name not in bundled and stage.finished for name, stage in self.stages().items())
        if bundled.isdisjoint(self._planned):
            return ""
        return f"{OF_BUNDLED}\n\n{written}" if others else written

    def _stamp(self) -> str:
        """Return a hash of everything that the report depends on."""
        experiment = self.experiment
        cells = [[cell.row, cell.column, cell.label, str(cell.reported or "")] for cell in experiment.cells]
        content = [
            __version__,
            dict(experiment.about),
            self._interpretation(),
            experiment.notes,
            cells,
            self._results_digest(),
        ]
        if experiment.design:
            content.append(str(experiment.design))
        return digest_of(json.dumps(content).encode())[:10]

    def planned(self, faults: tuple[str, ...] = ()) -> ExperimentResults:
        """Return the experiment without results, as it is written to study.json."""
        experiment = self.experiment
        previous = results.read_plan(self.path) if self.folder.has(STUDY) else None
        return ExperimentResults(
            name=experiment.name,
            title=experiment.title,
            scale=experiment.scale,
            version=__version__,
            created=previous.created if previous else datetime.now(UTC).isoformat(timespec="seconds"),
            command=self.workspace.command,
            tasks=tuple(self._task(cells, faults) for cells in experiment.by_task()),
            about=dict(experiment.about),
            interpretation=self._interpretation(),
            figure=experiment.figure,
            asked=sum(len(cell.recipe.stages) for cell in experiment.cells),
            different=len(self.stages()),
            trials=tuple(f"stages/{name}" for name in experiment.trials),
            first_seed=experiment.first_seed,
            share=experiment.share,
            stamp=self._stamp(),
            folder=self.path,
        )

    def _task(self, cells: list[Cell], faults: tuple[str, ...]) -> TaskResults:
        task = cells[0].recipe.task
        return TaskResults(
            name=cells[0].label or name_of(task),
            card=_task_card(task, [manifest(part, self.workspace) for part in task.parts()]),
            metric=metric_of(task.form),
            contrasts=self.experiment.contrasts_of(cells),
            cells=tuple(map(_without_stages, cells)),
            baselines=_baselines(task, self.workspace, known=True),
            notes=self.experiment.notes,
            faults=faults,
            design=self.experiment.design,
        )


def _without_stages(cell: Cell) -> CellResult:
    """Return a cell as it is written before any of its stages has finished."""
    folders = tuple(f"stages/{stage}" for stage in cell.stages)
    return CellResult(cell.row, cell.column, cell.recipe.seed, folders, cell.reported, cell.fold)


def manifest(task: Task, workspace: Workspace) -> Manifest:
    """Return the hashes of a task's examples, cached for all experiments in a runs folder."""
    folder = RunDir.make(workspace.runs / "manifests")
    name = _cache_name(task)
    cached = folder.read_cache(name)
    if not cached.keys() >= set(SPLITS):
        cached = {"format": FORMAT} | example_hashes(task)
        folder.write(name, cached)
    return {split: cached[split] for split in SPLITS}


def example_hashes(task: Task) -> Manifest:
    """Return the hashes of a task's examples by split, in order."""
    return {split: task.load(split).digests() for split in SPLITS}


def _baselines(task: Task, workspace: Workspace, known: bool = False) -> dict[str, float]:
    """Return baseline scores of a task, of all folds together, cached for all experiments in a runs folder.

    Args:
        known: return nothing rather than compute scores.
    """
    cache = RunDir(workspace.runs / "baselines")
    folds: list[dict[str, float]] = []
    for part in task.parts():
        scores = cache.read_cache(_cache_name(part)).get("scores", {})
        if not scores and not known:
            from ..tasks.inspect.baselines import baseline_scores  # scikit-learn takes a second to import

            scores = baseline_scores(part)
            RunDir.make(cache.path).write(_cache_name(part), {"format": FORMAT, "scores": scores})
        folds.append(scores)
    names = [name for name in folds[0] if all(name in scores for scores in folds)]
    of_folds = {name: np.array([scores[name] for scores in folds]) for name in names}
    if len(folds) == 1 or not names:
        return folds[0] if names else {}
    from ..tasks.inspect.baselines import pooled

    scores = pooled(np.stack(list(of_folds.values())), task.parts())
    return {name: score for name, score in zip(names, scores.tolist(), strict=True) if np.isfinite(score)}


def _cache_name(task: Task) -> str:
    plain = to_dict(task)
    sources = digests_of(plain)
    content = [plain, task.version(), *([sources] if sources else [])]
    digest = digest_of(json.dumps(content, sort_keys=True).encode())
    return f"{file_name_of(task)}-{digest[:10]}.json"


def _task_card(task: Task, folds: list[Manifest]) -> TaskCard:
    """Return name, description and counts of a task, and the number of examples shared by its splits.

    Train and val are those of the first fold, test is that of all folds: every labelled example once.
    """
    form = task.form
    signal = form.signal
    if isinstance(signal, Tokens):
        words = f"tokens, {signal.vocab} symbols"
    else:
        levels = f", {signal.levels} levels" if signal.levels else ""
        words = f"values, {signal.channels} channel{'s' * (signal.channels > 1)}{levels}"
    examples = folds[0] | {"test": [one for fold in folds for one in fold["test"]]}
    pairs: tuple[tuple[Split, Split], ...] = (("train", "val"), ("train", "test"), ("val", "test"))
    return TaskCard(
        name=name_of(task),
        about=first_line(task),
        source=task.card.source,
        licence=task.card.licence,
        signal=words,
        length=form.length,
        target=form.target.description,
        kind=form.target.kind,
        train=len(examples["train"]),
        val=len(examples["val"]),
        test=len(examples["test"]),
        labelled=int(task.load("train").labelled.sum()),
        chance=form.target.chance,
        overlap={f"{a}/{b}": sum(len(set(fold[a]) & set(fold[b])) for fold in folds) for a, b in pairs},
    )


def metric_of(form: SequenceSpec) -> Metric:
    """Return name, unit, factor, digits and tie band of the score."""
    if form.target.metric == "r2":
        return Metric("r2", "", 1.0, 3, TIE)
    return Metric(form.target.metric, "%", 100.0, 1, TIE)
