"""Which rows are better than which over many tasks or seeds: average ranks and their critical difference.

Source: Demšar (2006), Statistical comparisons of classifiers over multiple data sets, section 3.2.
"""

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

FEWEST_ROWS, FEWEST_BLOCKS = 3, 2
"""Two rows are compared directly; one block has ranks, but no spread of them."""


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
