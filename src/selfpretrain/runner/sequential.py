"""Sequential designs: add a seed, analyse, and stop where the verdict is decided.

Which cells are due is a function of the finished results alone. A run that was killed in the middle
therefore goes on as if it had not been, and results that were there before are analysed in the same order.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from ..registry import name_of
from ..report import format
from ..report.analysis import seeds_due
from ..report.results import STUDY, ExperimentResults
from ..report.sequential import SequentialDesign, seeds_for
from ..system import distributed
from ..system.events import Event, emit
from .experiment import Cell, SeedsDue
from .experiment_dir import ExperimentFolder, metric_of
from .run_dir import RESULT

GAINS = (0.02, 0.05, 0.1)
"""Gains of which a forecast says how many seeds they take."""


def reached(folder: ExperimentFolder) -> ExperimentFolder:
    """Return the folder with the cells that the results so far ask for; all of them if nothing has run."""
    if folder.experiment.design is None or not folder.folder.has(STUDY):
        return folder
    planned = folder.planned() if distributed.is_main() else None
    return replace(folder, plan=folder.plan.with_seeds(seeds_by_place(planned)))


def seeds_by_place(planned: ExperimentResults | None) -> SeedsDue:
    """Return the number of seeds due by task and row, the same in all processes of torchrun.

    Args:
        planned: the plan of all cells up to the last analysis; None in the other processes of torchrun.
    """
    lines: list[str] = []
    if planned is not None and planned.design is not None:
        lines = [
            json.dumps((number, row, seeds_due(task, row, planned.design, planned.first_seed)))
            for number, task in enumerate(planned.with_stages().tasks)
            for row in task.rows
        ]
    found = map(json.loads, distributed.broadcast(lines))
    return {(number, row): seeds for number, row, seeds in found}


def announce(due: SeedsDue, folder: ExperimentFolder) -> None:
    """Emit an event that says which rows are not decided yet, for the display and the trackers."""
    design = folder.experiment.design
    if design is None or not distributed.is_main() or max(due.values()) == design.first:
        return
    most = max(due.values())
    tasks = folder.experiment.by_task()
    several = len(tasks) > 1
    still = [
        f"{row}{f' on {name_of(tasks[number][0].recipe.task)}' * several}"
        for (number, row), seeds in due.items()
        if seeds == most
    ]
    emit(Event("interim", format.listing(still), most - 1, design.last))


def expected_seeds(folder: ExperimentFolder, design: SequentialDesign) -> list[str]:
    """Return sentences on how many seeds gains of 2, 5 and 10 points would take, a sentence per task and row.

    The spread between seeds is that of finished and bundled results of the same arms. The choice of the test
    examples, which is not known before, is left out.
    """
    scores = _known_scores(folder.experiment.cells, folder)
    sentences = []
    tasks = folder.experiment.by_task()
    for cells in tasks:
        treatment, control = folder.experiment.contrasts_of(cells)[0]
        metric = metric_of(cells[0].recipe.task.form)
        for row in dict.fromkeys(cell.row for cell in cells):
            ours = _by_seed(cells, scores, row, treatment)
            theirs = _by_seed(cells, scores, row, control)
            gains = [ours[seed] - theirs[seed] for seed in ours if seed in theirs]
            if len(gains) < 2 or not np.isfinite(gains).all():
                continue
            spread = float(np.std(gains, ddof=1))
            words = []
            for gain in GAINS:
                found = seeds_for(gain, spread, metric.tie, design)
                number = f"about {found}" if found else f"more than {design.last}"
                words.append(f"{format.score(metric, gain)}{format.points(metric)} {number}")
            label = f" on {cells[0].label or name_of(cells[0].recipe.task)}" * (len(tasks) > 1)
            sentences.append(
                f"{row}{label}: seeds to a verdict for a gain of {', of '.join(words)}; the known spread, of "
                f"{len(gains)} seeds, is {format.score(metric, spread)}{format.points(metric)}"
            )
    return sentences or [
        "how many seeds a gain takes depends on the spread between seeds, which no results of these arms show"
        " yet; from two seeds on, the same command with --dry-run says it"
    ]


def _known_scores(cells: Sequence[Cell], folder: ExperimentFolder) -> dict[str, float]:
    """Return the test scores of the cells that have finished or are kept, by the name of their last stage."""
    scores = dict(folder.archive.scores()) if folder.archive else {}
    for cell in cells:
        stage = folder.workspace.folder(cell.stages[-1])
        if stage.finished and "test" in (found := stage.read(RESULT)["scores"]):
            scores[stage.name] = float(found["test"]["score"])
    return scores


def _by_seed(cells: Sequence[Cell], scores: Mapping[str, float], row: str, column: str) -> dict[int, float]:
    """Return the scores at a row and a column by seed, the mean over folds; seeds with all folds only."""
    found: dict[int, list[float | None]] = {}
    for cell in cells:
        if (cell.row, cell.column) == (row, column):
            score = scores.get(cell.stages[-1])
            found.setdefault(cell.recipe.seed, []).append(score)
    complete = {seed: [each for each in of if each is not None] for seed, of in found.items()}
    return {seed: float(np.mean(of)) for seed, of in complete.items() if len(of) == len(found[seed])}
