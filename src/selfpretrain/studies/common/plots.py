"""Plots beside the scores of a table: curves over layers, model sizes or fractions of the data."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from statistics import fmean
from typing import Literal

import numpy as np

from ...report.paper_numbers import reported
from ...runner.experiment import Cell, Finished
from ...system.files import Json
from ...tasks.base import Task
from ...training.recipe import Recipe

Points = tuple[Sequence[object], Sequence[float]]
"""x coordinates (numbers or names) and y values of a curve."""
Row = tuple[str, str]
"""Row and column of the table."""


def panel(title: str, x: str, y: str, curves: Mapping[str, Points]) -> Json:
    """Return a plot of labelled curves as JSON, with y rounded to four digits."""
    series = [
        {"label": label, "x": list(xs), "y": [float(f"{value:.4g}") for value in ys]}
        for label, (xs, ys) in curves.items()
    ]
    return {"title": title, "x": x, "y": y, "series": series}


def append_point(curves: dict[str, Points], label: str, x: object, y: float) -> None:
    """Append a point to a curve, creating the curve if needed."""
    xs, ys = curves.get(label, ((), ()))
    curves[label] = (*xs, x), (*ys, y)


def due_runs(finished: Finished, recipe: Recipe, seeds: int) -> list[Recipe]:
    """Return the recipe with seeds 0 to seeds-1, without those that were never due."""
    runs = [replace(recipe, seed=seed) for seed in range(seeds)]
    return [run for run in runs if finished.is_due(run)] or runs


def mean_score(
    finished: Finished, recipe: Recipe, seeds: int, split: Literal["train", "test"] = "test"
) -> float:
    """Return the mean score of a recipe over seeds 0 to seeds-1, as far as they are due, times 100."""
    runs = due_runs(finished, recipe, seeds)
    return 100 * fmean(finished.result(run)["scores"][split]["score"] for run in runs)


def plot_averages(
    cells: Sequence[Cell], tasks: Mapping[str, Task], finished: Finished, paper: str
) -> list[Json]:
    """Return a plot of mean test accuracy over tasks by row and column, with the paper's "Avg.".

    A task that the paper marks as failed or infeasible for a row counts as chance level, as in the paper.

    Args:
        cells: of all seeds.
        tasks: label -> task, the tasks to average over.
        paper: CSV file of its numbers.
    """
    numbers = reported(paper)
    scores: dict[Row, dict[str, list[float]]] = {}
    lines: dict[Row, tuple[str, str]] = {}
    for cell in cells:
        cell_key = cell.row, cell.column
        if cell.label in tasks and finished.is_due(cell.recipe):
            score = float(finished.result(cell.recipe)["scores"]["test"]["score"])
            scores.setdefault(cell_key, {}).setdefault(cell.label, []).append(score)
            lines |= {cell_key: (cell.reported.table, cell.reported.row)} if cell.reported else {}
    means: dict[Row, float] = {}
    for cell_key, by_task in scores.items():
        for label in tasks.keys() - by_task.keys():
            number = numbers.get((*lines[cell_key], label)) if cell_key in lines else None
            if number is not None and number.value is None:
                by_task[label] = [tasks[label].form.target.chance or 0.0]
        if len(by_task) == len(tasks):
            means[cell_key] = 100 * float(np.mean([np.mean(each) for each in by_task.values()]))
    numbers_by_row = {cell_key: numbers.get((*line, "Avg.")) for cell_key, line in lines.items()}
    averages = {
        cell_key: number.value for cell_key, number in numbers_by_row.items() if number and number.value
    }
    curves = _curves_by_column(means, "") | _curves_by_column(averages, ", printed")
    return [panel(f"Average over {len(tasks)} tasks", "", "test accuracy in %", curves)] if curves else []


def _curves_by_column(values: Mapping[Row, float], suffix: str) -> dict[str, Points]:
    curves: dict[str, Points] = {}
    for column in dict.fromkeys(column for _, column in values):
        score_by_row = {row: value for (row, each), value in values.items() if each == column}
        curves[f"{column}{suffix}"] = list(score_by_row), list(score_by_row.values())
    return curves
