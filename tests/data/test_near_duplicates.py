"""Sequences that share most of their content are found, and no others: what sketches propose is looked at."""

import numpy as np
import pytest

from selfpretrain.data import near_duplicates
from selfpretrain.tasks.pathfinder import Pathfinder


def sketches(sequences):
    flat, lengths = np.concatenate(sequences), np.array([len(s) for s in sequences])
    return near_duplicates.fingerprints(flat, lengths)[1]


def similar(held, train):
    found = near_duplicates.find_similar(
        sketches(held), sketches(train), lambda i: held[i], lambda i: train[i]
    )
    return found.tolist()


def windows(random, count, stride, length=200):
    long = random.rand(count * stride + length)
    return [long[i * stride : i * stride + length] for i in range(count)]


def test_what_is_found_is_alike(random):
    some = windows(random, 120, 30)
    held, train = some[::3], some[1::3] + some[2::3]
    found = similar(held, train)
    assert len(found) > 0.9 * len(held)  # neighbours share 85 % of their positions
    assert all(
        any(near_duplicates.shared_fraction(held[i], other) >= near_duplicates.MIN_SHARED for other in train)
        for i in found
    )
    strangers = windows(random, 40, 500)
    assert similar(strangers, train) == []


def test_images_on_one_background_are_not(home):
    images = Pathfinder(train=600, val=5, test=5).load("train")
    rows = [images.sequence(row) for row in range(len(images))]
    held, train = rows[:150], rows[150:]
    assert (
        len(near_duplicates._candidates(sketches(held), sketches(train))) > 0
    )  # runs of background are shared
    assert similar(held, train) == []


@pytest.mark.parametrize("looks", [7, 20])
def test_of_many_some_speak_for_the_others(random, monkeypatch, looks):
    some = windows(random, 300, 30)
    held, train = some[::3] + windows(random, 100, 500), some[1::3]
    everything = similar(held, train)
    monkeypatch.setattr(near_duplicates, "MAX_COMPARED", looks)
    looked = []
    monkeypatch.setattr(near_duplicates, "shared_fraction", lambda a, b: looked.append(1) or 1.0)
    guessed = similar(held, train)
    assert len(looked) <= looks
    assert abs(len(guessed) - len(everything)) <= 5


def test_short_sequences_and_empty_splits_have_nothing_in_common(random):
    short = [random.rand(10) for _ in range(5)]
    assert similar(short, short) == []
    none, some = np.zeros((0, near_duplicates.SKETCHES), np.uint64), sketches(windows(random, 5, 30))
    for pair in ((some, none), (none, some)):  # of which no sequence is looked at
        assert near_duplicates.find_similar(*pair, [].__getitem__, [].__getitem__).tolist() == []
