"""A task of other code whose examples are not what it says is refused in one line, before anything trains."""

from dataclasses import replace

import numpy as np
import pytest
import torch

import toys
from selfpretrain.cli import app
from selfpretrain.data.agreement import check_examples, check_repeats
from selfpretrain.data.dataset import SequenceDataset
from selfpretrain.data.spec import Classes, ClassSets, PositionClasses, Reals, SequenceSpec, Tokens, Values
from selfpretrain.errors import DataError

X = np.arange(12).reshape(4, 3) % 2
Y = np.array([0, 1, 1, 0])
TOKENS = SequenceSpec(Tokens(2), 3, Classes(("a", "b")))
VALUES = replace(TOKENS, signal=Values(2))
SOUND = SequenceDataset.from_array(X, Y)


def said(form, data, split="train"):
    try:
        check_examples("mine", split, form, data)
    except DataError as error:
        return str(error)
    return ""


@pytest.mark.parametrize(
    ("data", "what"),
    [
        (SequenceDataset.from_array(X[:0], Y[:0]), "there are no examples"),
        (SequenceDataset.from_array(X, Y[:3]), "there are 3 targets for 4 sequences"),
        (SequenceDataset.from_array(X[:, :0], Y), "example 0 has 0 positions"),
        (SequenceDataset.from_sequences([*X, np.zeros(4, int)], [0, 1, 1, 0, 1] * np.ones(5, int)),
         "example 4 has 4 positions, and form.length allows 1 to 3"),
        (SequenceDataset.from_array(X + (Y == 1)[:, None], Y), "example 1 has symbols that do not fit"),
        (SequenceDataset.from_array(X - 1, Y), "form.signal allows integers from 0 to 1"),
        (SequenceDataset.from_array(X + 0.5, Y), "form.signal allows integers from 0 to 1"),
        (SequenceDataset.from_array(X[..., None], Y), "symbols are of shape (1,) at every position"),
        (SequenceDataset.from_array(X, Y + 1), "example 1 has target 2; form.target allows 0 to 1"),
        (SequenceDataset.from_array(X, Y - 2), "example 0 has target -2"),
        (SequenceDataset.from_array(X, Y + 0.5), "targets are torch.float32 of shape (4,)"),
        (SequenceDataset.from_array(X, Y[:, None]), "classes are integers of shape (n,)"),
        (SequenceDataset.from_array(X, 2 * Y - 1),
         "every labelled example is of class 'b', and 2 have target -1, which means no label"),
        (replace(SOUND, starts=SOUND.starts.repeat(2, 1), lengths=SOUND.lengths.repeat(2, 1)),
         "an example has 2 sequences, and form.views says 1"),
    ],
)  # fmt: skip
def test_the_first_wrong_example_is_named(data, what):
    assert said(TOKENS, data).startswith("mine, train: ") and what in said(TOKENS, data)


@pytest.mark.parametrize("kind", ["u1", "i2", "u2", "u4", "i8", "f4", "?"])
@pytest.mark.parametrize("vocab", [2, 256, 257, 50_000])
def test_symbols_of_every_type_are_compared_as_numbers(kind, vocab):
    """A vocabulary that the type cannot hold is no reason to refuse them."""
    flat = torch.from_numpy((np.arange(12) * 21 % min(vocab, 255)).astype(kind))
    data = replace(SOUND, flat=flat)
    assert said(replace(TOKENS, signal=Tokens(vocab)), data) == ""
    assert kind == "?" or "integers from 0 to 0" in said(replace(TOKENS, signal=Tokens(1)), data)


@pytest.mark.parametrize("kind", [torch.uint8, torch.int8, torch.int32])
def test_classes_of_every_type_are_compared_as_numbers(kind):
    assert said(TOKENS, replace(SOUND, targets=SOUND.targets.to(kind))) == ""
    assert "has target 2" in said(TOKENS, replace(SOUND, targets=(SOUND.targets + 1).to(kind)))


def test_pretraining_needs_no_two_classes():
    one = SequenceDataset.from_array(X, 0 * Y)
    assert "of class 'a'" in said(TOKENS, one)
    check_examples("mine", "train", TOKENS, one, labelled=False)


def test_values_are_finite_and_of_as_many_channels_as_the_spec_says():
    x = np.zeros((4, 3, 2))
    assert said(VALUES, SequenceDataset.from_array(x, Y)) == ""
    assert "(length, 2)" in said(VALUES, SequenceDataset.from_array(x[..., 0], Y))
    assert "(length, 2)" in said(VALUES, SequenceDataset.from_array(x[..., :1], Y))
    x[2, 1, 1] = np.nan
    assert "example 2 has values that do not fit" in said(VALUES, SequenceDataset.from_array(x, Y))


def test_other_targets():
    reals, sets = replace(TOKENS, target=Reals("y")), replace(TOKENS, target=ClassSets(("a", "b")))
    places = replace(TOKENS, target=PositionClasses(("a", "b")))
    assert said(reals, SequenceDataset.from_array(X, Y * 1.0)) == ""
    assert "reals are floats" in said(reals, SOUND), "negative ones would count as missing"
    assert said(sets, SequenceDataset.from_array(X, X[:, :2])) == ""
    assert "has target [0, 2]" in said(sets, SequenceDataset.from_array(X, 2 * X[:, :2]))
    assert said(places, SequenceDataset.from_array(X, X)) == ""
    assert "positions are integers of shape (n, ...)" in said(places, SOUND)


def test_targets_that_leave_no_score_are_refused():
    reals = replace(TOKENS, target=Reals("y"))
    for split in ("train", "val", "test"):
        assert "all targets are 3, so that" in said(reals, SequenceDataset.from_array(X, Y * 0 + 3.0), split)
    assert "targets are infinite" in said(reals, SequenceDataset.from_array(X, Y * 1.0 + [0, 0, 0, np.inf]))


def test_a_split_is_the_same_whenever_it_is_loaded():
    check_repeats("mine", "train", "key", SOUND)
    check_repeats("mine", "train", "key", SequenceDataset.from_array(X, Y))
    check_repeats("mine", "val", "key", SequenceDataset.from_array(X, 1 - Y))
    said = r"mine, train: load gives other examples or another order each time; .* let version\(\) tell"
    with pytest.raises(DataError, match=said):
        check_repeats("mine", "train", "key", SequenceDataset.from_array(X[::-1], Y))


def test_sound_examples_pass_also_where_unused_positions_are_wrong():
    assert said(TOKENS, SOUND) == ""
    assert said(TOKENS, SequenceDataset.from_array(X.astype(np.uint8), Y)) == ""
    assert said(TOKENS, replace(SOUND, flat=torch.cat([SOUND.flat, torch.tensor([7])]))) == ""
    assert said(TOKENS, SequenceDataset.from_array(X, Y * 0), "test") == "", "a small split may lack a class"


@pytest.mark.parametrize(("split", "labels", "what"), [
    ("train", lambda y: 2 * y - 1, "majority, train: every labelled example is of class"),
    ("val", lambda y: y * 0 - 1, "majority, val: no example has a label"),
    ("test", lambda y: y + 1, "majority, test: example"),
    ("test", lambda y: y[:0], "majority, test: there are no examples"),
])  # fmt: skip
def test_a_comparison_on_such_a_task_is_refused_before_it_trains(
    split, labels, what, tmp_path, capsys, monkeypatch
):
    load = toys.Majority.load

    def wrong(task, name):
        data = load(task, name)
        if name != split:
            return data
        targets = labels(data.targets)
        kept = len(targets)
        return replace(data, targets=targets, starts=data.starts[:, :kept], lengths=data.lengths[:, :kept])

    monkeypatch.setattr(toys.Majority, "load", wrong)
    command = ["compare", "--task", "toys:Majority", "--mixers", "attention", "--scale", "smoke"]
    assert app.run([*command, "--runs", str(tmp_path)]) != 0
    assert what in capsys.readouterr().err and not list(tmp_path.glob("stages/*/recipe.json"))
