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

Vector = NDArray[np.float64]


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
    n = len(values)
    if n < 2:
        return None
    from scipy.special import stdtrit

    t = float(stdtrit(n - 1, (1 + CONFIDENCE) / 2))
    return t * float(np.std(values, ddof=1)) / math.sqrt(n)


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


def mean_error(differences: Vector) -> float | None:
    """Standard error of the mean of one difference per test example; None below two examples."""
    n = len(differences)
    return None if n < 2 else float(np.std(differences, ddof=1)) / math.sqrt(n)


def r2(prediction: Vector, target: Vector) -> float:
    """Explained share of the variance: 1 - sum((y - p)**2) / sum((y - mean(y))**2)."""
    spread = float(((target - target.mean()) ** 2).sum())
    return 1 - float(((target - prediction) ** 2).sum()) / spread if spread > 0 else math.nan


def r2_error(target: Vector, squared_a: Vector, squared_b: Vector, draws: int = 1000) -> float | None:
    """Standard error of R2(a) - R2(b) by a paired bootstrap over test examples, the same at every call.

    Both arms are scored on the same resampled examples. Squared errors averaged over seeds suffice,
    as R2 is linear in them.

    Args:
        squared_a: squared error of each example, averaged over seeds; ``squared_b`` likewise.
    """
    n = len(target)
    if n < 2:
        return None
    centred = target - target.mean()  # the same R2, without cancellation
    terms = np.stack([squared_b - squared_a, centred, centred**2], axis=1)
    sums = np.concatenate([part @ terms for part in np.array_split(_resamples(n, draws), 10)])
    spread = sums[:, 2] - sums[:, 1] ** 2 / n
    usable = spread > 1e-12 * max(float(sums[:, 2].max()), 1e-300)
    return float(np.std(sums[usable, 0] / spread[usable], ddof=1)) if usable.sum() > 1 else None


@functools.lru_cache(maxsize=1)
def _resamples(n: int, draws: int) -> NDArray[np.uint8]:
    random = np.random.default_rng(0)
    counts = [np.bincount(random.integers(0, n, n), minlength=n) for _ in range(draws)]
    return np.stack([count.astype(np.uint8) for count in counts])


def _flips(n: int) -> NDArray[np.int8]:
    if n > ENUMERATED:
        draws = np.random.default_rng(0).integers(0, 2, (2**ENUMERATED, n), dtype=np.int8)
        return (2 * draws - 1).astype(np.int8)
    codes = np.arange(2**n)[:, None] >> np.arange(n) & 1
    return (2 * codes - 1).astype(np.int8)
