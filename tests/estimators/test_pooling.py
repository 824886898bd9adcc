"""Pooling as a setting: networks are trained, embed, and are saved with any of them."""

import numpy as np

from selfpretrain import SequenceClassifier, SequencePretrainer

random = np.random.default_rng(0)
X = [random.integers(2, size=length) for length in random.integers(6, 12, size=60)]
y = np.array([row[0] for row in X])


def test_every_pooling_is_trained_saved_and_embeds_and_all_differ(tmp_path):
    answers = []
    for pooling in ("mean", "max", "last", "attention"):
        how = {"mixer": "attention", "scale": "smoke", "pooling": pooling}
        model = SequenceClassifier(**how).fit(X, y)
        answers.append(model.predict_proba(X))
        again = SequenceClassifier.load(model.save(tmp_path / pooling))
        np.testing.assert_allclose(again.predict_proba(X), answers[-1], atol=1e-6)
        vectors = SequencePretrainer(**how).fit(X).transform(X)
        assert vectors.shape == (60, 16) and np.isfinite(vectors).all()
    assert not any(np.allclose(a, b) for i, a in enumerate(answers) for b in answers[:i])
    assert "query" in "".join(model.predictor_.networks[0].state_dict())
