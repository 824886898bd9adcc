"""Results of a task as if they had been read from its folder: scores of cells, without any training."""

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

from selfpretrain.report.analysis import Analysis, analyse_task
from selfpretrain.report.results import CellResult, ExperimentResults, Metric, TaskCard, TaskResults
from selfpretrain.report.stage_results import StageCost, StageResult

MATCHED, SPT = "scratch (matched)", "SPT"
ARMS = (SPT, MATCHED)


def cell(row: str, column: str, seed: int, score: float | None, *, fold: int = 0, **stage: Any) -> CellResult:
    """A cell with this test score; one that has not finished where it is None."""
    planned = CellResult(row, column, seed, (f"stages/{row}-{column}-{seed}",), fold=fold)
    if score is None:
        return planned
    scores = {"test": {"score": score}, "val": {"score": score}}
    usual = {"folder": Path("nowhere"), "stopped": "patience", "cost": StageCost(1000, 1e9, 1.0)}
    usual |= {"objective": "classify"}
    made = StageResult(scores=scores, steps=100, epochs=1.0, best_step=95, **(usual | stage))
    return replace(planned, stages=(made,))


def task_results(cells: Iterable[CellResult], *, kind: str = "classes", tie: float = 0.01,
                 baselines: dict[str, float] | None = None, design: Any = None) -> TaskResults:  # fmt: skip
    """A task of accuracies whose only contrast is that of the two arms."""
    card = TaskCard("toy", "", "", "", "", 8, "", kind, 10, 10, 10, 10)
    metric = Metric("accuracy", "%", 100.0, 1, tie)
    return TaskResults("toy", card, metric, (ARMS,), tuple(cells), baselines or {}, design=design)


def study_of(*tasks: TaskResults) -> Analysis:
    """The analysis of a study of these tasks."""
    return Analysis(
        ExperimentResults("toys", "?", "small", "0.1.0", "", "", tasks), tuple(map(analyse_task, tasks))
    )
