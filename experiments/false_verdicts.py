"""How often two equally good arms are told apart, by groups of test examples and by seeds.

    python experiments/false_verdicts.py [--draws 2000]

Groups (patients, speakers) differ in which arm suits them, seeds differ, and the two go together, in three
mixtures. Even groups have 50 examples each, uneven ones 10 to 200. The table has the percent of made-up
comparisons whose interval leaves out zero, in the worst of the mixtures; 5 are promised at most. "1.96" takes
the error of the groups times the normal quantile, as if there were many of them.
"""

import argparse

import numpy as np

from selfpretrain.report.statistics import estimate, example_half_width

MIXTURES = ((1.0, 0.01, 0.01), (1.0, 0.5, 0.3), (0.2, 1.0, 0.2))
"""Standard deviations between groups, between seeds, and of what is of a group and a seed."""


def told_apart(sizes: np.ndarray, seeds: int, mixture: tuple[float, float, float], draws: int) -> np.ndarray:
    """Return the shares of comparisons told apart by our interval, and by one with the normal quantile."""
    random = np.random.default_rng(0)
    clusters = np.repeat(np.arange(len(sizes)), sizes)
    wrong = np.zeros(2)
    for _ in range(draws):
        between, of_seeds, both = mixture
        by_group = random.normal(0, between, len(sizes)) + random.normal(0, both, (seeds, len(sizes)))
        by_seed = random.normal(0, of_seeds, (seeds, 1))
        differences = by_group[:, clusters] + by_seed + random.normal(0, 0.5, (seeds, len(clusters)))
        mean = differences.mean(0)
        found = estimate(differences.mean(1).tolist(), example_half_width(mean, clusters))
        groups = len(sizes)
        sums = np.bincount(clusters, mean - mean.mean()) / len(mean)
        normal = 1.96 * np.sqrt(groups / (groups - 1) * (sums**2).sum())
        wrong += abs(found.mean) > found.half, abs(found.mean) > np.hypot(found.over_seeds, normal)
    return wrong / draws


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--draws", type=int, default=2000)
    draws = parser.parse_args().draws
    print("| groups | seeds | even | uneven | even, 1.96 | uneven, 1.96 |\n|---:|---:|---:|---:|---:|---:|")
    for groups in (2, 3, 5, 10, 20):
        shapes = np.full(groups, 50), np.geomspace(10, 200, groups).astype(int)
        for seeds in (3, 5, 10):
            worst = [
                np.max([told_apart(sizes, seeds, mixture, draws) for mixture in MIXTURES], axis=0)
                for sizes in shapes
            ]
            ours, normal = np.transpose(worst)
            numbers = (f"{100 * share:.1f}" for share in (*ours, *normal))
            print(f"| {groups} | {seeds} | {' | '.join(numbers)} |", flush=True)


if __name__ == "__main__":
    main()
