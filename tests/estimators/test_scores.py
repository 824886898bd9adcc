"""Metrics of class probabilities are those of scikit-learn, also with ties and absent classes."""

import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn import metrics

from selfpretrain.estimators.scores import bootstrap, class_measures


@given(st.integers(2, 6), st.integers(2, 60), st.integers(1, 9), st.integers(0, 2**32 - 1))
def test_measures_of_classes_are_those_of_scikit_learn(n_classes, n, levels, seed):
    random = np.random.default_rng(seed)
    y_true = random.integers(0, random.integers(1, n_classes + 1), n)
    probabilities = random.integers(1, levels + 1, (n, n_classes)).astype(float)  # few levels: many ties
    probabilities /= probabilities.sum(1, keepdims=True)
    y_pred = probabilities.argmax(1)
    found = class_measures(y_true, probabilities)
    expected = {
        "accuracy": metrics.accuracy_score(y_true, y_pred),
        "balanced accuracy": metrics.recall_score(y_true, y_pred, average="macro", labels=np.unique(y_true)),
        "macro F1": metrics.f1_score(y_true, y_pred, average="macro", zero_division=0),
        "log loss": metrics.log_loss(y_true, probabilities, labels=np.arange(n_classes)),
    }
    if len(np.union1d(y_true, y_pred)) > 1:  # otherwise scikit-learn warns
        expected["MCC"] = metrics.matthews_corrcoef(y_true, y_pred)
    scorable = [k for k in np.unique(y_true) if (y_true == k).sum() < n]
    if scorable:
        scored = scorable if n_classes > 2 else scorable[-1:]
        pairs = [(y_true == k, probabilities[:, k]) for k in scored]
        expected["AUROC"] = np.mean([metrics.roc_auc_score(*pair) for pair in pairs])
        expected["average precision"] = np.mean([metrics.average_precision_score(*pair) for pair in pairs])
    else:
        assert np.isnan(found["AUROC"]) and np.isnan(found["average precision"])
    for measure, value in expected.items():
        assert found[measure] == pytest.approx(value), measure


def test_a_resample_of_one_class_has_no_correlation_and_warns_of_nothing():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = class_measures(np.zeros(3, dtype=np.int64), np.array([[0.9, 0.1]] * 3))
    assert found["MCC"] == 0.0


def test_one_example_or_one_group_has_no_interval():
    y, probabilities = np.arange(30) % 2, np.full((30, 2), 0.5)
    several = bootstrap(class_measures, (y, probabilities), np.arange(30) // 3)["accuracy"]
    assert several.low < several.value < several.high
    for rows, groups, draws in ((slice(1), None, 9), (slice(None), np.zeros(30), 9), (slice(None), None, 0)):
        for score in bootstrap(class_measures, (y[rows], probabilities[rows]), groups, draws).values():
            assert np.isnan([score.low, score.high]).all()
