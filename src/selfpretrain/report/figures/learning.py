"""Learning curves: pretraining losses and validation scores against the compute spent."""

import math
from collections import defaultdict
from collections.abc import Sequence
from typing import TYPE_CHECKING

from .. import format
from ..results import TaskResults
from ..stage_results import CellResult, StageResult
from .style import (
    Point,
    blank,
    curve_style,
    figure_settings,
    legend_above,
    thin,
    to_svg,
    unzipped,
    wrapped_title,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Curve = dict[int, Point]
"""Points of a curve: step of its stage -> (compute spent before and in the stage, value)."""

POINTS = 4000
"""Largest number of points of all single-seed curves of a task: limits the size of a page."""
POINTS_PER_CURVE = 100
"""Largest number of points of one curve: more cannot be seen at its width."""


def with_curves(task: TaskResults) -> list[str]:
    """Return the rows with validation scores of at least one run."""
    return list(dict.fromkeys(cell.row for cell in task.finished if cell.scored.curve))


def learning_curves(task: TaskResults, rows: Sequence[str], title: str) -> str:
    """Draw the validation scores of rows side by side, with their pretraining losses above.

    The x axis is the compute spent, pretraining included: an arm starts where its pretraining ends.
    """
    shown = [cell for cell in task.finished if cell.row in rows]
    flops = all(cell.flops > 0 for cell in shown)
    losses = any(stage.curve for cell in shown for stage in cell.stages[:-1])
    most = min(POINTS_PER_CURVE, max(8, POINTS // len(task.cells)))
    with figure_settings(f"curves {title} {' '.join(rows)}"):
        figure = blank(4.0 if losses else 3.1)
        heights = [2, 3] if losses else [1]
        grid = figure.subplots(
            len(heights), len(rows), sharex="col", sharey="row", squeeze=False, height_ratios=heights
        )
        for panels, row in zip(grid.T, rows, strict=True):
            for axes in panels:
                axes.patch.set_alpha(0)
                axes.grid(axis="y")
            for arm, column in enumerate(task.columns):
                cells = [cell for cell in shown if (cell.row, cell.column) == (row, column)]
                if losses:
                    _arm(
                        panels[0], [c for cell in cells for c in pretraining(cell, flops)], arm, column, most
                    )
                scores = [finetuning(cell, flops, task.record.metric.factor) for cell in cells]
                _arm(panels[-1], scores, arm, column, most)
            panels[-1].set_xlim(left=0)
            panels[-1].locator_params(axis="x", nbins={1: 6, 2: 4}.get(len(rows), 2))
            if flops:
                panels[-1].xaxis.set_major_formatter(lambda value, _: format.quantity(value))
            if len(rows) > 1:
                panels[0].set_title(wrapped_title(row, len(rows)), loc="left", fontsize=9)
        unit = "compute, pretraining included (FLOP)" if flops else "steps, pretraining included"
        figure.supxlabel(unit, fontsize=9)
        if losses:
            grid[0, 0].set_ylabel("pretraining loss")
        grid[-1, 0].set_ylabel(f"validation {format.unit(task.record.metric)}")
        legend_above(grid[-1, 0], title)
        return to_svg(figure)


def pretraining(cell: CellResult, flops: bool) -> list[Curve]:
    """Return validation loss against compute (or steps) spent, for every stage before the scored one."""
    curves = []
    start = 0.0
    for stage in cell.stages[:-1]:
        spent = _spent(stage, flops)
        per_step = spent / max(stage.steps, 1)
        points = [point for point in stage.curve if math.isfinite(point.loss)]
        curves.append({point.step: (start + point.step * per_step, point.loss) for point in points})
        start += spent
    return curves


def finetuning(cell: CellResult, flops: bool, factor: float) -> Curve:
    """Return validation score, times ``factor``, against compute (or steps) spent, of the scored stage."""
    start = sum(_spent(stage, flops) for stage in cell.stages[:-1])
    per_step = _spent(cell.scored, flops) / max(cell.scored.steps, 1)
    return {p.step: (start + p.step * per_step, p.score * factor) for p in cell.scored.curve}


def _spent(stage: StageResult, flops: bool) -> float:
    return stage.cost.flops if flops else float(stage.steps)


def _arm(axes: "Axes", curves: Sequence[Curve], at: int, label: str, most: int) -> None:
    """Draw a faint curve of at most ``most`` points per seed, and their mean where all seeds have one."""
    from matplotlib.collections import LineCollection

    curves = [curve for curve in curves if curve]
    if not curves:
        return
    style = curve_style(at)
    if len(curves) > 1:
        faint = [thin(list(curve.values()), most) for curve in curves]
        axes.add_collection(LineCollection(faint, colors=style["color"], linewidths=0.7, alpha=0.4))
    points: dict[int, list[Point]] = defaultdict(list)
    for curve in curves:
        for step, point in curve.items():
            points[step].append(point)
    means = [
        (sum(x for x, _ in seeds) / len(seeds), sum(y for _, y in seeds) / len(seeds))
        for _, seeds in sorted(points.items())
        if len(seeds) == len(curves)
    ]
    mean = thin(means, POINTS_PER_CURVE)
    axes.plot(*unzipped(mean), **style, markersize=4, markevery=max(1, len(mean) // 8), label=label)
