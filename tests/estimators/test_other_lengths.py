"""Simple methods on equally long sequences take others to predict, as networks do."""

import numpy as np
import pytest

from selfpretrain import SequenceClassifier
from selfpretrain.estimators.simple import SimplePredictor
from selfpretrain.tasks.simple.features import FlatValues, Symbols
from selfpretrain.tasks.simple.methods import BOOSTED, LINEAR, Method

QUICK = {"width": 8, "depth": 1, "epochs": 0.2, "pretrain_epochs": 0.1, "n_trials": 1, "model": "network"}
RANDOM = np.random.RandomState(0)
Y = np.arange(60) % 2


def with_simple(model, method, setting):
    """The estimator with a simple method in the place of its network."""
    labelled = model.task_.load("train")
    form = model.predictor_.form
    features = method.measured(labelled).fitted(labelled)
    fitted = method.fitted(form, features.transform(labelled), labelled, setting)
    model.simple_, model.shares_ = (SimplePredictor(form, features, fitted),), (0.0, 1.0)
    return model


def same_after_saving(model, rows, folder):
    found = model.predict_proba(rows)
    again = type(model).load(model.save(folder))
    assert np.isfinite(found).all() and found.shape == (len(rows), 2)
    np.testing.assert_array_equal(again.predict_proba(rows), found)
    return found


def test_a_row_whose_end_is_missing_is_answered_as_if_it_had_the_mean_there(tmp_path):
    x = RANDOM.randn(60, 12).astype(np.float32) + Y[:, None]
    model = with_simple(SequenceClassifier(**QUICK).fit(x, Y), Method(FlatValues, LINEAR, (1.0,)), 1.0)
    ended, filled = x.copy(), x.copy()
    ended[:5, -3:] = np.nan
    filled[:5, -3:] = model.simple_[0].features.mean[-3:]
    found = same_after_saving(model, ended, tmp_path / "model")
    np.testing.assert_allclose(found, model.predict_proba(filled), atol=1e-6)
    ragged = [row[~np.isnan(row)] for row in ended]
    np.testing.assert_array_equal(model.predict_proba(ragged), found)


@pytest.mark.filterwarnings("ignore:.*cut to the")
def test_sequences_of_symbols_of_other_lengths_are_answered(tmp_path):
    x = [[*RANDOM.randint(0, 5, 9), int(k)] for k in Y]
    fitted = SequenceClassifier(**QUICK, signal="tokens").fit(x, Y)
    model = with_simple(fitted, Method(Symbols, BOOSTED, (2,)), 2)
    other = [x[0][:1], x[1][:9], x[2], [*x[3], 1, 2, 3]]
    found = same_after_saving(model, other, tmp_path / "model")
    np.testing.assert_array_equal(found[2:], model.predict_proba(x[2:4]))
