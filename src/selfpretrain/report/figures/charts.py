"""Figures of a report: scores, paired gains, measured curves, average ranks, learning curves.

Filled markers are our means, with t-intervals over seeds (95 %, or those of the interim analyses), clipped to
the range of the metric, and a dot per seed. Hollow circles are the paper's numbers, drawn only if the task is
the paper's.
Learning curves are pretraining losses and validation scores against the compute spent.
"""

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from .. import format
from ..analysis import SEPARATOR, Difference, TaskAnalysis, score_of
from ..results import CellResult, Measure, Metric, TaskResults
from ..statistics import CONFIDENCE, Estimate, Ranks, estimate
from .style import (
    BAND,
    COLOURS,
    FAINT,
    INK,
    PAPER,
    SEED,
    Point,
    blank,
    canvas,
    curve_style,
    figure_settings,
    legend_above,
    legend_columns,
    possible,
    thin,
    to_svg,
    unzipped,
    wrapped_title,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

BASELINE: dict[str, Any] = {"color": INK, "linewidth": 0.9, "linestyle": (0, (2, 2))}
"""Line style of the best simple baseline."""
MAX_CONTRASTS = 8
"""Contrasts of a picture of gains above which only those with the control of the first are drawn."""
MAX_LETTERS = 45  # number of letters that fit below an axis in one line
MAX_POINTS = 100  # largest number of points of one learning curve: more cannot be seen at its width
MAX_POINTS_OF_SEEDS = 4000
"""Largest number of points of all single-seed curves of a task: limits the size of a page."""
Curve = dict[int, Point]
"""Points of a curve: step of its stage -> (compute spent before and in the stage, value)."""


@dataclass(frozen=True)
class PanelLine:
    """Scores of one arm (column) at every place of a panel."""

    label: str
    arm: int  # index of the column in the study, which decides the colour
    seeds: tuple[tuple[float, ...], ...]  # per place
    printed: tuple[float | None, ...] = ()  # the paper's numbers; empty without any
    lost: bool = False  # whether a place has no mean because a seed has no finite score
    confidence: float = CONFIDENCE
    limits: tuple[float, float] = (0.0, 100.0)  # smallest and largest possible score

    @cached_property
    def means(self) -> list[tuple[int, float, tuple[float, float] | None]]:
        """Return (place, mean, interval clipped to possible scores) where there are scores."""
        found: list[tuple[int, float, tuple[float, float] | None]] = []
        for place, scores in enumerate(self.seeds):
            if scores:
                mean = estimate(scores, confidence=self.confidence)
                bounds = mean.seed_bounds
                clipped = bounds and (max(bounds[0], self.limits[0]), min(bounds[1], self.limits[1]))
                found.append((place, mean.mean, clipped))
        return found

    @cached_property
    def paper(self) -> list[tuple[int, float]]:
        """Return (place, number of the paper) where there is one."""
        return [(place, value) for place, value in enumerate(self.printed) if value is not None]


@dataclass(frozen=True)
class Panel:
    """The data of one figure: one task and one group of rows."""

    title: str
    unit: str
    places: tuple[str, ...]  # along x, or from top to bottom
    lines: tuple[PanelLine, ...]
    limits: tuple[float, float]  # of the score axis; shared by all groups of a task
    baseline: float | None = None  # score of the best simple baseline


def panels(analysis: TaskAnalysis, grouped: bool, paper: bool = False) -> list[Panel]:
    """Return the panels of a task: one for all rows, or one per group of rows ``GROUP · PLACE``.

    Args:
        grouped: one panel per group.
        paper: include the paper's numbers; only comparable if the paper had this task.
    """
    groups: dict[str, list[str]] = {}
    for row in analysis.task.rows:
        groups.setdefault(row.partition(SEPARATOR)[0] if grouped and SEPARATOR in row else "", []).append(row)
    found = {
        group: [_line(analysis, rows, column, paper) for column in analysis.task.columns]
        for group, rows in groups.items()
    }
    _, simple = analysis.best_baseline
    baseline = simple * analysis.metric.factor if math.isfinite(simple) else None
    limits = score_limits([line for lines in found.values() for line in lines], baseline)
    return [
        Panel(
            f"{analysis.label}{SEPARATOR}{group}" if group else analysis.label,
            format.unit(analysis.metric),
            tuple(row.partition(SEPARATOR)[2] if group else row for row in groups[group]),
            tuple(line for line in lines if line.lost or line.means or line.paper),
            limits,
            baseline,
        )
        for group, lines in found.items()
    ]


def _line(analysis: TaskAnalysis, rows: Sequence[str], column: str, paper: bool) -> PanelLine:
    metric, task = analysis.metric, analysis.task
    printed = [task.reported(row, column) for row in rows if paper]
    lost = any(task.undefined(row, column) for row in rows)
    return PanelLine(
        f"{column} (no finite score)" if lost else column,
        task.columns.index(column),
        tuple(tuple(score_of(c) * metric.factor for c in task.at(row, column).values()) for row in rows),
        tuple(None if number is None else number.in_unit(metric.unit) for number in printed),
        lost,
        task.confidence,
        possible(metric),
    )


def score_limits(lines: Sequence[PanelLine], baseline: float | None = None) -> tuple[float, float]:
    """Return the range of all scores, intervals, printed numbers and the baseline, with a margin."""
    ends = [] if baseline is None else [baseline]
    for line in lines:
        ends += [value for _, value in line.paper]
        ends += [end for *_, interval in line.means for end in interval or ()]
        ends += [score for scores in line.seeds for score in scores]
    low = min(ends, default=0.0)
    high = max(ends, default=1.0)
    margin = 0.06 * (high - low) or 1.0
    return low - margin, high + margin


def _apart(names: Sequence[str]) -> list[str]:
    """Break tick labels into one word per line if they would overlap."""
    wide = len(" ".join(names)) > MAX_LETTERS
    return [name.replace(" ", "\n") for name in names] if wide else list(names)


def lines(panel: Panel) -> str:
    """Draw score against evenly spaced places, a line and an interval band per arm, and return the SVG."""
    with figure_settings(f"lines {panel.title}"):
        figure, axes = canvas(3.1)
        axes.grid(axis="y")
        for line in panel.lines:
            xs = [place for place, _, _ in line.means]
            low, high = unzipped(interval or (mean, mean) for _, mean, interval in line.means)
            style = curve_style(line.arm)
            axes.fill_between(xs, low, high, color=style["color"], alpha=0.16, linewidth=0)
            axes.plot(xs, [mean for _, mean, _ in line.means], **style, markersize=5, label=line.label)
            for points, marker in _single(line):
                axes.plot(*unzipped(points), **marker)
        if panel.baseline is not None:
            axes.axhline(panel.baseline, **BASELINE, zorder=1)
        axes.set_xticks(range(len(panel.places)), _apart(panel.places))
        axes.set_xlim(-0.3, len(panel.places) - 0.7)
        axes.set_ylim(*panel.limits)
        axes.set_ylabel(f"test {panel.unit}")
        _legend(axes, panel)
        return to_svg(figure)


def points(panel: Panel) -> str:
    """Draw mean, interval and a dot per seed for every row and arm, and return the SVG."""
    with figure_settings(f"points {panel.title}"):
        arms = len(panel.lines)
        figure, axes = canvas(1.3 + 0.08 * arms + _height(panel.places, 0.22 + 0.19 * arms))
        _rows_on_y(axes, panel.places)
        for at, line in enumerate(panel.lines):
            shift = 0.82 * ((at + 0.5) / arms - 0.5)
            style = curve_style(line.arm) | {"linestyle": ""}
            ys = [place + shift for place, _, _ in line.means]
            xs = [mean for _, mean, _ in line.means]
            axes.plot(xs, ys, **style, markersize=5.5, label=line.label, zorder=3)
            for y, (_, _, interval) in zip(ys, line.means, strict=True):
                axes.plot(interval or (), [y] * len(interval or ()), color=style["color"], linewidth=1.6)
            for places, marker in _single(line, shift, 0.3 / arms):
                axes.plot(*unzipped(places)[::-1], **marker)
        for between in range(len(panel.places) - 1):
            axes.axhline(between + 0.5, color=FAINT, linewidth=0.6)
        if panel.baseline is not None:
            axes.axvline(panel.baseline, **BASELINE, zorder=1)
        axes.set_xlim(*panel.limits)
        axes.set_xlabel(f"test {panel.unit}")
        _legend(axes, panel)
        return to_svg(figure)


def _single(
    line: PanelLine, shift: float = 0.0, below: float = 0.0
) -> list[tuple[list[Point], dict[str, Any]]]:
    """Return (place, score) and marker of the seeds, aside of the mean, and of the paper's numbers."""
    colour = {"color": curve_style(line.arm)["color"]}
    seeds = [(at + shift + below, score) for at, scores in enumerate(line.seeds) for score in scores]
    paper = [(at + shift, value) for at, value in line.paper]
    return [(seeds, SEED | colour), (paper, PAPER | colour)]


def _legend(axes: "Axes", panel: Panel) -> None:
    """Write the title and the legend above the axes."""
    from matplotlib.lines import Line2D

    more = []
    if any(len(scores) > 1 for line in panel.lines for scores in line.seeds):
        more.append(Line2D([], [], **SEED, color=INK, label="one seed"))
    if panel.baseline is not None:
        more.append(Line2D([], [], **BASELINE, label="baseline"))
    if any(line.paper for line in panel.lines):
        more.append(Line2D([], [], **PAPER, color=INK, label="paper"))
    legend_above(axes, panel.title, more)


def _height(rows: Sequence[str], height: float) -> float:
    """Return the inches for all rows of a chart: closer together where there are many."""
    return len(rows) * height * (0.6 if len(rows) > 16 else 1.0)


def _rows_on_y(axes: "Axes", rows: Sequence[str]) -> None:
    """Write the names of rows along y, from top to bottom."""
    axes.grid(axis="x", zorder=0)
    axes.set_axisbelow(True)
    axes.set_yticks(range(len(rows)), rows)
    axes.set_ylim(len(rows) - 0.5, -0.5)


@dataclass(frozen=True)
class GainPanel:
    """The data of one figure of differences."""

    title: str
    metric: Metric
    places: tuple[str, ...]  # from top to bottom
    lines: tuple[tuple[str, int, tuple[Difference, ...]], ...]  # label, colour, a difference per place
    dot: str = "one seed"  # what one value of a difference is of


def gain_panel(analysis: TaskAnalysis, title: str = "") -> GainPanel:
    """Return the paired gains of a task: per row, and a line per contrast."""
    rows, every = analysis.task.rows, analysis.task.contrasts
    contrasts = [c for c in every if len(every) <= MAX_CONTRASTS or c[1] == every[0][1]]
    colours = contrast_colours(analysis.task.columns, contrasts)
    firsts = [every.index(contrast) * len(rows) for contrast in contrasts]  # all rows of each, one by one
    lines = [
        (f" {format.MINUS} ".join(contrast), colour, analysis.gains[first : first + len(rows)])
        for contrast, colour, first in zip(contrasts, colours, firsts, strict=True)
    ]
    return GainPanel(title, analysis.metric, tuple(rows), tuple(lines))


def gain_plot(panel: GainPanel) -> str:
    """Draw differences per place and line with their intervals, a dot per value, and the tie band."""
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    metric, count = panel.metric, len(panel.lines)
    with figure_settings(f"gain {panel.title}"):
        legend_rows = -(-(count + 2) // legend_columns([*(label for label, *_ in panel.lines), panel.dot]))
        figure, axes = canvas(1.1 + 0.2 * legend_rows + _height(panel.places, 0.24 * count + 0.22))
        _rows_on_y(axes, panel.places)
        tie = metric.tie * metric.factor
        axes.axvspan(-tie, tie, color=BAND, linewidth=0, zorder=0)
        axes.axvline(0, color=INK, linewidth=0.8, zorder=1)
        below = 0.09 if count <= MAX_CONTRASTS else 0.3 / count
        handles = []
        for at, (label, colour, gains) in enumerate(panel.lines):
            style = curve_style(colour)
            handles.append(Line2D([], [], **style | {"linestyle": "-"}, label=label))
            for place, found in enumerate(gains):
                height = place + (at - (count - 1) / 2) * 0.6 / count
                if found.estimate is not None:
                    dots = [value * metric.factor for value in found.values]
                    axes.plot(dots, [height + below] * len(dots), **SEED, color=style["color"])
                    _gain(axes, found.estimate, height, style, metric)
        axes.locator_params(axis="x", nbins=6)
        unit = f"{format.name(metric)} (points)" if metric.unit == "%" else format.unit(metric)
        axes.set_xlabel(f"difference in test {unit}")
        more = [Line2D([], [], **SEED, color=INK, label=panel.dot), Patch(color=BAND, label="tie")]
        legend_above(axes, panel.title, [*handles, *more])
        return to_svg(figure)


def contrast_colours(columns: Sequence[str], contrasts: Sequence[tuple[str, str]]) -> list[int]:
    """Return a colour per contrast: that of its control or its treatment, if distinct; else its place."""
    for arms in ([control for _, control in contrasts], [treatment for treatment, _ in contrasts]):
        if len(set(arms)) == len(arms):
            return list(map(columns.index, arms))
    return list(range(len(contrasts)))


def _gain(axes: "Axes", found: Estimate, height: float, style: dict[str, Any], metric: Metric) -> None:
    """Draw a mean difference with its interval; hollow where there is no interval."""
    colour, mean = style["color"], found.mean * metric.factor
    if found.half is not None:
        low, high = possible(metric)
        half = found.half * metric.factor
        ends = [max(mean - half, low - high), min(mean + half, high - low)]
        axes.plot(ends, [height] * 2, color=colour, linewidth=1.8)
    filled = "none" if found.half is None else colour
    axes.plot([mean], [height], marker=style["marker"], markersize=6, color=colour, markerfacecolor=filled)


def rank_plot(ranks: Ranks, title: str) -> str:
    """Draw average ranks, and bars along rows that do not differ significantly, and return the SVG."""
    with figure_settings(f"ranks {title}"):
        names = [row for row, _ in ranks.sorted]
        figure, axes = canvas(1.2 + _height(names, 0.26))
        _rows_on_y(axes, names)
        axes.plot([rank for _, rank in ranks.sorted], range(len(names)), **curve_style(0) | {"linestyle": ""})
        apart = len(names) * min(0.03, 0.2 / max(len(ranks.groups), 1))  # bars take a fifth at most
        for at, (low, high) in enumerate(ranks.groups, 1):
            x = len(names) + 0.3 + apart * at
            axes.plot([x, x], [low - 0.25, high + 0.25], color=COLOURS[1], linewidth=1.8)
        axes.locator_params(axis="x", nbins=6, integer=True)
        figure.supxlabel(f"average rank; critical difference {ranks.critical:.2f}", fontsize=9)
        legend_above(axes, title)
        return to_svg(figure)


def curves(measure: Measure) -> str:
    """Draw the measured curves, one per series, and return the SVG."""
    xs = [x for series in measure.series for x in series.x]
    names = list(dict.fromkeys(map(str, xs))) if any(isinstance(x, str) for x in xs) else []
    with figure_settings(f"curves {measure.title}"):
        figure, axes = canvas(2.9)
        axes.grid(axis="y")
        for at, series in enumerate(measure.series):
            aside = 0.1 * (at - (len(measure.series) - 1) / 2)  # keeps equal values apart
            places = [names.index(str(x)) + aside if names else float(x) for x in series.x]
            points = thin(list(zip(places, series.y, strict=True)), 4 * MAX_POINTS)
            every = max(1, len(points) // 12)
            style = curve_style(at) | ({"linestyle": ""} if names else {})  # categories are not connected
            axes.plot(*unzipped(points), **style, markersize=4, markevery=every, label=series.label)
        if names:
            axes.set_xticks(range(len(names)), _apart(names))
            axes.set_ylim(bottom=0.0 if all(y >= 0 for s in measure.series for y in s.y) else None)
        else:
            axes.locator_params(axis="x", integer=all(float(x).is_integer() for x in xs))
        axes.set_xlabel(measure.x)
        axes.set_ylabel(measure.y)
        legend_above(axes, measure.title)
        return to_svg(figure)


def learning_curves(task: TaskResults, rows: Sequence[str], title: str) -> str:
    """Draw the validation scores of rows side by side, with their pretraining losses above.

    The x axis is the compute spent, pretraining included: an arm starts where its pretraining ends.
    """
    shown = [cell for cell in task.finished if cell.row in rows]
    flops = all(cell.flops > 0 for cell in shown)
    losses = any(stage.curve for cell in shown for stage in cell.stages[:-1])
    most = min(MAX_POINTS, max(8, MAX_POINTS_OF_SEEDS // len(task.cells)))
    with figure_settings(f"curves {title} {' '.join(rows)}"):
        figure = blank(4.0 if losses else 3.1)
        heights = [2, 3] if losses else [1]
        shape: Any = {"sharex": "col", "sharey": "row", "squeeze": False, "height_ratios": heights}
        grid = figure.subplots(len(heights), len(rows), **shape)
        for axes in grid.flat:
            axes.patch.set_visible(False)
            axes.grid(axis="y")
        for panels, row in zip(grid.T, rows, strict=True):
            for arm, column in enumerate(task.columns):
                cells = [cell for cell in shown if (cell.row, cell.column) == (row, column)]
                before = [curve for cell in cells for curve in pretraining(cell, flops)]
                if losses:
                    _arm(panels[0], before, arm, column, most)
                scores = [finetuning(cell, flops, task.metric.factor) for cell in cells]
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
        grid[-1, 0].set_ylabel(f"validation {format.unit(task.metric)}")
        legend_above(grid[-1, 0], title)
        return to_svg(figure)


def pretraining(cell: CellResult, flops: bool) -> list[Curve]:
    """Return validation loss against compute (or steps) spent, for every stage before the scored one."""
    losses = [[(p.step, p.loss) for p in stage.curve if math.isfinite(p.loss)] for stage in cell.stages]
    return [_against_cost(cell, at, flops, losses[at]) for at in range(len(cell.stages) - 1)]


def finetuning(cell: CellResult, flops: bool, factor: float) -> Curve:
    """Return validation score, times ``factor``, against compute (or steps) spent, of the scored stage."""
    scores = [(p.step, p.score * factor) for p in cell.scored.curve]
    return _against_cost(cell, len(cell.stages) - 1, flops, scores)


def _against_cost(cell: CellResult, at: int, flops: bool, values: Sequence[tuple[int, float]]) -> Curve:
    """Return values by step of a stage, beside the compute (or steps) spent until then."""
    spent = [stage.cost.flops if flops else float(stage.steps) for stage in cell.stages[: at + 1]]
    start, per_step = sum(spent[:-1]), spent[-1] / max(cell.stages[at].steps, 1)
    return {step: (start + step * per_step, value) for step, value in values}


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
    mean = thin(means, MAX_POINTS)
    axes.plot(*unzipped(mean), **style, markersize=4, markevery=max(1, len(mean) // 8), label=label)
