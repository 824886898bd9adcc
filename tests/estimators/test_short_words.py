"""Words of a few letters, of which few have a label: batches in which no letter is hidden."""

import numpy as np
import pytest

from selfpretrain.estimators.models import SequenceClassifier

LETTERS = np.array(list("aeiounrst"))


@pytest.mark.parametrize("objective", ["masked", "causal"])
def test_short_words_with_few_labels_are_learned_from(objective):
    random = np.random.RandomState(0)
    words = ["".join(random.choice(LETTERS, random.randint(1, 5))) for _ in range(400)]
    y = ["f" if word[-1] in "aeiou" else "m" for word in words]
    y = [label if i < 300 else None for i, label in enumerate(y)]
    model = SequenceClassifier(
        objective=objective, batch_size=4, width=8, depth=1, epochs=0.2, pretrain_epochs=1
    )
    model.fit(words, y)
    assert model.predict(words[300:]).shape == (100,)
    assert np.isfinite(model.predict_proba(["a", "en", "rest"])).all()
