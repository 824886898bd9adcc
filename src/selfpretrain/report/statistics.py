"""Intervals that are honest with few seeds.

A bootstrap over 3 seeds covers about 70 %, Student's t covers 95 %; no exact test can reach 5 % with
fewer than 6 seeds. Two things are left to chance: the seed (initial weights, order of the examples),
and which examples the test split happens to hold. Both are measured and added.
"""

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

CONFIDENCE = 0.95
NORMAL = 1.959963984540054
"""97.5 % point of the normal distribution."""
FEWEST = 6
"""Seeds from which an exact two-sided test can reach p < 0.05: 2 / 2**6 = 0.031."""
ENUMERATED = 16
"""Seeds up to which all sign flips are counted; above, a fixed random sample of them."""
BINS = 15
"""Of confidence, for the expected calibration error."""
FEWEST_ROWS, FEWEST_BLOCKS = 3, 2
"""Two rows are compared directly; one block has ranks, but no spread of them."""

Vector = NDArray[np.float64]
Clusters = NDArray[np.int64] | None
"""(n,) from 0: test examples of one number are no independent evidence; None if all are."""


@dataclass(frozen=True)
class Estimate:
    """A mean over seeds and how sure it is."""

    mean: float
    n: int  # seeds
    over_seeds: float | None  # half-width of the 95 % t-interval; None for one seed
    example_error: float | None = None  # standard error due to the choice of test examples; None if unknown

    @property
    def half(self) -> float | None:
        """Half-width of the combined 95 % interval; None for one seed.

        sqrt((t * s / sqrt(n))**2 + (1.96 * example_error)**2)

        Conservative: the part of the examples' noise that differs between seeds is in both terms.
        """
        if self.over_seeds is None:
            return None
        return math.hypot(self.over_seeds, NORMAL * (self.example_error or 0.0))

    @property
    def bounds(self) -> tuple[float, float] | None:
        """The combined 95 % interval; None for one seed."""
        return None if self.half is None else (self.mean - self.half, self.mean + self.half)

    @property
    def seed_bounds(self) -> tuple[float, float] | None:
        """The 95 % t-interval over seeds alone; None for one seed."""
        half = self.over_seeds
        return None if half is None else (self.mean - half, self.mean + half)


def estimate(values: Sequence[float], example_error: float | None = None) -> Estimate:
    """The mean of one value per seed, with its intervals; at least one value."""
    return Estimate(float(np.mean(values)), len(values), t_half_width(values), example_error)


def t_half_width(values: Sequence[float]) -> float | None:
    """Half-width of the 95 % t-interval of the mean: t[n-1] * s / sqrt(n); None below two values."""
    if len(values) < 2:
        return None
    error = np.std(values, ddof=1) / math.sqrt(len(values))
    return float(_t_point(len(values) - 1) * error)


@functools.cache
def _t_point(degrees: int) -> float:
    from scipy.special import stdtrit

    return float(stdtrit(degrees, (1 + CONFIDENCE) / 2))


def sign_flip(differences: Sequence[float]) -> float | None:
    """Two-sided p of the exact sign-flip test of a zero mean; None below six seeds.

    The share of all 2**n ways to flip signs whose sum is at least as far from zero. Above 16 seeds a
    fixed sample of 2**16 flips stands for all of them.
    """
    values = np.asarray(differences, dtype=np.float64)
    n = len(values)
    if n < FEWEST:
        return None
    sums = np.abs(_flips(n) @ values)
    reach = abs(float(values.sum())) - 1e-12 * float(np.abs(values).sum())
    extreme = int((sums >= reach).sum())
    return extreme / len(sums) if n <= ENUMERATED else (extreme + 1) / (len(sums) + 1)


def holm(ps: Sequence[float | None]) -> list[float | None]:
    """P values corrected for how many there are; those that are None were not tested and do not count.

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
    """How rows rank on average, 1 being the best; equal scores share their ranks."""

    rows: tuple[str, ...]
    average: tuple[float, ...]  # one per row; their mean is (k + 1) / 2
    blocks: int  # tasks or seeds that all rows have a score in
    p: float  # of Friedman's test that all rows are alike
    critical: float  # two rows that differ by more than this differ at 5 % (Nemenyi)

    @property
    def sorted(self) -> list[tuple[str, float]]:
        """Rows with their average ranks, the best first."""
        return sorted(zip(self.rows, self.average, strict=True), key=lambda item: item[1])

    @property
    def groups(self) -> list[tuple[int, int]]:
        """First and last place in ``sorted`` of rows that cannot be told apart; none inside another."""
        ranks = [rank for _, rank in self.sorted]
        reach = [
            max(j for j in range(i, len(ranks)) if ranks[j] - ranks[i] <= self.critical)
            for i in range(len(ranks))
        ]
        return [(i, j) for i, j in enumerate(reach) if j > i and (i == 0 or reach[i - 1] < j)]


def rank(rows: Sequence[str], scores: NDArray[np.float64]) -> Ranks | None:
    """Average ranks of rows; None with fewer than 3 rows or 2 blocks.

    Source: Demšar (2006), Statistical comparisons of classifiers over multiple data sets, section 3.2.

    Args:
        scores: (N, k) score of every row in every block, larger is better.
    """
    blocks, k = scores.shape
    if k < FEWEST_ROWS or blocks < FEWEST_BLOCKS:
        return None
    from scipy.stats import friedmanchisquare, rankdata

    average = rankdata(-scores, axis=1).mean(0)
    alike = bool((scores == scores[:, :1]).all())
    p = 1.0 if alike else float(friedmanchisquare(*scores.T).pvalue)
    return Ranks(tuple(rows), tuple(map(float, average)), blocks, p, critical_difference(k, blocks))


def critical_difference(k: int, blocks: int) -> float:
    """Difference of average ranks of k rows over N blocks beyond which Nemenyi's test tells two apart at 5 %.

    CD = q * sqrt(k * (k + 1) / (6 * N)),  q from the studentized range over sqrt(2)
    """
    return nemenyi_q(k) * math.sqrt(k * (k + 1) / (6 * blocks))


@functools.cache
def nemenyi_q(k: int) -> float:
    """95 % point of the studentized range of k values with infinite degrees of freedom, over sqrt(2)."""
    from scipy.stats import studentized_range

    return float(studentized_range.ppf(0.95, k, np.inf)) / math.sqrt(2)


def mean_error(differences: Vector, clusters: Clusters = None) -> float | None:
    """Standard error of the mean of one difference per test example; None below two examples or clusters.

    With G clusters:  sqrt(G / (G - 1) * sum over clusters of (sum of d - mean(d))**2) / n

    Source: Liang & Zeger (1986), the sandwich estimate of a mean.
    """
    n = len(differences)
    if clusters is None:
        return None if n < 2 else float(np.std(differences, ddof=1)) / math.sqrt(n)
    sums = np.bincount(clusters, differences - differences.mean())
    many = len(sums)
    return None if many < 2 else math.sqrt(many / (many - 1) * float((sums**2).sum())) / n


def r2_error(
    target: Vector, squared_a: Vector, squared_b: Vector, clusters: Clusters = None, draws: int = 1000
) -> float | None:
    """Standard error of R2(a) - R2(b) by a paired bootstrap over test examples, the same at every call.

    Both arms are scored on the same resampled examples. Squared errors averaged over seeds suffice,
    as R2 is linear in them.

    Args:
        squared_a: squared error of each example, averaged over seeds; ``squared_b`` likewise.
        clusters: examples of one number are drawn together.
    """
    n = len(target)
    if n < 2:
        return None
    centred = target - target.mean()  # the same R2, without cancellation
    terms = np.stack([squared_b - squared_a, centred, centred**2], axis=1)
    if clusters is not None:
        terms = np.stack([np.bincount(clusters, term) for term in (*terms.T, np.ones(n))], axis=1)
    drawn = np.array_split(_resamples(len(terms), draws), 10)
    sums = np.concatenate([part @ terms for part in drawn])
    spread = sums[:, 2] - sums[:, 1] ** 2 / (n if clusters is None else sums[:, 3])
    usable = spread > 1e-12 * max(float(sums[:, 2].max()), 1e-300)
    return float(np.std(sums[usable, 0] / spread[usable], ddof=1)) if usable.sum() > 1 else None


def calibration(sure: Vector, hit: NDArray[np.bool_]) -> list[tuple[float, float, float]]:
    """Mean confidence, accuracy and share of the examples of every bin of confidence that has some.

    Source: Guo et al. (2017), On Calibration of Modern Neural Networks, section 2.
    """
    place = np.minimum((sure * BINS).astype(int), BINS - 1)
    held = [place == at for at in range(BINS)]
    return [(float(sure[b].mean()), float(hit[b].mean()), float(b.mean())) for b in held if b.any()]


@functools.lru_cache(maxsize=1)
def _resamples(n: int, draws: int) -> NDArray[np.uint8]:
    random = np.random.default_rng(0)
    counts = [np.bincount(random.integers(0, n, n), minlength=n) for _ in range(draws)]
    return np.stack([count.astype(np.uint8) for count in counts])


@functools.lru_cache(maxsize=2)
def _flips(n: int) -> Vector:
    if n > ENUMERATED:
        draws = np.random.default_rng(0).integers(0, 2, (2**ENUMERATED, n), dtype=np.int8)
        return (2 * draws - 1).astype(np.float64)
    codes = np.arange(2**n)[:, None] >> np.arange(n) & 1
    return (2 * codes - 1).astype(np.float64)
