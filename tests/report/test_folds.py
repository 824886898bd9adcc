"""Answers of all folds make one score, and its interval rests on all groups."""

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
from safetensors.numpy import save_file

from selfpretrain.report.analysis import analyse_task
from selfpretrain.report.caveats import caveats
from selfpretrain.report.stage_results import Predictions, contradiction, joined
from selfpretrain.report.statistics import example_half_width
from task_results import ARMS, cell, task_results


@pytest.fixture
def right():
    """Whether (arm, seed, example) is answered right, of three folds of 8, 12 and 10; two groups a fold."""
    return np.random.default_rng(0).random((2, 2, 30)) < np.array([0.9, 0.5])[:, None, None]


FOLD = np.repeat([0, 1, 2], [8, 12, 10])
GROUP = 2 * FOLD + np.arange(30) % 2


def task(folder, right, lost=()):
    cells = []
    for (arm, seed, fold), _ in np.ndenumerate(np.empty((2, 2, 3))):
        place, mine = folder / f"{arm}-{seed}-{fold}", fold == FOLD
        place.mkdir(parents=True)
        target = np.arange(30)[mine] % 4
        answers = np.where(right[arm, seed, mine], target, (target + 1) % 4)
        clusters = GROUP[mine] - GROUP[mine].min()  # every fold counts from 0
        save_file(
            {"prediction": answers, "target": target, "cluster": clusters}, place / "predictions.safetensors"
        )
        score = None if (arm, seed, fold) in lost else float(right[arm, seed, mine].mean())
        cells.append(cell("s4d", ARMS[arm], seed, score, fold=fold, folder=place))
    return task_results(cells)


def test_a_score_is_that_of_all_answers(tmp_path, right):
    found = task(tmp_path, right).at("s4d", "SPT")
    assert [cell.score for cell in found.values()] == pytest.approx(right[0].mean(1))
    assert {cell.flops for cell in found.values()} == {3e9}
    assert [len(cell.stages) for cell in found.values()] == [3, 3]


def test_a_metric_that_an_older_fold_lacks_is_not_averaged(tmp_path, right):
    """Stages of a version before the metric was there are reused."""
    found = task(tmp_path, right)
    found.cells[0].scored.scores["test"]["MCC"] = 0.5
    assert [set(one.scored.scores["test"]) for one in found.at("s4d", "SPT").values()] == [{"score"}] * 2


def test_the_interval_rests_on_the_groups_of_all_folds(tmp_path, right):
    analysis = analyse_task(task(tmp_path, right))
    found = analysis.headline[0].estimate
    by_hand = example_half_width((right[0].mean(0) - right[1].mean(0)).astype(float), GROUP)
    assert found.over_examples == pytest.approx(by_hand)
    assert not any("groups" in line for line in caveats([analysis]))  # six of them, enough


def test_a_seed_counts_when_all_of_its_folds_have_finished(tmp_path, right):
    some = task(tmp_path, right, lost=[(0, 1, 2)])
    assert list(some.at("s4d", "SPT")) == [0] and list(some.at("s4d", "scratch (matched)")) == [0, 1]
    assert some.missing == 1


def test_answers_of_which_there_are_several_are_pooled_as_shares():
    one = Predictions(np.array([3, 1]), np.array([4, 4]), asked=np.array([4, 2]))
    other = Predictions(np.array([2]), np.array([5]), asked=np.array([4]))
    assert joined([one, other]).score() == 6 / 10
    assert joined([one, Predictions(np.array([2]), np.array([5]))]).asked is None


def test_folds_of_equal_targets_have_an_r2_together(tmp_path):
    """As of one patient each, whose age is asked: R2 of a single fold is none."""
    cells = []
    for arm, fold in itertools.product(ARMS, range(3)):
        place = tmp_path / f"{arm}-{fold}"
        place.mkdir()
        target = np.full(4, 10.0 * fold)
        save_file({"prediction": target + 1, "target": target}, place / "predictions.safetensors")
        cells.append(cell("s4d", arm, 0, math.nan, fold=fold, folder=place))
    found = task_results(cells, kind="reals")
    assert found.at("s4d", "SPT")[0].score == pytest.approx(1 - 12 / 800)
    assert not any("finite" in line for line in caveats([analyse_task(found)]))
    (tmp_path / "SPT-1" / "predictions.safetensors").unlink()
    lost = task_results([replace(each, stages=(replace(each.scored),)) for each in cells], kind="reals")
    assert lost.undefined("s4d", "SPT") == (0,) and not lost.at("s4d", "SPT")


@pytest.mark.parametrize("objective", ["regress", "noisy-regress", "joint", "3-regress"])
def test_a_score_is_that_of_all_answers_whatever_wraps_the_objective(tmp_path, objective):
    """As of an ensemble or masked inputs, beside arms whose answers are pooled."""
    cells = []
    random = np.random.default_rng(0)
    targets = [10.0 * fold + random.normal(size=8) for fold in range(3)]
    for fold, target in enumerate(targets):
        place = tmp_path / f"{fold}"
        place.mkdir()
        kept = Predictions(target + 0.9 * random.normal(size=8), target)
        save_file({"prediction": kept.prediction, "target": target}, place / "predictions.safetensors")
        cells.append(cell("s4d", "SPT", 0, kept.score(), fold=fold, folder=place, objective=objective))
    (found,) = task_results(cells, kind="reals").at("s4d", "SPT").values()
    assert np.mean([each.score for each in cells]) < 0.5 and found.score > 0.95


def test_a_score_of_its_own_is_averaged_over_folds(tmp_path, right):
    cells = [
        replace(each, stages=(replace(each.scored, objective="mine"),))
        for each in task(tmp_path, right).cells
    ]
    for each in cells:
        each.scored.scores["test"]["score"] = 0.1 + each.fold / 10
    (first, _) = task_results(cells).at("s4d", "SPT").values()
    assert first.score == pytest.approx(0.2)


@pytest.mark.parametrize(("last", "flaw"), [(3.0, ""), (4.0, "it says r2")])
def test_an_r2_of_equal_targets_is_no_contradiction(last, flaw):
    """Sums of squares may differ from zero by rounding, and then there is one."""
    result = {"fingerprint": "0a", "objective": "regress", "scores": {"test": {"r2": -1e17, "score": -1e17}}}
    kept = Predictions(np.array([1.0, 2.0]), np.array([3.0, last]))
    assert contradiction("toy-0a", result, kept)[:10] == flaw
