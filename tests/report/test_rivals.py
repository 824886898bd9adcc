"""How much of a gap further arms close, and whether the order of the models is the same in two arms."""

from dataclasses import replace

import numpy as np
import pytest
from report.test_verdict import analysis
from scipy import stats

from selfpretrain.report import diagnostics
from selfpretrain.report.format import MINUS, NONE
from selfpretrain.report.statistics import rank_correlation, ratio_bounds
from task_results import MATCHED, SPT, study_of

ARMS = ("near", "joint", "pooling")
BASE = [0.50, 0.51, 0.49, 0.50, 0.52]


def study(scores, contrasts=None):
    """One task with these scores per seed, by (row, column); every further arm is compared with both."""
    task = analysis(scores).task
    further = {column for _, column in scores} - {SPT, MATCHED}
    pairs = contrasts or ((SPT, MATCHED), *((arm, to) for arm in sorted(further) for to in (MATCHED, SPT)))
    return study_of(replace(task, contrasts=pairs))


def above(gains):
    return [base + gain for base, gain in zip(BASE, gains, strict=True)]


def texts(table):
    return {row[1].text: [entry.text for entry in row[2:]] for row in table.rows}


WHOLE = [0.20, 0.21, 0.19, 0.22, 0.18]


def test_shares_of_a_gap():
    scores = {("a", MATCHED): BASE, ("a", SPT): above(WHOLE)}
    parts = {"near": [x / 2 for x in WHOLE], "joint": [0.0] * 5, "pooling": [-0.02, 0.01, 0.0, -0.03, -0.06]}
    found = texts(diagnostics.gaps(study(scores | {("a", arm): above(gain) for arm, gain in parts.items()})))
    assert set(found) == set(ARMS)
    assert tuple(found["near"][1:]) == ("50 %", "[50 %, 50 %]", "1.00")  # proportional: the ratio is exact
    assert found["joint"][1:3] == ["0 %", "[0 %, 0 %]"]
    assert found["pooling"][1] == f"{MINUS}10 %"
    low, high = (float(x.replace(MINUS, "-").strip("[] %")) for x in found["pooling"][2].split(","))
    assert low < -10 < high


def test_no_share_of_a_gap_that_is_not_clear():
    scores = {("a", MATCHED): BASE, ("a", SPT): above([0.2, -0.2, 0.1, 0.3, -0.1])}
    found = texts(diagnostics.gaps(study(scores | {("a", arm): above([0.1] * 5) for arm in ARMS})))
    assert all(line[1:3] == [NONE, NONE] for line in found.values()) and len(found) == 3


def test_arms_that_are_not_compared_with_both_sides_are_no_rivals():
    scores = {("a", MATCHED): BASE, ("a", SPT): above(WHOLE)} | {("a", arm): BASE for arm in ARMS}
    contrasts = ((SPT, MATCHED), *((SPT, arm) for arm in ARMS))
    assert not diagnostics.gaps(study(scores, contrasts)).rows
    few = {place: values for place, values in scores.items() if place[1] != "near"}
    assert not diagnostics.gaps(study(few)).rows


def test_missing_arms_are_left_out():
    scores = {("a", MATCHED): BASE, ("a", SPT): above(WHOLE), ("a", "near"): [None] * 5}
    scores |= {("a", arm): above([0.1] * 5) for arm in ("joint", "pooling")}
    assert set(texts(diagnostics.gaps(study(scores)))) == {"joint", "pooling"}


def test_fiellers_interval_covers_95_percent():
    random = np.random.default_rng(0)
    whole = random.normal(0.2, 0.03, size=(3000, 5))
    parts = 0.4 * whole + random.normal(0.0, 0.03, size=whole.shape)
    found = [ratio_bounds(a, b) for a, b in zip(parts, whole, strict=True)]
    assert all(found)
    assert np.mean([low <= 0.4 <= high for low, high in found]) == pytest.approx(0.95, abs=0.015)


def test_fiellers_bounds_are_where_the_test_turns():
    parts = [0.11, 0.08, 0.15, 0.02]
    whole = [0.21, 0.19, 0.24, 0.20]
    for bound in ratio_bounds(parts, whole):
        rest = [a - bound * b for a, b in zip(parts, whole, strict=True)]
        assert stats.ttest_1samp(rest, 0.0).pvalue == pytest.approx(0.05)
    assert ratio_bounds(parts, [0.2, -0.2, 0.1, -0.1]) is None and ratio_bounds([0.1], [0.2]) is None
    low, high = ratio_bounds(parts, whole, 0.99)
    assert low < ratio_bounds(parts, whole)[0] and high > ratio_bounds(parts, whole)[1]


def rows(control, treatment):
    names = [f"row {at}" for at in range(len(control))]
    scores = {(name, MATCHED): [x] * 3 for name, x in zip(names, control, strict=True)}
    return scores | {(name, SPT): [x] * 3 for name, x in zip(names, treatment, strict=True)}


def test_rank_correlation_of_two_orders():
    control = [0.5, 0.6, 0.7, 0.8, 0.55, 0.65, 0.75]
    (line,) = diagnostics.order(study(rows(control, [x**2 for x in control]))).rows
    assert [entry.text for entry in line] == ["7", "1.00", NONE]  # of a perfect correlation, no interval
    (line,) = diagnostics.order(study(rows(control, [1 - x for x in control]))).rows
    assert line[1].text == f"{MINUS}1.00"
    assert not diagnostics.order(study(rows(control[:5], control[:5]))).rows
    assert not diagnostics.order(study(rows(control, [0.5] * 7))).rows


def test_rank_correlation_is_spearmans_and_covers():
    random = np.random.default_rng(1)
    draws = random.multivariate_normal([0, 0], [[1, 0.5], [0.5, 1]], size=(2000, 20))
    truth = 6 / np.pi * np.arcsin(0.25)  # Spearman's of a normal pair with correlation 0.5
    found = [rank_correlation(*draw.T) for draw in draws]
    assert found[0][0] == pytest.approx(stats.spearmanr(draws[0]).statistic)
    assert np.mean([low <= truth <= high for _, (low, high) in found]) == pytest.approx(0.95, abs=0.02)
