"""Pooling as a setting: networks are trained, embed, and are saved with any of them."""

import numpy as np
import pytest

from selfpretrain import SequenceClassifier, SequencePretrainer

random = np.random.default_rng(0)
X = [random.integers(2, size=length) for length in random.integers(6, 12, size=60)]
y = np.array([row[0] for row in X])
POOLINGS = ("mean", "max", "last", "attention")


@pytest.fixture(scope="module")
def models():
    return {
        each: SequenceClassifier(mixer="attention", scale="smoke", pooling=each).fit(X, y)
        for each in POOLINGS
    }


def test_poolings_differ(models):
    answers = [model.predict_proba(X) for model in models.values()]
    assert not any(np.allclose(a, b) for i, a in enumerate(answers) for b in answers[:i])
    assert "query" in "".join(models["attention"].predictor_.networks[0].state_dict())


@pytest.mark.parametrize("pooling", POOLINGS)
def test_saved_models_answer_the_same(models, pooling, tmp_path):
    models[pooling].save(tmp_path / "model")
    again = SequenceClassifier.load(tmp_path / "model")
    np.testing.assert_allclose(again.predict_proba(X), models[pooling].predict_proba(X), atol=1e-6)


@pytest.mark.parametrize("pooling", POOLINGS)
def test_pretrained_networks_embed_with_every_pooling(pooling):
    vectors = SequencePretrainer(mixer="attention", scale="smoke", pooling=pooling).fit(X).transform(X)
    assert vectors.shape == (60, 16) and np.isfinite(vectors).all()
