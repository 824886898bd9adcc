"""Ranks average out, and critical differences are those that Demšar printed."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from selfpretrain.report.statistics import critical_difference, nemenyi_q, rank, spearman

SHAPES = st.tuples(st.integers(2, 6), st.integers(3, 6))
SCORES = SHAPES.flatmap(
    lambda shape: arrays(np.float64, shape, elements=st.sampled_from([0.1, 0.2, 0.3, 0.4]))
)

Q = {2: 1.960, 3: 2.343, 4: 2.569, 5: 2.728, 6: 2.850, 7: 2.949, 8: 3.031, 9: 3.102, 10: 3.164}
"""Demšar (2006), table 5(a), alpha = 0.05."""


def named(scores):
    found = rank([f"row {at}" for at in range(scores.shape[1])], scores)
    assert found is not None
    return found


def test_published_critical_differences():
    assert [nemenyi_q(k) for k in Q] == pytest.approx([*Q.values()], abs=1.1e-3)
    assert critical_difference(4, 14) == pytest.approx(1.25, abs=0.005)  # Demšar (2006), section 3.2.4
    assert critical_difference(5, 30) == pytest.approx(2.728 * np.sqrt(30 / 180), abs=1e-3)


@given(SCORES)
def test_ranks_average_to_the_middle_whatever_the_order_and_scale(scores):
    found, (blocks, k) = named(scores), scores.shape
    assert np.mean(found.average) == pytest.approx((k + 1) / 2)
    assert all(1 <= average <= k for average in found.average)
    assert found.blocks == blocks and 0 <= found.p <= 1
    order = np.random.default_rng(0).permutation(k)
    moved = named(np.exp(3 * scores)[::-1, order])
    assert moved.average == pytest.approx([found.average[at] for at in order])
    assert moved.p == pytest.approx(found.p)
    ranks = [average for _, average in found.sorted]
    together = {(a, b) for i, j in found.groups for a in range(i, j + 1) for b in range(a + 1, j + 1)}
    for a, b in itertools.combinations(range(k), 2):
        assert ((a, b) in together) == (ranks[b] - ranks[a] <= found.critical), "what cannot be told apart"
    assert not any(i <= a and b <= j and (i, j) != (a, b) for i, j in found.groups for a, b in found.groups)


def test_means_that_are_equal_up_to_rounding_share_their_ranks():
    one, other, third = (np.mean(seeds) for seeds in ((0.1, 0.2, 0.3), (0.2, 0.3, 0.1), (0.1, 0.1, 0.1)))
    assert one > other
    assert named(np.tile([one, other, third], (2, 1))).average == (1.5, 1.5, 3.0)
    assert spearman([one, other, third], [2.0, 2.0, 1.0]) == pytest.approx(1)
    assert spearman([one, other], [2.0, 1.0]) is None


def test_a_clear_order():
    found = named(np.tile([0.7, 0.9, 0.8], (20, 1)))
    assert found.sorted == [("row 1", 1.0), ("row 2", 2.0), ("row 0", 3.0)]
    assert found.groups == [] and found.p < 1e-6


def test_friedman_without_any_difference():
    assert named(np.full((4, 3), 0.5)).p == 1.0
    random = np.random.default_rng(1)
    ps = [named(random.normal(size=(12, 4))).p for _ in range(300)]
    assert np.mean(np.array(ps) < 0.05) < 0.1


def test_too_little_is_not_ranked():
    assert rank(["a", "b"], np.zeros((5, 2))) is None
    assert rank(["a", "b", "c"], np.zeros((1, 3))) is None
    assert rank([], np.zeros((3, 0))) is None
