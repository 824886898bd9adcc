"""The handwritten digits: sizes, pixels, nested subsets."""

import numpy as np
import pydantic
import pytest

from selfpretrain.data.spec import SPLITS
from selfpretrain.tasks.digits import Digits


def test_all_images_are_used_once_in_stratified_splits():
    from sklearn.datasets import load_digits

    splits = [Digits().load(split) for split in SPLITS]
    assert [len(s) for s in splits] == [1000, 300, 497]
    assert all((s.targets.bincount() / len(s) - 0.1).abs().max() < 0.01 for s in splits)
    ours = np.concatenate([s.flat.numpy().reshape(-1, 64) for s in splits])
    labels = np.concatenate([s.targets.numpy() for s in splits])
    images, digits = load_digits(return_X_y=True)
    rows = np.lexsort(np.c_[images, digits].T)
    again = np.lexsort(np.c_[ours, labels].T)
    np.testing.assert_array_equal(images[rows], ours[again])
    np.testing.assert_array_equal(digits[rows], labels[again])


def test_labels_beyond_train_are_refused():
    with pytest.raises(pydantic.ValidationError, match="lower it"):
        Digits(train=100, labels=200)
    with pytest.raises(pydantic.ValidationError, match="1000 training images"):
        Digits(train=1001)
