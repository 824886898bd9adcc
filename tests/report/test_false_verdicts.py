"""Two arms that are equally good: how often a whole analysis calls one of them better, at most 5 in 100.

What is left to chance: seeds, groups of test examples (patients, speakers), both together, and examples.
"""

import numpy as np
import pytest

from selfpretrain.report.analysis import Standing, analyse_task
from selfpretrain.report.stage_results import Predictions
from task_results import ARMS, cell, task_results

SETTINGS = ((2, 3), (2, 5), (3, 3), (3, 5), (5, 3), (8, 3))
"""Groups of test examples, and seeds."""
DRAWS = 40


def made(kind, sizes, seeds, folds, random):
    """Predictions (2, seeds) of arms that differ by chance alone; of each a list with one per fold."""
    clusters = np.repeat(np.arange(len(sizes)), sizes)
    by_group = random.normal(0, 0.8, (2, 1, len(sizes)))  # one arm knows this patient better
    by_seed = random.normal(0, 0.3, (2, seeds, 1))
    ability = (0.5 + by_group + by_seed + random.normal(0, 0.2, (2, seeds, len(sizes))))[..., clusters]
    chance = 1 / (1 + np.exp(-ability))
    rows = np.array_split(np.arange(len(sizes)), folds)
    places = [np.isin(clusters, row) for row in rows]
    answers = ANSWERS[kind](chance, random)
    return [
        [
            [
                Predictions(cluster=clusters[at], **{name: each[arm, seed][at] for name, each in answers})
                for at in places
            ]
            for seed in range(seeds)
        ]
        for arm in range(2)
    ]


def _classes(chance, random):
    target = np.broadcast_to(random.integers(0, 4, chance.shape[-1]), chance.shape)
    right = random.random(chance.shape) < chance
    return [("prediction", np.where(right, target, (target + 1) % 4)), ("target", target)]


def _sets(chance, random):
    """Right labels of those that were said or asked for: micro F1 is their ratio."""
    asked = np.broadcast_to(random.integers(2, 9, chance.shape[-1]), chance.shape)
    return [("prediction", random.binomial(asked, chance)), ("asked", asked), ("target", asked)]


def _reals(chance, random):
    target = np.broadcast_to(random.normal(50, 10, chance.shape[-1]), chance.shape)
    error = 10 * (1.2 - chance) * random.normal(size=chance.shape)
    return [("prediction", target + error), ("target", target)]


ANSWERS = {"classes": _classes, "sets": _sets, "reals": _reals}


def analysed(kind, sizes, seeds, folds, random):
    cells = []
    for arm, of_seeds in enumerate(made(kind, sizes, seeds, folds, random)):
        for seed, parts in enumerate(of_seeds):
            for fold, kept in enumerate(parts):
                made_up = cell("s4d", ARMS[arm], seed, kept.score(), fold=fold)
                vars(made_up.scored)["predictions"] = kept  # as if it had been read
                cells.append(made_up)
    return analyse_task(task_results(cells, kind=kind))


def most(draws):
    """Share of false verdicts that chance alone makes of 5 % in one of 160 tests."""
    return 0.05 + 2.5 * (0.05 * 0.95 / draws) ** 0.5


def false_verdicts(kind, uneven=False, folds=1, settings=SETTINGS):
    random, wrong = np.random.default_rng(0), 0
    for groups, seeds in settings * DRAWS:
        sizes = np.geomspace(10, 200, groups).astype(int) if uneven else np.full(groups, 40)
        (gain,) = analysed(kind, sizes, seeds, folds, random).headline
        wrong += gain.standing not in (Standing.UNCLEAR, Standing.EQUAL)
    return wrong / len(settings * DRAWS)


@pytest.mark.parametrize("uneven", [False, True], ids=["even", "uneven"])
@pytest.mark.parametrize("kind", ["classes", "sets", "reals"])
def test_equal_arms_are_told_apart_5_times_in_100_at_most(kind, uneven):
    assert false_verdicts(kind, uneven) <= most(len(SETTINGS) * DRAWS)


@pytest.mark.parametrize("kind", ["classes", "sets", "reals"])
def test_so_it_is_over_folds(kind):
    assert false_verdicts(kind, True, folds=2, settings=((4, 3),)) <= most(DRAWS)
