"""The conventions of scikit-learn, by its own checks; each exception has a reason."""

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from selfpretrain.estimators.classifier import SequenceClassifier
from selfpretrain.estimators.pretrainer import SequencePretrainer
from selfpretrain.estimators.regressor import SequenceRegressor

SMALL = {"width": 16, "depth": 1, "pretrain_epochs": 1, "epochs": 30, "lr": 1e-2, "mixer": "s4d"}

EXCEPTIONS: dict[str, str] = {}


@parametrize_with_checks(
    [
        SequenceClassifier(**SMALL),
        SequenceRegressor(**SMALL),
        SequencePretrainer(width=16, depth=1, pretrain_epochs=1),
    ],
    expected_failed_checks=lambda estimator: EXCEPTIONS,
)
@pytest.mark.filterwarnings("ignore")
def test_check(estimator, check):
    check(estimator)
