"""Recall, selective copying and state tracking: classes are right, and sequences differ."""

from collections import Counter
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
import torch

from selfpretrain.errors import SpecError
from selfpretrain.objectives.token_classify import TokenClassify
from selfpretrain.studies.recipes.arms import supervised_objective
from selfpretrain.tasks.base import load_task
from selfpretrain.tasks.recall import Recall
from selfpretrain.tasks.selective_copying import SelectiveCopying
from selfpretrain.tasks.state_tracking import StateTracking, products

ABILITIES = ["recall", "selective-copying", "state-tracking"]
FEW = {"train": 30, "val": 10, "test": 10}
EIGHT = dict.fromkeys(FEW, 8)


@pytest.fixture(params=ABILITIES)
def task(request):
    return load_task(request.param).tiny()


def rows(task, split="train"):
    """Tokens as text and classes of every sequence; None where nothing is asked."""
    examples = task.load(split)
    names = task.form.target.names
    batch = examples.batch(torch.arange(len(examples)))
    for tokens, classes in zip(batch.inputs.tolist(), batch.targets.tolist(), strict=True):
        text = [task.symbols()[token].strip() for token in tokens]
        yield text, [None if c < 0 else names[c] for c in classes]


def test_every_sequence_asks_and_a_budget_of_labels_keeps_the_first_ones(task):
    asked = {tuple(c is not None for c in classes) for _, classes in rows(task)}
    assert len(asked) == 1 and any(*asked)
    assert isinstance(supervised_objective(task), TokenClassify)
    assert replace(task, seed=1).load("test").digests() != task.load("test").digests()
    some = replace(task, labels=5).load("train")
    full = task.load("train")
    assert some.labelled.tolist() == [True] * 5 + [False] * (len(full) - 5)
    assert torch.equal(some.targets[:5], full.targets[:5]) and some.digests() == full.digests()


@pytest.mark.parametrize("shown", [1, 2, 3])
def test_recalled_values_are_those_of_their_keys(shown):
    for text, classes in rows(Recall(pairs=3, keys=5, values=4, shown=shown, **FEW)):
        pairs = list(zip(text[: 6 * shown : 2], text[1 : 6 * shown : 2], strict=True))
        value_of = dict(pairs)
        assert set(Counter(pairs).values()) == {shown} and len(value_of) == 3
        assert sorted(text[6 * shown :]) == sorted(value_of)
        assert classes[: 6 * shown] == [None] * 6 * shown
        assert classes[6 * shown :] == [value_of[key] for key in text[6 * shown :]]


def test_what_cannot_be_is_refused():
    with pytest.raises(ValueError, match="keys=4 are fewer"):
        Recall(pairs=5, keys=4)
    with pytest.raises(ValueError, match="do not fit"):
        SelectiveCopying(length=3, copied=4)
    with pytest.raises(SpecError, match="only 8 different sequences"):
        replace(StateTracking(shown=0, asked=3), **EIGHT).load("test")


@pytest.mark.parametrize("rounds", [1, 2])
def test_copied_symbols_are_those_of_the_round_in_order(rounds):
    task = SelectiveCopying(length=6, copied=3, alphabet=4, rounds=rounds, **FEW)
    for text, classes in rows(task):
        for number in range(rounds):
            part = text[9 * number : 9 * number + 9]
            symbols = [symbol for symbol in part[:6] if symbol != "."]
            copy = classes[-3:] if number == rounds - 1 else part[6:]
            assert symbols == copy
        assert text[-3:] == ["?"] * 3 and set(classes[:-3]) == {None}


def test_as_many_sequences_as_there_are_can_be_asked_for():
    wanted = {"shown": 0, "asked": 6, "train": 40, "val": 12, "test": 12}
    assert len(StateTracking(**wanted).load("train")) == 40  # of 64 that differ


def test_more_labels_than_sequences_are_refused(task):
    with pytest.raises(SpecError, match=f"labels={task.train + 1} of train={task.train}"):
        replace(task, labels=task.train + 1).load("train")


def test_places_of_symbols_are_all_equally_frequent():
    task = SelectiveCopying(length=6, copied=3, train=4000, val=1, test=1)
    tokens = task.load("train").batch(torch.arange(4000)).inputs
    assert ((tokens[:, :6] < 8).float().mean(0) - 0.5).abs().max() < 0.04


def test_parity_is_that_of_all_ones_so_far():
    for text, classes in rows(StateTracking(shown=3, asked=5, **FEW)):
        elements = [*text[:6:2], *text[6:]]
        states = ["odd" if elements[: t + 1].count("odd") % 2 else "even" for t in range(8)]
        assert [state.strip("[]") for state in text[1:6:2]] == states[:3]
        assert classes == [None] * 6 + states[3:]


def test_states_of_s5_are_moved_by_one_permutation_after_the_other():
    for text, classes in rows(StateTracking(group="s5", shown=0, asked=6, **FEW)):
        state = "12345"
        for element, expected in zip(text, classes, strict=True):
            state = "".join(element[int(point) - 1] for point in state)
            assert state == expected


@pytest.mark.parametrize(("group", "size"), [("parity", 2), ("s3", 6), ("s4", 24), ("s5", 120)])
def test_the_table_is_that_of_a_group(group, size):
    table = products(group)
    assert table.shape == (size, size)
    assert np.array_equal(table[0], np.arange(size)) and np.array_equal(table[:, 0], np.arange(size))
    assert all(len(set(line)) == size for line in (*table, *table.T))
    some = np.random.RandomState(0).randint(size, size=(50, 3))
    for a, b, c in [*some, *product(range(2), repeat=3)]:
        assert table[table[a, b], c] == table[a, table[b, c]]
    assert (table == table.T).all() == (group == "parity")
