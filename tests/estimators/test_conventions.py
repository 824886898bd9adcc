"""The conventions of scikit-learn, by its own checks; each exception has a reason."""

import pickle

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.utils import estimator_checks
from sklearn.utils.estimator_checks import parametrize_with_checks

from selfpretrain.estimators.models import (
    MultilabelClassifier,
    PositionClassifier,
    SequenceClassifier,
    SequencePretrainer,
    SequenceRegressor,
)

ALONE = {"model": "network", "n_trials": 1}
SMALL = {"width": 16, "depth": 1, "pretrain_epochs": 0.2, "lr": 1e-2, "mixer": "attention"} | ALONE
SMALL |= {"scale": "smoke", "batch_size": 16}  # nothing is timed before it is trained

EXCEPTIONS = {
    "check_do_not_raise_errors_in_init_or_set_params": "the tests of this package check every argument's "
    "type on entry, which its users' programs do not",
    "check_sample_weight_equivalence_on_dense_data": "an example of weight two is drawn once per epoch and "
    "counts twice, its copies are drawn in two batches: equal on average, not to the digit",
    "check_methods_subset_invariance": "networks answer in single precision; with another batch around a "
    "sequence, its answer differs by some 1e-7, of which the check allows one",
}


BY_TARGET = ("classif", "class_weight", "regress", "sample_weight", "supervised", "requires_y", "score")
"""Words in the names of checks whose path differs by the kind of target.

The others are about parameters, types of arrays, copies and states: code of the common base class, through
which one estimator with labels goes and one without; and so are the variants of a check with other arrays.
"""
LEARNS = {"check_classifiers_classes": 12, "check_classifiers_train": 6, "check_regressors_train": 40}
LEARNS |= {"check_class_weight_classifiers": 12}
"""Epochs for the checks that ask for right answers."""


@parametrize_with_checks(
    [SequenceClassifier(epochs=1, **SMALL), SequencePretrainer(**SMALL)],
    expected_failed_checks=lambda estimator: EXCEPTIONS,
)
@pytest.mark.filterwarnings("ignore")
def test_check(estimator, check):
    if check.func.__name__ in LEARNS:
        estimator = clone(estimator).set_params(epochs=LEARNS[check.func.__name__])
    check(estimator)


@pytest.mark.slow
@parametrize_with_checks(
    [SequenceClassifier(epochs=1, **SMALL | {"model": "best", "scale": "auto"})],
    expected_failed_checks=lambda estimator: EXCEPTIONS,
)
@pytest.mark.filterwarnings("ignore")
def test_check_beside_simple_methods(estimator, check):
    check(estimator)


@pytest.mark.parametrize(
    "check",
    [
        check
        for _, check in estimator_checks.estimator_checks_generator(SequenceRegressor(**SMALL))
        if any(word in check.func.__name__ for word in BY_TARGET)
        and check.func.__name__ not in EXCEPTIONS
        and "not_an_array" not in check.func.__name__
        and not check.keywords
    ],
    ids=lambda check: check.func.__name__,
)
@pytest.mark.filterwarnings("ignore")
def test_check_of_numbers(check):
    check(SequenceRegressor(epochs=LEARNS.get(check.func.__name__, 1), **SMALL))


WITHOUT_LABELS = (
    "check_estimator_cloneable",
    "check_estimator_repr",
    "check_get_params_invariance",
    "check_mixin_order",
    "check_no_attributes_set_in_init",
    "check_parameters_default_constructible",
    "check_set_params",
)
"""Checks that hold for several labels, too; the others fit one label for each row, which these refuse."""


@pytest.mark.parametrize("kind", [MultilabelClassifier, PositionClassifier])
@pytest.mark.parametrize("name", WITHOUT_LABELS)
def test_check_of_several_labels(kind, name):
    getattr(estimator_checks, name)(kind.__name__, kind(**SMALL))


@pytest.mark.parametrize("kind", [MultilabelClassifier, PositionClassifier])
def test_what_checks_of_fitted_estimators_ask_holds_for_several_labels(kind):
    random = np.random.RandomState(0)
    x, y = random.randn(30, 6), np.array([[1, 0, 1, 0, 0, 1], [0, 1, 0, 1, 1, 0]] * 15)
    model = kind(scale="smoke")
    with pytest.raises(NotFittedError):
        model.predict(x)
    before = model.get_params()
    assert model.fit(x, y) is model and model.get_params() == before
    assert model.n_features_in_ == 6
    with pytest.raises(ValueError, match="X has 5 features, but"):
        model.predict(x[:, :5])
    again = pickle.loads(pickle.dumps(model))  # as programs that search settings in parallel do
    np.testing.assert_array_equal(again.predict(x), model.predict(x))
    np.testing.assert_array_equal(kind(scale="smoke").fit(x, y).predict(x), model.predict(x))
    with pytest.raises(ValueError, match="requires y to be passed"):
        kind(scale="smoke").fit(x)
