"""Compute the nominal levels of repeated confidence intervals after every seed.

    python experiments/sequential_levels.py src/selfpretrain/report/sequential_levels.tsv

A comparison that is analysed after every seed from `first` to `last` and stops at the first interval without
zero is wrong more often than one that is analysed once. Each analysis therefore uses a Student's t interval
of a smaller nominal level alpha(first, last), chosen such that

    P(|T_n| > t[n-1, 1 - alpha / 2] for any n in first..last) = error

for normal differences without an effect. T_n is free of scale, hence alpha depends on nothing else, and the
intervals of all analyses together cover the true difference with probability 1 - error whatever the variance.
In other words, alpha is the quantile at `error` of the smallest p value of all analyses.

Source: Jennison & Turnbull (1989), Interim analyses: the repeated confidence interval approach; Pocock (1977)
for equal nominal levels; here with the exact law of the t statistics, by simulation.
"""

import argparse
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtr

ERRORS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5)
FIRST = range(2, 7)
LAST = 24
CHUNK = 100_000
BINS = 40_000
DECADES = 8
"""The histogram of log10(p) has BINS bins from -DECADES to 0: a bin is 0.05 % wide."""

Pair = tuple[int, int]


def p_values(rng: np.random.Generator, paths: int) -> NDArray[np.float64]:
    """Return the two-sided p values (paths, LAST - 1) of t tests after 2, 3, ..., LAST seeds of each path."""
    draws = rng.standard_normal((paths, LAST))
    n = np.arange(1, LAST + 1)
    mean = draws.cumsum(1) / n
    squares = (draws**2).cumsum(1) - n * mean**2
    statistic = mean[:, 1:] * np.sqrt(n[1:] * (n[1:] - 1) / squares[:, 1:])
    return 2 * stdtr(n[1:] - 1, -np.abs(statistic))


def count_smallest_p(paths: int, seed: int) -> dict[Pair, NDArray[np.int64]]:
    """Return histograms of the smallest p value over the analyses, for all pairs (first, last)."""
    rng = np.random.default_rng(seed)
    counts: dict[Pair, NDArray[np.int64]] = {}
    for _ in range(0, paths, CHUNK):
        place = (np.log10(p_values(rng, CHUNK)) / DECADES + 1) * BINS
        bins = np.clip(place, 0, BINS - 1).astype(np.uint16)
        for first in FIRST:
            smallest = np.minimum.accumulate(bins[:, first - 2 :], axis=1)
            for last in range(first, LAST + 1):
                found = np.bincount(smallest[:, last - first], minlength=BINS)
                counts[first, last] = counts.get((first, last), 0) + found
    return counts


def level_of(counts: NDArray[np.int64], error: float) -> float:
    """Return the quantile of p at ``error``, interpolated within its bin."""
    share = np.concatenate([[0.0], counts.cumsum() / counts.sum()])
    place = np.interp(error, share, np.arange(BINS + 1))
    return float(10 ** ((place / BINS - 1) * DECADES))


def main() -> None:
    """Write one line per pair of first and last analysis: first, last, and the level for every error."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("table", type=Path)
    parser.add_argument("--paths", type=int, default=4_000_000)
    parser.add_argument("--seed", type=int, default=1989)
    flags = parser.parse_args()
    lines = ["\t".join(["first", "last", *map(str, ERRORS)])]
    for (first, last), counts in count_smallest_p(flags.paths, flags.seed).items():
        # A single analysis needs no simulation: its p value is uniform.
        levels = [error if first == last else level_of(counts, error) for error in ERRORS]
        lines.append("\t".join([str(first), str(last), *(f"{level:.4g}" for level in levels)]))
    flags.table.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
