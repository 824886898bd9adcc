"""Figures of a report: scores, paired gains, measured curves, critical-difference diagrams, learning curves.

Filled markers are our means, with 95 % t-intervals over seeds, clipped to the range of the metric, and a dot
per seed. Hollow circles are the paper's numbers, drawn only if the task is the paper's.
Learning curves are pretraining losses and validation scores against the compute spent.
"""

import math
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from .. import format
from ..analysis import SEPARATOR, Difference, TaskAnalysis, score_of
from ..manifest import Measure, Metric
from ..results import TaskResults
from ..stage_results import CellResult, StageResult
from ..statistics import Estimate, Ranks
from .style import (
    BAND,
    COLOURS,
    FAINT,
    INK,
    LOOK,
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
    wrapped,
    wrapped_title,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

BASELINE: dict[str, Any] = {"color": INK, "linewidth": 0.9, "linestyle": (0, (2, 2))}
"""Line style of the best simple baseline."""
POINTS = 400
"""Largest number of points drawn per measured curve."""
MANY_ROWS = 16
"""Rows of a chart above which they are drawn closer together."""
MOST_CONTRASTS = 8
"""Contrasts of a picture of gains above which not all are drawn."""
CLOSER = 0.6
"""Height of such a row, as a share of the usual one."""
RANK = 0.17
"""Width of a rank in a critical-difference diagram whose names need a wider figure, in inches."""
ACROSS = 45
"""Number of letters that fit below an axis in one line."""
Curve = dict[int, Point]
"""Points of a curve: step of its stage -> (compute spent before and in the stage, value)."""

CURVE_POINTS = 4000
"""Largest number of points of all single-seed curves of a task: limits the size of a page."""
POINTS_PER_CURVE = 100
"""Largest number of points of one curve: more cannot be seen at its width."""


@dataclass(frozen=True)
class PanelLine:
    """Scores of one arm (column) at every place of a panel; None where there is no score."""

    label: str
    arm: int  # index of the column in the study, which decides the colour
    means: tuple[float | None, ...]
    intervals: tuple[tuple[float, float] | None, ...]  # 95 % t-intervals over seeds, clipped
    printed: tuple[float | None, ...]  # the paper's numbers
    seeds: tuple[tuple[float, ...], ...]  # scores of the seeds, per place
    lost: bool = False  # whether a place has no mean because a seed has no finite score


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
            tuple(
                line
                for line in lines
                if line.lost or any(value is not None for value in line.means + line.printed)
            ),
            limits,
            baseline,
        )
        for group, lines in found.items()
    ]


def _apart(names: Sequence[str]) -> list[str]:
    """Break tick labels into one word per line if they would overlap."""
    return [name.replace(" ", "\n") for name in names] if len(" ".join(names)) > ACROSS else list(names)


def lines(panel: Panel) -> str:
    """Draw score against evenly spaced places, a line and an interval band per arm, and return the SVG."""
    with figure_settings(f"lines {panel.title}"):
        figure, axes = canvas(3.1)
        axes.grid(axis="y")
        _baseline(axes.axhline, panel)
        for line in panel.lines:
            _curve(axes, line)
        axes.set_xticks(range(len(panel.places)), _apart(panel.places))
        axes.set_xlim(-0.3, len(panel.places) - 0.7)
        axes.set_ylim(*panel.limits)
        axes.set_ylabel(f"test {panel.unit}")
        _legend(axes, panel)
        return to_svg(figure)


def points(panel: Panel) -> str:
    """Draw mean, 95 % interval and a dot per seed for every row and arm, and return the SVG."""
    with figure_settings(f"points {panel.title}"):
        arms = len(panel.lines)
        figure, axes = canvas(1.3 + 0.08 * arms + _rows_height(len(panel.places), 0.22 + 0.19 * arms))
        axes.grid(axis="x")
        axes.set_axisbelow(True)
        _baseline(axes.axvline, panel)
        for at, line in enumerate(panel.lines):
            heights = [place + 0.82 * ((at + 0.5) / arms - 0.5) for place in range(len(panel.places))]
            _points(axes, line, heights, 0.3 / arms)
        for between in range(len(panel.places) - 1):
            axes.axhline(between + 0.5, color=FAINT, linewidth=0.6)
        axes.set_xlim(*panel.limits)
        axes.set_yticks(range(len(panel.places)), panel.places)
        axes.set_ylim(len(panel.places) - 0.5, -0.5)
        axes.set_xlabel(f"test {panel.unit}")
        _legend(axes, panel)
        return to_svg(figure)


def _rows_height(rows: int, height: float) -> float:
    """Return the inches for all rows of a chart: closer together where there are many."""
    return rows * height * (CLOSER if rows > MANY_ROWS else 1.0)


def gain_plot(analysis: TaskAnalysis, title: str = "") -> str:
    """Draw paired gains per row and contrast with combined intervals, dots per seed and the tie band.

    Of more than ``MOST_CONTRASTS`` those with the control of the first are drawn.
    """
    rows = analysis.task.rows
    every = analysis.task.record.contrasts
    contrasts = [c for c in every if len(every) <= MOST_CONTRASTS or c[1] == every[0][1]]
    metric = analysis.metric
    with figure_settings(f"gain {title}"):
        arms = _contrast_arms(analysis.task.columns, contrasts)
        labels = [f" {format.MINUS} ".join(contrast) for contrast in contrasts]
        columns = min(2, legend_columns([*labels, "one seed"], rows))
        if columns == 1:
            labels = [wrapped(label, rows) for label in labels]
        lines = -(-(sum(1 + label.count("\n") for label in labels) + 2) // columns)
        inches = _rows_height(len(rows), 0.24 * len(contrasts) + 0.22)
        figure, axes = canvas(1.05 + 0.2 * lines + inches + 0.25 * bool(title))
        tie = metric.tie * metric.factor
        axes.axvspan(-tie, tie, color=BAND, linewidth=0, zorder=0)
        axes.axvline(0, color=INK, linewidth=0.8, zorder=1)
        axes.grid(axis="x", zorder=0)
        axes.set_axisbelow(True)
        below = 0.09 if len(contrasts) == len(every) else 0.3 / len(contrasts)
        for place, contrast in enumerate(contrasts):
            first = every.index(contrast) * len(rows)
            for row, found in enumerate(analysis.gains[first : first + len(rows)]):
                height = row + (place - (len(contrasts) - 1) / 2) * 0.6 / len(contrasts)
                _gain(axes, found, height, below, curve_style(arms[place]), metric)
        axes.locator_params(axis="x", nbins=6)
        axes.set_yticks(range(len(rows)), rows)
        axes.set_ylim(len(rows) - 0.5, -0.5)
        unit = f"{format.name(metric)} (points)" if metric.unit == "%" else format.unit(metric)
        axes.set_xlabel(f"difference in test {unit}")
        _legend_of_gains(axes, dict(zip(labels, arms, strict=True)), columns)
        axes.set_title(title, loc="left", fontsize=10, fontweight="bold", pad=7 + 12.5 * lines)
        return to_svg(figure)


def _legend_of_gains(axes: Any, arms: Mapping[str, int], columns: int) -> None:
    """Put a legend above the axes: a line per contrast, a dot of a seed, the tie band."""
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    handles: list[Any] = [
        Line2D([], [], **curve_style(arm) | {"linestyle": "-", "linewidth": None}, label=label)
        for label, arm in arms.items()
    ]
    handles += [Line2D([], [], **SEED, color=INK, label="one seed"), Patch(color=BAND, label="tie")]
    axes.legend(handles=handles, loc="lower left", bbox_to_anchor=(0, 1.0), ncols=columns, borderaxespad=0.2)


def _contrast_arms(columns: Sequence[str], contrasts: Sequence[tuple[str, str]]) -> list[int]:
    """Return an arm per contrast, for its colour: its control, or its treatment, if these are distinct."""
    for arms in ([control for _, control in contrasts], [treatment for treatment, _ in contrasts]):
        if len(set(arms)) == len(arms):
            return [columns.index(arm) for arm in arms]
    return list(range(len(contrasts)))


def _gain(
    axes: "Axes", found: Difference, height: float, below: float, style: dict[str, Any], metric: Metric
) -> None:
    """Draw a mean difference with its interval, and its seeds a little below."""
    if found.estimate is None:
        return
    colour = style["color"]
    mean = found.estimate.mean * metric.factor
    half = found.estimate.half
    if half is not None:
        low, high = possible(metric)
        ends = [max(mean - half * metric.factor, low - high), min(mean + half * metric.factor, high - low)]
        axes.plot(ends, [height] * 2, color=colour, linewidth=1.8)
    dots = [value * metric.factor for value in found.values]
    axes.plot(dots, [height + below] * len(dots), **SEED, color=colour)
    filled = colour if half is not None else "none"  # hollow: no interval
    axes.plot([mean], [height], marker=style["marker"], markersize=6, color=colour, markerfacecolor=filled)


def curves(measure: Measure) -> str:
    """Draw the measured curves, one per series, and return the SVG."""
    with figure_settings(f"curves {measure.title}"):
        figure, axes = canvas(2.9)
        axes.grid(axis="y")
        names = _names(measure)
        for at, series in enumerate(measure.series):
            aside = 0.1 * (at - (len(measure.series) - 1) / 2)  # keeps equal values apart
            xs = [names.index(str(x)) + aside if names else float(x) for x in series.x]
            points = thin(list(zip(xs, series.y, strict=True)), POINTS)
            every = max(1, len(points) // 12)
            style = curve_style(at) | ({"linestyle": ""} if names else {})  # categories are not connected
            axes.plot(*unzipped(points), **style, markersize=4, markevery=every, label=series.label)
        if names:
            axes.set_xticks(range(len(names)), _apart(names))
            axes.set_ylim(bottom=0.0 if all(y >= 0 for s in measure.series for y in s.y) else None)
        else:
            axes.locator_params(
                axis="x", integer=all(float(x).is_integer() for s in measure.series for x in s.x)
            )
        axes.set_xlabel(measure.x)
        axes.set_ylabel(measure.y)
        legend_above(axes, measure.title)
        return to_svg(figure)


def ladder(ranks: Ranks, title: str) -> str:
    """Draw a critical-difference diagram, bars joining rows not significantly different; return the SVG."""
    k = len(ranks.rows)
    half = (k + 1) // 2
    with figure_settings(f"ranks {title}"):
        top = 0.75
        first = 0.45 + 0.14 * len(ranks.groups)
        words = [f"{row}  {rank:.2f}" for row, rank in ranks.sorted[:half]]
        words += [f"{rank:.2f}  {row}" for row, rank in ranks.sorted[half:]]
        look = LOOK.get()
        sides = [1.1 * look.letter / 72 * max(map(len, side)) for side in (words[:half], words[half:])]
        needed = sum(sides) + max(1.0, RANK * k)
        fits = needed < look.width  # then the layout makes room for the names
        width = look.width if fits else needed
        figure, axes = canvas(0.75 + 0.22 * (half + 3) + 0.05 * len(ranks.groups), width)
        if not fits:
            per_rank = (width - sum(sides)) / (1.12 * k - 1)  # inches
            axes.set_xlim(1 - 0.06 * k - sides[0] / per_rank, 1.06 * k + sides[1] / per_rank)
        axes.set_axis_off()
        axes.plot([1, k], [0, 0], color=INK, linewidth=0.9)
        for place in range(1, k + 1):
            axes.plot([place] * 2, [0, 0.1], color=INK, linewidth=0.9)
            axes.text(place, 0.16, str(place), ha="center", va="bottom", fontsize=8)
        axes.plot([1, 1 + ranks.critical], [top, top], color=INK, linewidth=1.8)
        axes.text(1, top + 0.08, f"critical difference {ranks.critical:.2f}", va="bottom", fontsize=8)
        for at, (_, rank) in enumerate(ranks.sorted):
            left = at < half
            depth = -(first + 0.36 * (at if left else k - 1 - at))
            edge = 1 - 0.04 * k if left else k + 0.04 * k
            axes.plot([rank, rank, edge], [0, depth, depth], color=COLOURS[0], linewidth=0.9)
            gap = -0.02 * k if left else 0.02 * k
            axes.text(edge + gap, depth, words[at], ha="right" if left else "left", va="center")
        for at, (low, high) in enumerate(ranks.groups):
            ends = ranks.sorted[low][1] - 0.02 * k, ranks.sorted[high][1] + 0.02 * k
            axes.plot(ends, [-0.18 - 0.14 * at] * 2, color=COLOURS[1], linewidth=3, solid_capstyle="butt")
        axes.set_ylim(-(first + 0.36 * half), top + 0.4)
        axes.set_title(title, loc="left", fontsize=10, fontweight="bold")
        return to_svg(figure)


def _names(measure: Measure) -> list[str]:
    """Return the categories along x; empty if x is numeric."""
    xs = [x for series in measure.series for x in series.x]
    return list(dict.fromkeys(map(str, xs))) if any(isinstance(x, str) for x in xs) else []


def _line(analysis: TaskAnalysis, rows: Sequence[str], column: str, paper: bool) -> PanelLine:
    metric = analysis.metric
    found = [analysis.means.get((row, column)) for row in rows]
    printed = [analysis.task.printed(row, column) if paper else None for row in rows]
    lost = any(analysis.task.undefined(row, column) for row in rows)
    return PanelLine(
        f"{column} (no finite score)" if lost else column,
        analysis.task.columns.index(column),
        tuple(None if f is None else f.mean * metric.factor for f in found),
        tuple(None if f is None or f.over_seeds is None else _interval(f, metric) for f in found),
        tuple(None if number is None else number.within(metric.unit) for number in printed),
        tuple(
            tuple(score_of(cell) * metric.factor for cell in analysis.task.at(row, column).values())
            for row in rows
        ),
        lost,
    )


def _interval(found: Estimate, metric: Metric) -> tuple[float, float]:
    worst, best = possible(metric)
    half = found.over_seeds or 0.0
    return max(metric.factor * (found.mean - half), worst), min(metric.factor * (found.mean + half), best)


def score_limits(lines: Sequence[PanelLine], baseline: float | None = None) -> tuple[float, float]:
    """Return the range of all scores, intervals, printed numbers and the baseline, with a margin."""
    ends = [] if baseline is None else [baseline]
    for line in lines:
        ends += [value for value in (*line.printed, *line.means) if value is not None]
        ends += [end for interval in line.intervals if interval for end in interval]
        ends += [score for scores in line.seeds for score in scores]
    low = min(ends, default=0.0)
    high = max(ends, default=1.0)
    margin = 0.06 * (high - low) or 1.0
    return low - margin, high + margin


def _baseline(draw: Callable[..., Any], panel: Panel) -> None:
    """Draw the score of the best simple baseline as a line across the axes."""
    if panel.baseline is not None:
        draw(panel.baseline, **BASELINE, zorder=1)


def _curve(axes: "Axes", line: PanelLine) -> None:
    places = enumerate(zip(line.means, line.intervals, strict=True))
    known = [(x, mean, interval or (mean, mean)) for x, (mean, interval) in places if mean is not None]
    xs = [x for x, _, _ in known]
    means = [mean for _, mean, _ in known]
    low, high = zip(*(ends for _, _, ends in known), strict=True) if known else ((), ())
    axes.fill_between(xs, low, high, color=COLOURS[line.arm % len(COLOURS)], alpha=0.16, linewidth=0)
    axes.plot(xs, means, **curve_style(line.arm), markersize=5, label=line.label)
    dots = [(float(x), score) for x, scores in enumerate(line.seeds) for score in scores if len(scores) > 1]
    axes.plot(*unzipped(dots), **SEED, color=COLOURS[line.arm % len(COLOURS)])
    hollow = [(float(x), value) for x, value in enumerate(line.printed) if value is not None]
    axes.plot(*unzipped(hollow), **curve_style(line.arm) | PAPER, markersize=7)


def _points(axes: "Axes", line: PanelLine, heights: Sequence[float], below: float) -> None:
    """Draw one arm at the height of every row: mean and interval, and the seeds slightly below."""
    style = curve_style(line.arm)
    known = [(mean, height) for mean, height in zip(line.means, heights, strict=True) if mean is not None]
    axes.plot(*unzipped(known), **style | {"linestyle": ""}, markersize=5.5, label=line.label, zorder=3)
    for height, interval in zip(heights, line.intervals, strict=True):
        if interval:
            axes.plot(interval, [height] * 2, color=style["color"], linewidth=1.6, zorder=2)
    dots = [
        (score, height + below)
        for height, scores in zip(heights, line.seeds, strict=True)
        for score in scores
    ]
    axes.plot(*unzipped(dots), **SEED, color=style["color"])
    hollow = [
        (value, height) for value, height in zip(line.printed, heights, strict=True) if value is not None
    ]
    axes.plot(*unzipped(hollow), **PAPER, color=INK, markersize=6, zorder=4)


def _legend(axes: "Axes", panel: Panel) -> None:
    """Write the title and the legend above the axes."""
    from matplotlib.lines import Line2D

    more = []
    if any(len(scores) > 1 for line in panel.lines for scores in line.seeds):
        more.append(Line2D([], [], **SEED, color=INK, label="one seed"))
    if panel.baseline is not None:
        more.append(Line2D([], [], **BASELINE, label="baseline"))
    if any(value is not None for line in panel.lines for value in line.printed):
        more.append(Line2D([], [], **PAPER, color=INK, label="paper"))
    legend_above(axes, panel.title, more)


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
    most = min(POINTS_PER_CURVE, max(8, CURVE_POINTS // len(task.cells)))
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
