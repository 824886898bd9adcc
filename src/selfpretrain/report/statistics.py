"""Confidence intervals, paired tests and average ranks, valid with few seeds.

A bootstrap over 3 seeds covers about 70 %, Student's t covers 95 %; no exact test can reach 5 % with
fewer than 6 seeds. A score has two sources of variance: the seed (initial weights, order of the examples)
and the sample of test examples. Both are estimated and added.
"""

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

CONFIDENCE = 0.95
NO_SPREAD = 1e-9  # smaller spreads of scores between seeds are none: all values are equal up to rounding
DECIMALS = 9  # of values that are ranked: equal means differ by rounding, summed in another order
FEWEST = 6
"""Smallest number of seeds with which an exact two-sided test can reach p < 0.05: 2 / 2**6 = 0.031."""
BINS = 15  # number of confidence bins of the expected calibration error
MIN_ROWS = 3
MIN_BLOCKS = 2
"""Minimum for ranking: two rows are compared directly, and ranks in one block have no variance."""
MIN_PAIRS = 6
"""Smallest number of pairs for a rank correlation: with five, its interval holds nearly everything."""

Vector = NDArray[np.float64]
Clusters = NDArray[np.int64] | None
"""(n,) cluster of each test example, from 0; None if all examples are independent."""


@dataclass(frozen=True)
class Estimate:
    """A mean over seeds with its uncertainty, at 95 % or the level of a sequential design."""

    mean: float
    n: int  # seeds
    over_seeds: float | None  # half-width of the t-interval over seeds; None for one seed
    over_examples: float | None = None  # half-width over test examples or clusters; None if unknown

    @property
    def half(self) -> float | None:
        """Return the half-width of the combined interval; None for one seed.

        sqrt(over_seeds**2 + over_examples**2), each term its standard error times its own t quantile

        Covers at least as often as each term for two independent normal errors. Conservative: variation
        between seeds on the same examples is counted in both terms.

        Source: Banerjee (1960), Approximate confidence interval for linear functions of means.
        """
        if self.over_seeds is None:
            return None
        return math.hypot(self.over_seeds, self.over_examples or 0.0)

    @property
    def bounds(self) -> tuple[float, float] | None:
        """Return the combined interval; None for one seed."""
        return None if self.half is None else (self.mean - self.half, self.mean + self.half)

    @property
    def seed_bounds(self) -> tuple[float, float] | None:
        """Return the t-interval over seeds alone; None for one seed."""
        half = self.over_seeds
        return None if half is None else (self.mean - half, self.mean + half)


def estimate(
    values: Sequence[float], over_examples: float | None = None, confidence: float = CONFIDENCE
) -> Estimate:
    """Return the mean of one value per seed, with its intervals. Needs at least one value."""
    return Estimate(float(np.mean(values)), len(values), t_half_width(values, confidence), over_examples)


def t_half_width(values: Sequence[float] | Vector, confidence: float = CONFIDENCE) -> float | None:
    """Return the half-width of the t-interval of the mean, t[n-1] * s / sqrt(n); None if n < 2."""
    if len(values) < 2:
        return None
    error = np.std(values, ddof=1) / math.sqrt(len(values))
    return float(t_point(len(values) - 1, confidence) * error)


def example_half_width(
    differences: Vector, clusters: Clusters = None, confidence: float = CONFIDENCE
) -> float | None:
    """Return the half-width of the t-interval of a mean over test examples; None below two clusters.

    Examples of one cluster count as one observation. For n examples in clusters of size m, with the sums r of
    (difference - mean) in each cluster and the power sums p[k] = sum(m**k):

        error**2 = p[2] / trace * sum(r**2),  trace = n**2 * p[2] - 2 * n * p[3] + p[2]**2
        degrees = trace**2 / (n**4 * p[4] - 4 * n**3 * p[5] + n**2 * (4 * p[2] * p[4] + 2 * p[3]**2)
                              - 4 * n * p[2]**2 * p[3] + p[2]**4)

    G clusters of equal size have G - 1 degrees of freedom, unequal ones fewer: the largest dominate the mean.

    Source: Bell & McCaffrey (2002), Bias reduction in standard errors for linear regression with multi-stage
    samples; here for a mean, with equal variance between clusters.
    """
    if clusters is None:
        return t_half_width(differences, confidence)
    named, sizes = np.unique(clusters, return_inverse=True, return_counts=True)[1:]
    if len(sizes) < 2:
        return None
    n = len(differences)
    p = [sum(int(m) ** k for m in sizes) for k in range(6)]  # exact integers: no rounding
    trace = n**2 * p[2] - 2 * n * p[3] + p[2] ** 2
    squares = n**4 * p[4] - 4 * n**3 * p[5] + n**2 * (4 * p[2] * p[4] + 2 * p[3] ** 2)
    squares += p[2] ** 4 - 4 * n * p[2] ** 2 * p[3]
    sums = np.bincount(named, differences - differences.mean())
    error = math.sqrt(p[2] / trace * float((sums**2).sum()))
    return t_point(trace**2 / squares, confidence) * error


def r2_parts(target: Vector, squared_a: Vector, squared_b: Vector) -> Vector:
    """Return the contribution (n,) of each example to R2(a) - R2(b), which is the mean of the contributions.

    gain + (squared_b - squared_a - gain * c**2) / mean(c**2),  c = target - mean(target)

    First-order expansion of a ratio of two sums over examples. Squared errors may be averaged over seeds
    beforehand, because R2 is linear in them.

    Args:
        squared_a: squared error of each example, averaged over seeds; ``squared_b`` likewise.
    """
    difference = squared_b - squared_a
    centred = (target - target.mean()) ** 2
    total = max(float(centred.mean()), 1e-300)
    gain = float(difference.mean()) / total
    return gain + (difference - gain * centred) / total


@functools.cache
def t_point(degrees: int | float, confidence: float = CONFIDENCE) -> float:
    """Return the quantile of Student's t that bounds a two-sided interval."""
    from scipy.special import stdtrit

    return float(stdtrit(degrees, (1 + confidence) / 2))


def t_test(values: Sequence[float]) -> float | None:
    """Return the two-sided p of Student's t-test of a zero mean; None below two values."""
    if len(values) < 2:
        return None
    from scipy.special import stdtr

    mean = float(np.mean(values))
    error = float(np.std(values, ddof=1)) / math.sqrt(len(values))
    if error == 0:
        return 1.0 if mean == 0 else 0.0
    return float(2 * stdtr(len(values) - 1, -abs(mean) / error))


def sign_flip(differences: Sequence[float]) -> float | None:
    """Return the two-sided p of the sign-flip test of a zero mean; None below six seeds.

    p is the share of all 2**n sign flips whose sum is at least as far from zero. Above 16 seeds, a fixed
    random sample of 2**16 flips is used.
    """
    if len(differences) < FEWEST:
        return None
    from scipy.stats import permutation_test

    found = permutation_test(
        (differences,), np.sum, permutation_type="samples", n_resamples=2**16, random_state=0
    )
    return float(found.pvalue)


def ratio_bounds(
    numerators: Sequence[float] | Vector,
    denominators: Sequence[float] | Vector,
    confidence: float = CONFIDENCE,
) -> tuple[float, float] | None:
    """Return Fieller's interval of mean(numerators) / mean(denominators), whose values are paired.

    The ratios r with (mean(a) - r mean(b))**2 <= t**2 s(a - r b)**2 / n, where a and b are the values of n
    pairs, s is the standard deviation and t the quantile of Student's t with n - 1 degrees of freedom. None
    below two pairs, and if zero is a plausible mean of the denominators: there is no interval then.

    Source: Fieller (1954), Some problems in interval estimation.
    """
    n = len(denominators)
    if n < 2:
        return None
    spread = np.cov(np.stack([numerators, denominators])) * t_point(n - 1, confidence) ** 2 / n
    above = float(np.mean(numerators))
    below = float(np.mean(denominators))
    square = below**2 - spread[1, 1]
    linear = above * below - spread[0, 1]
    constant = above**2 - spread[0, 0]
    if square <= 0:
        return None
    half = math.sqrt(max(0.0, linear**2 - square * constant))
    return float((linear - half) / square), float((linear + half) / square)


def spearman(one: Sequence[float] | Vector, other: Sequence[float] | Vector) -> float | None:
    """Return Spearman's rank correlation; None if all values of a side are equal."""
    sides = [np.round(side, DECIMALS) for side in (one, other)]
    if any(len(np.unique(side)) <= 1 for side in sides):
        return None
    from scipy.stats import rankdata

    return float(np.corrcoef(rankdata(sides, axis=1))[0, 1])


def rank_correlation(
    one: Sequence[float] | Vector, other: Sequence[float] | Vector
) -> tuple[float, tuple[float, float] | None] | None:
    """Return Spearman's rank correlation with its 95 % interval over pairs; None below ``MIN_PAIRS``.

    tanh(artanh(r) +- 1.96 sqrt((1 + r**2 / 2) / (n - 3)))

    None, too, if all values of a side are equal. A correlation of 1 or -1 has no such interval.

    Source: Bonett & Wright (2000), Sample size requirements for estimating correlations.
    """
    n = len(one)
    r = spearman(one, other)
    if n < MIN_PAIRS or r is None:
        return None
    if abs(r) > 1 - 1e-12:
        return r, None
    half = t_point(math.inf) * math.sqrt((1 + r**2 / 2) / (n - 3))
    return r, (math.tanh(math.atanh(r) - half), math.tanh(math.atanh(r) + half))


def holm(ps: Sequence[float | None]) -> list[float | None]:
    """Return p values corrected for multiple tests; None values were not tested and do not count.

    The i-th smallest of m becomes max over j <= i of min(1, (m - j + 1) * p[j]).

    Source: Holm (1979), a simple sequentially rejective multiple test procedure.
    """
    tested = sorted((p, place) for place, p in enumerate(ps) if p is not None)
    corrected: list[float | None] = [None] * len(ps)
    largest = 0.0
    for rank, (p, place) in enumerate(tested):
        largest = max(largest, min(1.0, (len(tested) - rank) * p))
        corrected[place] = largest
    return corrected


@dataclass(frozen=True)
class Ranks:
    """Average ranks of rows, 1 is the best; equal scores share their ranks."""

    rows: tuple[str, ...]
    average: tuple[float, ...]  # one per row; their mean is (k + 1) / 2
    blocks: int  # number of tasks or seeds in which every row has a score
    p: float  # Friedman's test that all rows are equal
    critical: float  # two rows further apart than this differ at the 5 % level (Nemenyi)

    @property
    def sorted(self) -> list[tuple[str, float]]:
        """Return (row, average rank) pairs, the best first."""
        return sorted(zip(self.rows, self.average, strict=True), key=lambda item: item[1])

    @property
    def groups(self) -> list[tuple[int, int]]:
        """Return maximal groups of rows that do not differ: first and last index in ``sorted``."""
        ranks = [rank for _, rank in self.sorted]
        reach = [
            max(j for j in range(i, len(ranks)) if ranks[j] - ranks[i] <= self.critical)
            for i in range(len(ranks))
        ]
        return [(i, j) for i, j in enumerate(reach) if j > i and (i == 0 or reach[i - 1] < j)]


def rank(rows: Sequence[str], scores: NDArray[np.float64]) -> Ranks | None:
    """Return the average ranks of rows; None with fewer than 3 rows or 2 blocks.

    Source: Demšar (2006), Statistical comparisons of classifiers over multiple data sets, section 3.2.

    Args:
            scores: (N, k) score of each of k rows in each of N blocks; larger is better.
    """
    blocks, k = scores.shape
    if k < MIN_ROWS or blocks < MIN_BLOCKS:
        return None
    from scipy.stats import friedmanchisquare, rankdata

    scores = np.round(scores, DECIMALS)
    average = rankdata(-scores, axis=1).mean(0)
    # Friedman's statistic is 0 / 0 if all scores are equal.
    alike = bool((scores == scores[:, :1]).all())
    p = 1.0 if alike else float(friedmanchisquare(*scores.T).pvalue)
    return Ranks(tuple(rows), tuple(map(float, average)), blocks, p, critical_difference(k, blocks))


def critical_difference(k: int, blocks: int) -> float:
    """Return Nemenyi's critical difference at 5 % between average ranks of k rows over N blocks.

    CD = q * sqrt(k * (k + 1) / (6 * N)),  q from the studentized range over sqrt(2)
    """
    return nemenyi_q(k) * math.sqrt(k * (k + 1) / (6 * blocks))


@functools.cache
def nemenyi_q(k: int) -> float:
    """Return the 95 % point of the studentized range (k values, infinite degrees of freedom) / sqrt(2)."""
    from scipy.stats import studentized_range

    return float(studentized_range.ppf(0.95, k, np.inf)) / math.sqrt(2)


def calibration(confidence: Vector, correct: NDArray[np.bool_]) -> list[tuple[float, float, float]]:
    """Return (mean confidence, accuracy, share of examples) of every non-empty bin of confidence.

    Source: Guo et al. (2017), On Calibration of Modern Neural Networks, section 2.
    """
    place = np.minimum((confidence * BINS).astype(int), BINS - 1)
    bins = [place == at for at in range(BINS)]
    return [(float(confidence[b].mean()), float(correct[b].mean()), float(b.mean())) for b in bins if b.any()]
