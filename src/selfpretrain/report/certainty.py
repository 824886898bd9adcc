"""How sure a study is: gains, p values corrected for their number, ranks, and the seeds that claims need."""

from collections.abc import Callable
from itertools import chain

import numpy as np

from . import format, statistics, tables
from .analysis import Difference, Place, score_of
from .figures.charts import SEPARATOR
from .ranks import Ranks, rank
from .sheet_load import Part, Sheet
from .sheet_table import by_task
from .tables import Entry, Table

FEWEST_RUNS = 3
"""Of each arm: with fewer, the probability of an improvement says nothing."""
FEWEST_TASKS = 3
"""From which rows are ranked over tasks; with fewer, over the seeds of every task."""


def gains(sheet: Sheet) -> Table:
    """Every contrast of every task, paired by seed, with p values corrected for their number."""
    known = [
        (part, gain) for part in sheet.parts for gain in part.analysis.gains if gain.estimate is not None
    ]
    made = [tables.gains(part.analysis) for part in sheet.parts]
    corrected = _holm([gain for _, gain in known])
    tested = sum(p is not None for p in corrected) > 1
    rows = [
        (Entry(part.label), *row, *([Entry(format.probability(p), key=p)] if tested else []))
        for (part, _), row, p in zip(known, chain.from_iterable(m.rows for m in made), corrected, strict=True)
    ]
    ties = dict.fromkeys(format.tie(part.analysis.study.plan.metric) for part in sheet.parts)
    said = " Holm: corrected for all models and tasks of the same comparison." if tested else ""
    return by_task(
        sheet,
        Table(
            "gains",
            "Differences, paired by seed",
            ("task", *(made[0].headings if made else ()), *(["Holm p"] if tested else [])),
            tuple(rows),
            f"{tables.INTERVALS} Tie: less than {' or '.join(ties)}.{said}",
            words=3,
        ),
    )


def certainty(sheet: Sheet) -> Table:
    """A bootstrap beside Student's t, and how probable an improvement is from run to run."""
    known = _headline(sheet, FEWEST_RUNS)
    rows = [
        (Entry(part.label), Entry(gain.a[0]), *_resampled(part, gain), _improvement([(part, gain)]))
        for part, gain in known
    ]
    for model in dict.fromkeys(gain.a[0] for _, gain in known):
        same = [(part, gain) for part, gain in known if gain.a[0] == model]
        if len(same) == len(sheet.parts) > 1:
            blank = Entry(format.NONE)
            rows.append((Entry("all tasks"), Entry(model), blank, blank, _improvement(same)))
    return by_task(
        sheet,
        Table(
            "certainty",
            f"Student's t, the bootstrap, and the probability of an improvement: {_compared(sheet)}",
            ("task", "model", "Student's t", "bootstrap", "P(improvement)"),
            tuple(rows),
            "95 % intervals of the difference over seeds. The percentile bootstrap over 3 seeds covers 70 %, "
            "not 95 %, over 10 about 91 %: believe Student's t. P(improvement): how often a run of the first "
            "arm beats a run of the second, over all pairs of runs, a tie counting half, averaged over tasks "
            "(Agarwal et al. 2021); its interval is a bootstrap too, "
            "and there is none where one arm wins every pair. "
            f"Models with fewer than {FEWEST_RUNS} seeds are left out.",
            words=2,
        ),
    )


def needed(sheet: Sheet) -> Table:
    """How many seeds it takes to claim the headline differences."""
    known = _headline(sheet, 2)
    one, every = statistics.fewest(), statistics.fewest(max(len(known), 1))
    corrected = f", and {every} if it is the best of {len(known)} corrected by Holm" if len(known) > 1 else ""
    return by_task(
        sheet,
        Table(
            "needed",
            f"How many seeds it takes: {_compared(sheet)}",
            ("task", "model", "seeds", "spread", "difference", "seeds to find it", "to find a tie's width"),
            tuple((Entry(part.label), Entry(gain.a[0]), *_needed(part, gain)) for part, gain in known),
            "With so many seeds, a paired t-test at 5 % finds the difference 80 % of the time, if the spread "
            "(standard deviation between seeds) is the one seen. The difference seen here may be luck, so "
            f"the smallest that is no tie stands beside it. A sign-flip test needs {one} seeds for p < 0.05"
            f"{corrected}. More seeds do not lessen the uncertainty of the test examples.",
            words=2,
        ),
    )


def rankings(sheet: Sheet) -> dict[str, Ranks]:
    """Average ranks of the rows in both columns of the headline, over tasks, or over the seeds of each task.

    Rows that are one model at several settings, ``GROUP · PLACE``, do not compete and are not ranked.
    """
    if not sheet.parts or settings(sheet):
        return {}
    columns = sheet.parts[0].analysis.study.headline
    if len(sheet.parts) >= FEWEST_TASKS:
        found = {f"{column}, over tasks": _over_tasks(sheet, column) for column in columns}
    else:
        found = {
            f"{part.label}: {column}, over seeds": _over_seeds(part, column)
            for part in sheet.parts
            for column in part.analysis.study.headline
        }
    return {title: ranks for title, ranks in found.items() if ranks is not None}


def settings(sheet: Sheet) -> bool:
    """Whether rows are models at several settings, ``GROUP · PLACE``."""
    return any(SEPARATOR in row for part in sheet.parts for row in part.analysis.study.rows)


def ranks(found: dict[str, Ranks]) -> Table:
    """Average ranks with the tests of Friedman and Nemenyi."""
    rows = list(dict.fromkeys(row for ranks in found.values() for row in ranks.rows))
    average = [dict(ranks.sorted) for ranks in found.values()]
    tests: dict[str, Callable[[Ranks], str]] = {
        "tasks or seeds": lambda r: str(r.blocks),
        "Friedman p": lambda r: format.probability(r.p),
        "critical difference": lambda r: f"{r.critical:.2f}",
    }
    lines = [(Entry(row), *(_average(known.get(row)) for known in average)) for row in rows]
    lines += [(Entry(name), *(Entry(test(r)) for r in found.values())) for name, test in tests.items()]
    return Table(
        "ranks",
        "Average ranks",
        ("model", *found),
        tuple(lines) if found else (),
        "1 is the best. Friedman: whether all models are alike. Two models differ at 5 % if their ranks are "
        "further apart than the critical difference (Nemenyi; Demšar 2006). Over seeds, this holds for that "
        "task alone. A verdict on two models depends on which others are compared.",
    )


def _average(rank: float | None) -> Entry:
    return Entry(format.NONE) if rank is None else Entry(f"{rank:.2f}", key=rank)


def _headline(sheet: Sheet, seeds: int) -> list[tuple[Part, Difference]]:
    """The headline difference of every row with so many seeds in both arms."""
    known = [(part, gain) for part in sheet.parts for gain in part.analysis.headline]
    return [(part, gain) for part, gain in known if len(gain.seeds) >= seeds]


def _compared(sheet: Sheet) -> str:
    heads = dict.fromkeys(part.analysis.study.headline for part in sheet.parts)
    return " or ".join(f"{treatment} {format.MINUS} {control}" for treatment, control in heads)


def _holm(found: list[Difference]) -> list[float | None]:
    """Each p corrected for all of the same comparison."""
    corrected: dict[int, float | None] = {}
    for contrast in dict.fromkeys((gain.a[1], gain.b[1]) for gain in found):
        family = [at for at, gain in enumerate(found) if (gain.a[1], gain.b[1]) == contrast]
        corrected |= zip(family, statistics.holm([found[at].p for at in family]), strict=True)
    return [corrected[at] for at in range(len(found))]


def _resampled(part: Part, gain: Difference) -> tuple[Entry, Entry]:
    metric, found = part.analysis.study.plan.metric, statistics.estimate(gain.values)
    bounds = found.seed_bounds, statistics.bootstrap_bounds(gain.values)
    return Entry(format.interval(metric, bounds[0])), Entry(format.interval(metric, bounds[1]))


def _improvement(found: list[tuple[Part, Difference]]) -> Entry:
    tasks = [(_runs(part, gain.a), _runs(part, gain.b)) for part, gain in found]
    mean = float(np.mean([statistics.improvement(ours, theirs) for ours, theirs in tasks]))
    low, high = statistics.improvement_bounds(tasks)
    if low == high:
        return Entry(f"{mean:.2f}, no interval", key=mean)
    return Entry(f"{mean:.2f} [{low:.2f}, {high:.2f}]", key=mean)


def _runs(part: Part, place: Place) -> list[float]:
    return [score_of(cell) for cell in part.analysis.study.at(*place).values()]


def _needed(part: Part, gain: Difference) -> tuple[Entry, ...]:
    metric, spread = part.analysis.study.plan.metric, float(np.std(gain.values, ddof=1))
    mean = float(np.mean(gain.values))
    goals = [statistics.seeds_needed(goal, spread) for goal in (mean, metric.tie)]
    sizes = Entry(format.score(metric, spread)), Entry(format.signed(metric, mean), key=mean)
    return (Entry(str(len(gain.seeds))), *sizes, *map(_seeds, goals))


def _seeds(n: int | None) -> Entry:
    return Entry(f"> {statistics.MOST_SEEDS}") if n is None else Entry(str(n), key=float(n))


def _over_tasks(sheet: Sheet, column: str) -> Ranks | None:
    means = [part.analysis.means for part in sheet.parts]
    rows = [
        row for row in sheet.parts[0].analysis.study.rows if all((row, column) in found for found in means)
    ]
    return rank(rows, np.array([[found[row, column].mean for row in rows] for found in means]))


def _over_seeds(part: Part, column: str) -> Ranks | None:
    study = part.analysis.study
    found = {row: study.at(row, column) for row in study.rows}
    seeds = [seed for seed in next(iter(found.values())) if all(seed in cells for cells in found.values())]
    scores = [[score_of(cells[seed]) for cells in found.values()] for seed in seeds]
    return rank(study.rows, np.array(scores).reshape(len(seeds), len(found)))
