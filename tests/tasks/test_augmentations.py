"""Augmentations keep lengths, padding and labels, and draw the same changes from the same seed."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from releases import value
from selfpretrain import registry
from selfpretrain.config import from_dict, to_dict
from selfpretrain.data.dataset import generator
from selfpretrain.data.spec import Classes, PositionClasses, Tokens, Values
from selfpretrain.tasks.common.augmentations import DroppedSymbols, NoisySignals, Pictures, ShuffledOperands
from selfpretrain.tasks.common.genbank import COMPLEMENT
from selfpretrain.tasks.listops import SYMBOLS, ListOps
from selfpretrain.tasks.paths import Paths

TASKS = {name: registry.find("tasks", name)().tiny() for name in registry.names("tasks")}
AUGMENTED = [name for name, task in TASKS.items() if task.augmentation]


def changed(task, number=40, seed=0, augmentation=None):
    batch = task.load("train").batch(torch.arange(number))
    augmentation = augmentation or task.augmentation
    return batch, augmentation.apply(batch, task.form, generator("augment", seed))


assert {"paths", "listops", "digits", "text", "spoken-digits", "image", "pathfinder"} <= set(AUGMENTED)


@pytest.mark.parametrize("name", AUGMENTED)
def test_only_inputs_change_and_by_the_seed_alone(name):
    task = TASKS[name]
    before, after = changed(task)
    assert torch.equal(after.inputs, changed(task)[1].inputs)
    assert not torch.equal(after.inputs, changed(task, seed=1)[1].inputs)
    assert isinstance(task.form.target, PositionClasses) or after.targets is before.targets
    assert after.inputs.shape == before.inputs.shape and after.inputs.dtype == before.inputs.dtype
    assert torch.equal(after.real(), before.real())
    assert not after.inputs[~after.real()].any()
    moved = (after.inputs != before.inputs).flatten(1).any(1)
    assert moved.float().mean() > 0.3
    if isinstance(task.form.signal, Tokens):
        assert 0 <= int(after.inputs.min()) <= int(after.inputs.max()) < task.form.signal.vocab
    augmentation = task.augmentation
    assert from_dict(to_dict(augmentation)) == augmentation


def test_strands_are_turned_with_their_labels_and_padding_stays():
    task = replace(TASKS["genes"], window=256)
    before, after = changed(task, 24)
    lengths = before.real().sum(1).tolist()
    turned = 0
    for row, length in enumerate(lengths):
        same = torch.equal(after.inputs[row], before.inputs[row])
        other = [COMPLEMENT[base] for base in before.inputs[row, :length].flip(0).tolist()]
        assert same or after.inputs[row, :length].tolist() == other
        expected = before.targets[row] if same else before.targets[row, :length].flip(0)
        assert torch.equal(after.targets[row, : len(expected)], expected)
        assert torch.equal(after.targets[row, length:], before.targets[row, length:])
        turned += not same
    assert 4 < turned < 20 and len(set(lengths)) > 1
    classes = replace(task.form, target=Classes(("a", "b")))
    batch = replace(before, targets=torch.zeros(24, dtype=torch.int64))
    assert task.augmentation.apply(batch, classes, generator("augment", 0)).targets is batch.targets


def test_expressions_keep_their_values_and_their_operands_in_any_order():
    task = ListOps(10, 60, max_depth=5, max_args=5, train=100, val=40, test=40)
    before, after = changed(task, 100)
    lengths = before.real().sum(1).tolist()
    for row, length in enumerate(lengths):
        old, new = ([SYMBOLS[i] for i in x.inputs[row, :length].tolist()] for x in (before, after))
        assert sorted(old) == sorted(new)
        assert value(" ".join(new)) == value(" ".join(old)) == int(before.targets[row])
    shuffle = ShuffledOperands(10, 14)
    found = {tuple(shuffle._shuffled([10, 1, 2, 3, 14], np.random.default_rng(i))) for i in range(200)}
    assert len(found) == 6
    for symbols in ([10, 1, 2], [1, 14], [14, 10], [10, 14, 14, 10], [10, 10, 3, 14]):  # as are generated
        assert shuffle._shuffled(symbols, np.random.default_rng(0)) == symbols


@pytest.mark.parametrize(("patch", "size"), [(1, 8), (2, 8)])
def test_curves_are_turned_over_cell_by_cell(patch, size):
    task = Paths(size=size, patch=patch, train=100, val=20, test=20)
    before, after = changed(task, 100)

    def cells(batch):
        images = [task.pixels(row.numpy()).reshape(size, size) for row in batch.inputs]
        return np.stack(images)

    old, new = cells(before), cells(after)
    found = np.zeros(8, dtype=int)
    for a, b in zip(old, new, strict=True):
        turned = [np.rot90(x, k) for x in (a, a.T) for k in range(4)]
        same = [i for i, each in enumerate(turned) if np.array_equal(each, b)]
        assert same
        found[same[0]] += 1
    assert (found > 2).all()  # of 100 pictures, 12 each are expected


def test_shifted_pictures_enter_with_zeros():
    task = TASKS["digits"]
    before, after = changed(task, 100, augmentation=Pictures(shift=2))
    old, new = (x.inputs.view(100, 8, 8) for x in (before, after))
    offsets = set()
    for a, b in zip(old, new, strict=True):
        padded = torch.nn.functional.pad(a, (2, 2, 2, 2))
        views = {(y, x): padded[2 - y : 10 - y, 2 - x : 10 - x] for y in range(-2, 3) for x in range(-2, 3)}
        same = [offset for offset, view in views.items() if torch.equal(view, b)]
        assert same
        offsets.update(same)
    assert len(offsets) == 25


def test_signals_change_by_as_much_as_they_say():
    form = replace(TASKS["bidmc"].form, signal=Values(2, centre=(1.0, 10.0), spread=(1.0, 5.0)))
    still = NoisySignals(jitter=0.1, scale=0.0, shift=0.0)
    before, after = TASKS["bidmc"].load("train").batch(torch.arange(40)), None
    after = still.apply(before, form, generator("noise"))
    noise = (after.inputs - before.inputs).flatten(0, 1)
    assert noise.std(0).tolist() == pytest.approx([0.1, 0.5], rel=0.1)
    louder = NoisySignals(jitter=0.0, scale=0.5, shift=0.0).apply(before, form, generator("scale"))
    factors = (louder.inputs - torch.tensor([1.0, 10.0])) / (before.inputs - torch.tensor([1.0, 10.0]))
    each = factors.flatten(1).median(1).values
    assert 0.5 <= float(each.min()) < 0.7 and 1.3 < float(each.max()) <= 1.5
    later = NoisySignals(jitter=0.0, scale=0.0, shift=0.25).apply(before, form, generator("shift"))
    L = before.inputs.shape[1]
    for a, b in zip(before.inputs, later.inputs, strict=True):
        lags = [k for k in range(-L // 4, L // 4 + 1) if torch.allclose(moved(a, k), b, atol=1e-4)]
        assert lags


def moved(x, lag):
    """A sequence that starts later; what enters is the centre."""
    centre = torch.tensor([1.0, 10.0]).expand_as(x)
    if lag >= 0:
        return torch.cat([centre[:lag], x[: len(x) - lag]])
    return torch.cat([x[-lag:], centre[:-lag]])


def test_symbols_are_dropped_at_their_rate():
    task = TASKS["stdlib"]
    before, after = changed(task, 160, augmentation=DroppedSymbols(127, 0.2))
    share = float((after.inputs == 127).float().mean())
    assert share == pytest.approx(0.2, abs=0.02)
    assert torch.equal(after.inputs[after.inputs != 127], before.inputs[after.inputs != 127])
