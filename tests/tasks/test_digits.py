"""The handwritten digits: sizes, pixels, nested subsets."""

import hashlib

import numpy as np
import pydantic
import pytest
import torch

from selfpretrain.data.spec import SPLITS
from selfpretrain.tasks.digits import Digits


def test_all_images_are_used_once():
    from sklearn.datasets import load_digits

    splits = [Digits().load(split) for split in ("train", "val", "test")]
    assert [len(s) for s in splits] == [1000, 300, 497]
    ours = np.concatenate([s.flat.numpy().reshape(-1, 64) for s in splits])
    labels = np.concatenate([s.targets.numpy() for s in splits])
    images, digits = load_digits(return_X_y=True)
    rows = np.lexsort(np.c_[images, digits].T)
    again = np.lexsort(np.c_[ours, labels].T)
    np.testing.assert_array_equal(images[rows], ours[again])
    np.testing.assert_array_equal(digits[rows], labels[again])


def test_splits_are_stratified():
    for split, size in (("train", 1000), ("val", 300), ("test", 497)):
        counts = Digits().load(split).targets.bincount()
        assert (counts / size - 0.1).abs().max() < 0.01


def test_the_division_never_changes():
    """Frozen: another division would change every published figure."""
    digests = [d for split in SPLITS for d in Digits().load(split).digests()]
    assert hashlib.sha256("".join(digests).encode()).hexdigest().startswith("d6a9ed935115752b")
    assert Digits(split_seed=1).load("val").digests() != Digits().load("val").digests()


def test_fewer_images_are_a_part_of_more():
    assert Digits(train=100).load("train").digests() == Digits(train=400).load("train").digests()[:100]


def test_labels_beyond_train_are_refused():
    with pytest.raises(pydantic.ValidationError, match="lower it"):
        Digits(train=100, labels=200)
    with pytest.raises(pydantic.ValidationError, match="1000 training images"):
        Digits(train=1001)


def test_form_is_measured_on_train():
    x = Digits(train=200).load("train").batch(torch.arange(200)).inputs
    assert Digits(train=200).form.signal.centre[0] == pytest.approx(float(x.mean()), rel=1e-5)
