"""The conventions of scikit-learn, by its own checks; each exception has a reason."""

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from selfpretrain.estimators.classifier import SequenceClassifier
from selfpretrain.estimators.pretrainer import SequencePretrainer
from selfpretrain.estimators.regressor import SequenceRegressor

SMALL = {"width": 16, "depth": 1, "pretrain_epochs": 0.2, "lr": 1e-2, "mixer": "attention"}

EXCEPTIONS = {
    "check_do_not_raise_errors_in_init_or_set_params": "the tests of this package check every argument's "
    "type on entry, which its users' programs do not",
    "check_sample_weight_equivalence_on_dense_data": "an example of weight two is drawn once per epoch and "
    "counts twice, its copies are drawn in two batches: equal on average, not to the digit",
    "check_methods_subset_invariance": "networks answer in single precision; with another batch around a "
    "sequence, its answer differs by some 1e-7, of which the check allows one",
}


@parametrize_with_checks(
    [
        SequenceClassifier(epochs=12, **SMALL),
        SequenceRegressor(epochs=80, **SMALL),
        SequencePretrainer(**SMALL),
    ],
    expected_failed_checks=lambda estimator: EXCEPTIONS,
)
@pytest.mark.filterwarnings("ignore")
def test_check(estimator, check):
    check(estimator)
