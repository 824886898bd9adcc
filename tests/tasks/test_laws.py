"""Laws every task obeys; a file dropped on the shelf is tested without being named."""

import dataclasses
import json

import pytest
import torch

from selfpretrain import registry
from selfpretrain.data.spec import SPLITS, Classes, PositionClasses, Tokens, Values
from selfpretrain.tasks.base import Task


def tiny(name: str) -> Task:
    return registry.find("tasks", name)().tiny()


@pytest.fixture(scope="module", params=registry.names("tasks"))
def task(request):
    return tiny(request.param)


@pytest.fixture
def offline(monkeypatch):
    def refuse(*_):
        raise AssertionError("a tiny task went to the network")

    monkeypatch.setattr("socket.socket.connect", refuse)
    monkeypatch.setattr("socket.getaddrinfo", refuse)


def test_says_where_it_comes_from(task):
    assert task.card.source
    assert task.card.licence


def test_loads_offline_and_no_split_is_empty(task, offline):
    assert all(len(task.load(split)) for split in SPLITS)


def test_splits_are_disjoint(task):
    digests = [task.load(split).digests() for split in SPLITS]
    assert sum(len(set(d)) for d in digests) == len(set().union(*digests))


def test_splits_are_reproducible(task):
    again = tiny(registry.name_of(task))
    for split in SPLITS:
        assert task.load(split).digests() == again.load(split).digests()
        assert torch.equal(task.load(split).targets.nan_to_num(-9), again.load(split).targets.nan_to_num(-9))


def test_groups_never_span_splits(task):
    groups = [task.load(split).groups for split in SPLITS]
    if groups[0] is None:
        pytest.skip("no groups")
    train, val, test = (set(g.tolist()) for g in groups)
    assert not (train & val or train & test or val & test)


def test_targets_are_what_was_declared(task):
    for split in SPLITS:
        targets = task.load(split).targets
        if isinstance(task.form.target, Classes):
            assert targets.dtype == torch.int64
            assert -1 <= int(targets.min()) <= int(targets.max()) < len(task.form.target.names)
            assert len(targets[targets >= 0].unique()) >= 2
        elif isinstance(task.form.target, PositionClasses):
            assert targets.dtype == torch.int16
            assert targets.shape == (len(targets), task.form.length)
            assert -1 <= int(targets.min()) <= int(targets.max()) < len(task.form.target.names)
            assert len(targets[targets >= 0].unique()) >= 2
        else:
            assert targets.dtype == torch.float32
            assert not targets.isinf().any()
            assert targets[targets.isfinite()].std() > 0


def test_validation_and_test_are_labelled(task):
    assert task.load("val").labelled.any()
    assert task.load("test").labelled.any()


def test_lengths_are_what_was_declared(task):
    for split in SPLITS:
        examples = task.load(split)
        assert examples.views == task.form.views
        assert 1 <= int(examples.lengths.min()) <= int(examples.lengths.max()) <= task.form.length


def test_signal_is_what_was_declared(task):
    signal = task.form.signal
    for split in SPLITS:
        examples = task.load(split)
        batch = examples.batch(torch.arange(min(len(examples), 64)))
        if isinstance(signal, Tokens):
            assert batch.inputs.dtype == torch.int64
            assert 0 <= int(batch.inputs.min()) <= int(batch.inputs.max()) < signal.vocab
        else:
            assert batch.inputs.dtype == torch.float32
            assert batch.inputs.shape[-1] == signal.channels
            assert batch.inputs.isfinite().all()


def test_values_are_standardised_by_the_training_split(task):
    signal = task.form.signal
    if not isinstance(signal, Values):
        pytest.skip("tokens")
    assert len(signal.centre) == len(signal.spread) == signal.channels
    train = task.load("train")
    batch = train.batch(torch.arange(len(train)))
    x = batch.inputs[batch.real()]
    x = (x - torch.tensor(signal.centre)) / torch.tensor(signal.spread)
    assert x.mean(0).abs().max() < 0.05
    assert (x.std(0) - 1).abs().max() < 0.1


def test_levels_are_evenly_spaced(task):
    signal = task.form.signal
    if not isinstance(signal, Values) or signal.levels is None:
        pytest.skip("no levels")
    step = (signal.high - signal.low) / (signal.levels - 1)
    for split in SPLITS:
        level = (task.load(split).batch(torch.arange(20)).inputs - signal.low) / step
        assert torch.allclose(level, level.round(), atol=1e-4)
        assert 0 <= level.min() <= level.max() <= signal.levels - 1


def test_spec_survives_json(task):
    fields = json.loads(json.dumps(dataclasses.asdict(task)))
    again = type(task)(**fields)
    assert again == task
    assert hash(again) == hash(task)
    assert again.version() == task.version()


def test_shortcuts_answer_every_example(task):
    for cue in task.shortcuts().values():
        integers = cue(task.load("val"))
        assert integers.shape == (len(task.load("val")),)
        assert not integers.is_floating_point()


def test_label_budget_is_nested_and_stratified(task):
    if "labels" not in {field.name for field in dataclasses.fields(task)}:
        pytest.skip("no label budget")
    if not isinstance(task.form.target, Classes):
        pytest.skip("a budget of classes")
    classes = len(task.form.target.names)
    full = task.load("train")
    before = torch.zeros(len(full), dtype=torch.bool)
    for labels in (classes, 3 * classes, 5 * classes):
        some = dataclasses.replace(task, labels=labels).load("train")
        assert some.digests() == full.digests()
        assert int(some.labelled.sum()) == labels
        assert torch.equal(some.targets[some.labelled], full.targets[some.labelled])
        assert not (before & ~some.labelled).any()
        counts = some.targets[some.labelled].bincount(minlength=classes)
        share = full.targets[full.labelled].bincount(minlength=classes) / full.labelled.sum()
        assert (counts - labels * share).abs().max() <= 1.5
        before = some.labelled
