"""Sequences of simple processes are what their rules say."""

from collections import Counter
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
import torch

from selfpretrain.data.spec import Tokens, Values
from selfpretrain.tasks import procedural
from selfpretrain.tasks.procedural import ROW, Procedural, automaton, brackets


@pytest.mark.parametrize("kinds", [2, 3, 16])
def test_nested_brackets_close_the_last_open_one(kinds):
    pairs = kinds // 2
    for row in brackets(50, 80, kinds, np.random.default_rng(0)).tolist():
        stack = []
        for symbol in row:
            if symbol < pairs:
                stack.append(symbol)
            else:
                assert stack.pop() == symbol - pairs


def test_interleaved_brackets_close_any_open_one():
    crossing = 0
    for row in brackets(50, 80, 16, np.random.default_rng(0), interleaved=True).tolist():
        open_kinds, stack = Counter(), []
        for symbol in row:
            if symbol < 8:
                open_kinds[symbol] += 1
                stack.append(symbol)
            else:
                assert open_kinds[symbol - 8] > 0
                open_kinds[symbol - 8] -= 1
                crossing += stack[-1] != symbol - 8
                stack.reverse()
                stack.remove(symbol - 8)
                stack.reverse()
    assert crossing > 100


def test_the_automaton_is_rule_110():
    new = {"111": 0, "110": 1, "101": 1, "100": 0, "011": 1, "010": 1, "001": 1, "000": 0}
    for row in automaton(20, 4 * ROW, 2, np.random.default_rng(0)).reshape(20, 4, ROW).tolist():
        for old, young in pairwise(row):
            ring = [old[-1], *old, old[0]]
            assert young == [new["".join(map(str, ring[i : i + 3]))] for i in range(ROW)]
    plain = automaton(5, 48, 2, np.random.default_rng(0))
    packed = automaton(5, 12, 16, np.random.default_rng(0))  # four cells in a symbol
    assert np.array_equal((packed[..., None] >> np.arange(4) & 1).reshape(5, 48), plain)


@pytest.mark.parametrize("draw", [brackets, automaton])
def test_an_alphabet_of_one_symbol_has_no_other(draw):
    assert not draw(5, 9, 1, np.random.default_rng(0)).any()


@pytest.mark.parametrize(
    "signal",
    [
        Tokens(2),
        Tokens(1000),
        Values(1, levels=256, low=0.0, high=255.0),
        Values(3, levels=17, low=-1.0, high=1.0),
        Values(2, centre=(5.0, -1.0), spread=(2.0, 0.1)),
    ],
    ids=str,
)
def test_sequences_have_the_format_of_another_task(signal):
    task = replace(Procedural().tiny(), signal=signal, length=33)
    batch = task.load("train").batch(torch.arange(150))
    assert batch.inputs.shape[:2] == (150, 33)
    if isinstance(signal, Tokens):
        assert 0 <= int(batch.inputs.min()) < int(batch.inputs.max()) < signal.vocab
        return
    assert batch.inputs.shape[2] == signal.channels
    if signal.levels:
        step = (signal.high - signal.low) / (signal.levels - 1)
        level = (batch.inputs - signal.low) / step
        assert torch.allclose(level, level.round(), atol=1e-3)
        assert (
            signal.low - 1e-6 <= float(batch.inputs.min()) < float(batch.inputs.max()) <= signal.high + 1e-6
        )
    else:
        standard = signal.standardise(batch.inputs).flatten(0, 1)
        assert standard.mean(0).abs().max() < 0.5
        assert (standard.std(0) - 1).abs().max() < 0.4


def test_a_plan_generates_nothing(monkeypatch):
    monkeypatch.setattr(procedural, "_generate", None)
    task = Procedural(length=16_000, train=60_000)
    stubbed = task.stubbed()
    assert stubbed == task and not task.stub
    train = stubbed.load("train")
    assert len(train) == 60_000 and train.lengths.unique().tolist() == [16_000]
