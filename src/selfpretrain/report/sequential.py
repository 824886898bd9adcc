"""Sequential designs: seeds are added until the verdict is decided; their intervals hold together.

A comparison has interim analyses after ``first`` seeds, after one more, and so on up to ``last``. To stop at
the first clear interval would be wrong too often with 95 % intervals. Each of them therefore uses Student's t
at a smaller nominal level, such that the intervals of all of them together cover the truth with 95 %.

Source: Jennison & Turnbull (1989), Interim analyses: the repeated confidence interval approach; equal nominal
levels as in Pocock (1977), from the exact law of the t statistics of all of them
(experiments/sequential_levels.py).
"""

import functools
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ..errors import SpecError
from .statistics import CONFIDENCE, NO_SPREAD, t_point

TABLE = Path(__file__).with_name("sequential_levels.tsv")
"""Nominal levels by first and last interim analysis, a column per probability of any error."""
ERROR = 0.05  # probability that any of the repeated intervals misses the truth
PATHS = 2000  # number of simulated comparisons behind a forecast


@dataclass(frozen=True)
class SequentialDesign:
    """The numbers of seeds after which a comparison has interim analyses: first, first + 1, ..., last."""

    first: int
    last: int

    def __str__(self) -> str:
        return f"{self.first}..{self.last}"

    def __iter__(self) -> Iterator[int]:
        return iter(range(self.first, self.last + 1))

    @property
    def known(self) -> bool:
        """Return whether the levels of this design are known; a single analysis needs no table."""
        return 2 <= self.first == self.last or (self.first, self.last) in _levels()

    @property
    def confidence(self) -> float:
        """Return the nominal confidence of each interval; those of all analyses together cover with 95 %."""
        if self.first == self.last:
            return CONFIDENCE
        levels = _levels()[self.first, self.last]
        return 1 - levels[ERROR]

    def repeated_p(self, p: float) -> float:
        """Return the p value that counts all interim analyses, of that of a single one.

        It is the probability that, without an effect, any interim analysis finds a p value as small; hence
        it is valid at whichever the design stops. Interpolated on logarithmic axes between the errors
        of the table; no less than the smallest of them.
        """
        if self.first == self.last:
            return p
        levels = _levels()[self.first, self.last] | {1.0: 1.0}
        errors = np.log(list(levels))
        found = np.interp(np.log(max(p, 1e-300)), np.log(list(levels.values())), errors)
        return float(np.exp(found))


AUTO = SequentialDesign(4, 12)  # the design of ``--seeds auto``


def parse_seeds(seeds: int | str) -> tuple[int, SequentialDesign | None]:
    """Return the largest number of seeds, and the design of ``auto`` or of a range such as ``4..12``.

    Raises:
        SpecError: if it is neither, or if the levels of this design are not known.
    """
    text = str(seeds).strip()
    if text == "auto":
        return AUTO.last, AUTO
    if re.fullmatch(r"[1-9][0-9]{0,5}", text):
        return int(text), None
    found = re.fullmatch(r"([0-9]{1,5})\.\.([0-9]{1,5})", text)
    if found is None:
        raise SpecError(f"--seeds {text}: write a number from 1 to 999,999, auto, or a range such as {AUTO}")
    design = SequentialDesign(int(found[1]), int(found[2]))
    if design.first >= design.last or not design.known:
        firsts = sorted({first for first, _ in _levels()})
        most = max(last for _, last in _levels())
        raise SpecError(
            f"--seeds {text}: a range begins at {firsts[0]} to {firsts[-1]} seeds and ends, above that, at "
            f"{most} seeds at most, such as {AUTO}"
        )
    return design.last, design


@dataclass(frozen=True)
class Simulated:
    """The outcomes of simulated comparisons."""

    seeds: NDArray[np.int64]  # (paths,) number of seeds at which each ended
    better: NDArray[np.bool_]  # (paths,) whether the verdict was better; likewise the others
    worse: NDArray[np.bool_]
    equal: NDArray[np.bool_]
    covered: NDArray[np.bool_]  # (paths,) whether the intervals of all analyses held the gain

    @property
    def decided(self) -> NDArray[np.bool_]:
        """Return whether each was decided."""
        return self.better | self.worse | self.equal


def simulate(
    differences: NDArray[np.float64],
    gain: float,
    tie: float,
    design: SequentialDesign,
    example_error: float = 0.0,
) -> Simulated:
    """Return how comparisons with these differences end: at the analysis that decides them, or the last.

    Args:
        differences: (paths, last or more) difference of every seed, where the true one is ``gain``.
        tie: half the width of the tie band.
        example_error: standard error of the difference from the choice of many test examples.
    """
    n = np.arange(1, design.last + 1)
    centred = differences[:, : design.last] - gain  # smaller numbers: less is lost by cancellation
    mean = centred.cumsum(1) / n
    squares = (centred**2).cumsum(1) - n * mean**2
    at = np.array([*design]) - 1
    error = np.sqrt(np.maximum(squares[:, at], 0) / (at * (at + 1)))
    points = np.array([t_point(int(degrees), design.confidence) for degrees in at])
    half = np.hypot(points * error, t_point(np.inf, design.confidence) * example_error)
    mean = mean[:, at]
    better = mean + gain - half > tie
    worse = mean + gain + half < -tie
    equal = (abs(mean + gain) + half <= tie) & (error > NO_SPREAD)
    decided = better | worse | equal
    row = np.arange(len(differences))
    stop = np.where(decided.any(1), decided.argmax(1), len(at) - 1)
    covered = (abs(mean) <= half).all(1)
    return Simulated(at[stop] + 1, better[row, stop], worse[row, stop], equal[row, stop], covered)


def draw_differences(
    gain: float, spread: float, last: int, example_error: float = 0.0, paths: int = PATHS, seed: int = 0
) -> NDArray[np.float64]:
    """Return normal differences (paths, last) of seeds, around a true gain.

    Args:
        spread: standard deviation of the paired difference between seeds.
        example_error: standard deviation of what the test examples add, the same for all seeds of a path.
    """
    rng = np.random.default_rng(seed)
    between_seeds = spread * rng.standard_normal((paths, last))
    return gain + between_seeds + example_error * rng.standard_normal((paths, 1))


def seeds_for(gain: float, spread: float, tie: float, design: SequentialDesign) -> int | None:
    """Return the number of seeds at which half of all comparisons are decided; None if fewer ever are."""
    found = simulate(draw_differences(gain, spread, design.last), gain, tie, design)
    ends = np.where(found.decided, found.seeds, design.last + 1)
    middle = int(np.sort(ends)[(len(ends) - 1) // 2])
    return middle if middle <= design.last else None


@functools.cache
def _levels() -> dict[tuple[int, int], dict[float, float]]:
    """Return the nominal levels of every pair of first and last analysis, by probability of any error."""
    head, *lines = TABLE.read_text(encoding="utf-8").splitlines()
    errors = [float(text) for text in head.split("\t")[2:]]
    levels: dict[tuple[int, int], dict[float, float]] = {}
    for line in lines:
        first, last, *values = line.split("\t")
        levels[int(first), int(last)] = dict(zip(errors, map(float, values), strict=True))
    return levels
