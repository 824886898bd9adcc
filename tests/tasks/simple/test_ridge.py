"""Ridge regression to classes: scores of examples left out, probabilities, and classes that are missing."""

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import log_softmax, softmax
from sklearn.linear_model import Ridge

from selfpretrain.data.spec import Classes, ClassSets, Reals
from selfpretrain.tasks.simple.models import NEVER, fit_linear
from selfpretrain.tasks.simple.ridge import STRENGTHS, RidgeModel, fit_ridge

ABC = Classes(("a", "b", "c"))


def examples(n, features, classes=3, shift=1.0):
    random = np.random.RandomState(0)
    y = np.arange(n) % classes
    x = random.randn(n, features) + shift * np.eye(classes, features)[y] + 5
    return x, y, random.rand(n) + 0.1


def left_out(x, y, weights, strength):
    """Scores of every example by ridge regression on all others."""
    signs = 2.0 * np.eye(y.max() + 1)[y] - 1
    scores = []
    for row in range(len(x)):
        others = np.arange(len(x)) != row
        scores.append(
            Ridge(alpha=strength).fit(x[others], signs[others], weights[others]).predict(x[[row]])[0]
        )
    return np.array(scores)


@pytest.mark.parametrize("features", [4, 40])
def test_strength_and_scale_have_the_least_log_loss_of_examples_left_out(features):
    x, y, weights = examples(18, features, shift=3.0)
    expected = (18 * np.eye(3)[y] + 1 / 3) / 19
    found = {}
    for strength in (0.1, 1.0, 10.0):
        scores = left_out(x, y, weights, strength)
        best = minimize(
            lambda scale, z=scores: -(weights @ (expected * log_softmax(scale * z, axis=1)).sum(1)), 1.0
        )
        ridge = Ridge(alpha=strength).fit(x, 2.0 * np.eye(3)[y] - 1, weights)
        found[strength] = best.fun, best.x[0] * ridge.predict(x)
    for strengths in ((0.1,), (1.0,), (10.0,), tuple(found)):
        _, scores = min((found[each] for each in strengths), key=lambda each: each[0])
        np.testing.assert_allclose(fit_ridge(x, y, weights, ABC, strengths).scores(x), scores, rtol=0.02)


@pytest.mark.parametrize(("shift", "low", "high"), [(0.0, 0.3, 0.5), (9.0, 0.9, 1.0)])
def test_probabilities_are_as_sure_as_examples_left_out_allow(shift, low, high):
    x, y, weights = examples(30, 60, shift=shift)
    sure = softmax(fit_ridge(x, y, weights, ABC, STRENGTHS).scores(x), axis=1)[np.arange(30), y]
    assert low < sure.min() and sure.max() < high


@pytest.mark.parametrize(("factor", "least"), [(1.0, 0.0), (1e-3, 0.0), (1e3, 0.5)])
def test_heavy_examples_count_more(factor, least):
    x, y, _ = examples(30, 5, classes=2, shift=0.5)
    weights = np.where(y == 1, factor, 1.0)
    share = (fit_ridge(x, y, weights, Classes(("a", "b")), STRENGTHS).scores(x).argmax(1) == 1).mean()
    assert least <= share and (share < 0.5 if factor < 1 else share > 0.3)


def test_classes_that_are_missing_are_never_the_answer():
    x, y, weights = examples(20, 50, classes=2)
    found = fit_ridge(x, y, weights, ABC, STRENGTHS)
    assert (found.bias[2], np.abs(found.coef[:, 2]).max()) == (NEVER, 0.0)
    assert (found.scores(x)[:, :2].argmax(1) == y).all()
    alone = fit_ridge(x, np.ones(20, int), weights, ABC, STRENGTHS)
    assert alone.bias.tolist() == [NEVER, 0.0, NEVER] and not alone.coef.any()


def test_an_example_alone_in_its_class_is_known():
    x, y, weights = examples(3, 50, shift=20.0)
    found = fit_ridge(x, y, np.ones_like(weights), ABC, STRENGTHS)
    assert softmax(found.scores(x), axis=1)[np.arange(3), y].min() > 0.6


def test_sets_have_a_model_of_every_class():
    x, y, weights = examples(30, 5)
    sets = np.eye(3, dtype=int)[y]
    found = fit_ridge(x, sets, np.tile(weights[:, None], 3), ClassSets(("a", "b", "c")), STRENGTHS)
    assert isinstance(found, RidgeModel)
    for k in range(3):
        of_two = fit_ridge(x, sets[:, k], weights, Classes(("no", "yes")), STRENGTHS).scores(x)
        np.testing.assert_allclose(found.scores(x)[:, k], of_two[:, 1] - of_two[:, 0])


def test_numbers_are_fitted_as_by_linear_models():
    x, y, weights = examples(30, 5)
    found, expected = (
        fit(x, 2.0 * y, weights, Reals(centre=1.0, spread=2.0), 0.1) for fit in (fit_ridge, fit_linear)
    )
    assert (found.coef == expected.coef).all() and found.kind == expected.kind
