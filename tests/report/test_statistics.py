"""Intervals cover what they promise, and behave under shift, scale and exchange."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from sklearn.metrics import r2_score

from selfpretrain.report import statistics
from selfpretrain.report.statistics import Estimate, estimate, example_half_width, holm, r2_parts, sign_flip

SCORES = st.lists(st.floats(-1, 1, width=32), min_size=2, max_size=8)


def coverage(half, values):
    """Share of rows of ``values`` (mean 0) whose interval holds 0."""
    return float(np.mean([abs(row.mean()) <= half(list(row)) for row in values]))


@pytest.mark.parametrize("n", [3, 5])
def test_t_interval_covers_95_percent(n):
    values = np.random.default_rng(1).normal(size=(3000, n))
    assert coverage(statistics.t_half_width, values) == pytest.approx(0.95, abs=0.012)


def test_known_intervals():
    # t[2] at 97.5 % is 4.302653; s of 1, 2, 3 is 1
    assert statistics.t_half_width([1.0, 2.0, 3.0]) == pytest.approx(4.302653 / math.sqrt(3), rel=1e-6)
    assert Estimate(0.0, 3, 0.03, 0.04).half == pytest.approx(0.05)
    assert Estimate(0.0, 3, 0.03, None).half == pytest.approx(0.03)
    found = estimate([0.7], over_examples=0.02)
    assert (found.over_seeds, found.half, found.bounds, found.seed_bounds) == (None, None, None, None)


def test_combined_interval_is_conservative():
    """Gains of 0.1 with noise of seeds, of examples, and of both together: covered at least as promised."""
    random, held = np.random.default_rng(3), 0
    for _ in range(1000):
        examples = 0.1 + random.normal(0, 0.5, 150)
        each = examples + random.normal(0, 0.02, (3, 1)) + random.normal(0, 0.4, (3, 150))
        low, high = estimate(list(each.mean(1)), example_half_width(each.mean(0))).bounds or (1, 0)
        held += low <= 0.1 <= high
    assert held / 1000 > 0.945


@given(SCORES, st.floats(-2, 2), st.floats(0.1, 10))
def test_an_interval_holds_its_mean_and_follows_shift_scale_and_sign(values, shift, scale):
    found = estimate(values, 0.01)
    assert found.bounds and found.seed_bounds
    assert found.bounds[0] <= found.seed_bounds[0] <= found.mean <= found.seed_bounds[1] <= found.bounds[1]
    before, after = estimate(values), estimate([shift + scale * v for v in values])
    assert after.mean == pytest.approx(shift + scale * before.mean, abs=1e-9)
    assert after.over_seeds == pytest.approx(scale * (before.over_seeds or 0), abs=1e-8)
    exchanged = estimate([-v for v in values])
    assert exchanged.mean == pytest.approx(-before.mean)
    assert exchanged.over_seeds == pytest.approx(before.over_seeds)
    assert sign_flip(values) == sign_flip([-v for v in values])


def test_sign_flip_counts_all_flips():
    assert sign_flip([1.0, 2.0, 3.0, 4.0, 5.0]) is None
    assert sign_flip([1.0, 2.0, 3.0, 4.0, 5.0, 6.0]) == 2 / 64
    assert sign_flip([-1.0, 1.0, -1.0, 1.0, -1.0, 1.0]) == 1.0
    # sums at least 19 apart from 0: all positive, and all but the 1
    assert sign_flip([-1.0, 2.0, 3.0, 4.0, 5.0, 6.0]) == 4 / 64


def test_sign_flip_of_many_seeds_is_sampled():
    random = np.random.default_rng(5)
    p = sign_flip(list(random.normal(0.5, 1, 20)))
    assert p == sign_flip(list(np.random.default_rng(5).normal(0.5, 1, 20)))
    assert p is not None and 0 < p < 0.2


def test_sign_flip_is_uniform_without_effect():
    random = np.random.default_rng(0)
    ps = np.array([sign_flip(list(random.normal(size=8))) for _ in range(1000)])
    assert np.mean(ps <= 12 / 128) == pytest.approx(12 / 128, abs=0.028)  # three standard errors
    assert np.mean(ps <= 0.5) == pytest.approx(0.5, abs=0.048)


def test_r2_interval_matches_new_test_sets():
    def draw(random):
        target = random.normal(50, 10, 300)
        return target, target + random.normal(0, 5, 300), target + random.normal(0, 6, 300)

    random = np.random.default_rng(11)
    sets = [draw(random) for _ in range(600)]
    gains = [r2_score(t, a) - r2_score(t, b) for t, a, b in sets]
    parts = [r2_parts(t, (t - a) ** 2, (t - b) ** 2) for t, a, b in sets]
    assert [part.mean() for part in parts] == pytest.approx(gains)
    held = [abs(part.mean() - np.mean(gains)) <= example_half_width(part) for part in parts]
    assert np.mean(held) == pytest.approx(0.95, abs=0.025)
    assert example_half_width(np.array([1.0])) is None
    assert example_half_width(np.array([1.0, 2.0]), np.array([7, 7])) is None


PS = st.lists(st.none() | st.floats(0, 1), max_size=8)


@given(PS)
def test_holm_keeps_the_order_and_never_lowers(ps):
    found = holm(ps)
    tested = sorted((p, q) for p, q in zip(ps, found, strict=True) if p is not None and q is not None)
    assert [p is None for p in ps] == [q is None for q in found]
    assert all(p <= q <= 1 for p, q in tested)
    assert [q for _, q in tested] == sorted(q for _, q in tested)
    assert not tested or tested[0][1] == min(1.0, len(tested) * tested[0][0])


def test_known_holm():
    assert holm([0.01, None, 0.04, 0.03]) == [0.03, None, 0.06, 0.06]
    assert holm([0.6, 0.6]) == [1.0, 1.0] and holm([]) == []


def clustered(random, clusters):
    """Values of mean 0, most of whose noise is that of their cluster."""
    return random.normal(size=clusters.max() + 1)[clusters] + 0.3 * random.normal(size=len(clusters))


def test_examples_that_are_not_independent_enter_the_interval():
    """With clusters the interval holds the truth 95 times in 100; without, half as often."""
    random, clusters = np.random.default_rng(0), np.repeat(np.arange(60), 12)
    known, ignored = [], []
    for _ in range(600):
        values = clustered(random, clusters)
        known.append(abs(values.mean()) <= example_half_width(values, clusters))
        ignored.append(abs(values.mean()) <= example_half_width(values))
    assert np.mean(known) == pytest.approx(0.95, abs=0.03)
    assert np.mean(ignored) < 0.6


@given(st.lists(st.floats(-1, 1, width=32), min_size=2, max_size=20))
def test_clusters_of_one_size_are_as_their_means(means):
    values, alone = np.array(means), np.arange(len(means))
    assert example_half_width(values, 9 * alone) == pytest.approx(example_half_width(values), abs=1e-12)
    assert example_half_width(values, 0 * alone) is None
    clusters = np.repeat(alone, 7)
    found = example_half_width(values[clusters], clusters)
    assert found == pytest.approx(statistics.t_half_width(means), abs=1e-9)


def test_unequal_clusters_are_as_the_matrices_of_the_source_say():
    sizes = np.array([10, 21, 45, 95, 200])
    clusters, values = np.repeat(np.arange(5), sizes), np.random.default_rng(0).normal(size=371)
    share = sizes / 371
    means = np.array([values[clusters == cluster].mean() for cluster in range(5)])
    apart = np.diag(share) @ (np.eye(5) - share)
    squares = apart.T @ apart
    error = np.sqrt((share**2).sum() / np.trace(squares) * ((apart @ means) ** 2).sum())
    degrees = np.trace(squares) ** 2 / np.trace(squares @ squares)
    assert degrees < 2
    assert example_half_width(values, clusters) == pytest.approx(stats.t.ppf(0.975, degrees) * error)


def test_one_large_cluster_and_a_tiny_one_say_almost_nothing():
    clusters = np.repeat([0, 1], [999_999, 1])
    values = np.random.default_rng(1).normal(size=1_000_000)
    assert 1 < example_half_width(values, clusters) < 1e3


def test_clusters_enter_the_interval_of_r2():
    random, clusters = np.random.default_rng(0), np.repeat(np.arange(50), 8)
    target, a, b = (clustered(random, clusters) for _ in range(3))
    parts = r2_parts(target, (target - 0.5 * a) ** 2, (target - 0.5 * b) ** 2)
    assert example_half_width(parts, clusters) > 1.8 * example_half_width(parts)
