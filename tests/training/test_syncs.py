"""A step of training never waits for the device: nothing is read back, and copies are not waited for.

There need be no GPU: weights and batches are on the device ``meta``, which has shapes but no numbers, so that
whatever asks for a number or for a shape that depends on numbers fails; copies and constants that go there
are seen on their way.
"""

import contextlib
import threading
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from selfpretrain import registry
from selfpretrain.data.dataloader import BatchSampler, PrefetchLoader
from selfpretrain.data.dataset import SequenceDataset, generator
from selfpretrain.data.spec import Classes, Reals, SequenceSpec, Tokens, Values
from selfpretrain.mixers.attention import Attention
from selfpretrain.mixers.common.pairs import Pairs
from selfpretrain.objectives.base import Denoise, Objective
from selfpretrain.objectives.causal import Causal
from selfpretrain.objectives.classify import Classify
from selfpretrain.objectives.common.augmented import Augmented
from selfpretrain.objectives.common.joint import Joint
from selfpretrain.objectives.masked import Masked
from selfpretrain.objectives.regress import Regress
from selfpretrain.tasks.common.augmentations import DroppedSymbols, NoisySignals, Pictures, ShuffledOperands
from selfpretrain.training.evaluate import larger_batch_size
from selfpretrain.training.model import Model
from selfpretrain.training.recipe import Budget, Stage
from selfpretrain.training.step import accumulate_sums
from steps import STEPWISE, backward, every_mixer

META = torch.device("meta")
LENGTH = 136
"""More than a block of sparse patterns, and than a chunk of recurrences."""
DENOISING = [
    kind()
    for name in registry.names("objectives")
    if issubclass(kind := registry.find("objectives", name), Denoise)
]
MIXERS = {name: registry.find("mixers", name) for name in registry.names("mixers")}
TOKENS = SequenceSpec(Tokens(16), LENGTH, Classes(("no", "yes")))
VALUES = SequenceSpec(Values(channels=3, centre=(0.1, 0.2, 0.3), spread=(1.0, 2.0, 3.0)), LENGTH, Reals())
CONSTANTS = {torch.tensor, torch.as_tensor, torch.Tensor.new_tensor}
CHECKED = {torch.linalg.solve, torch.linalg.inv, torch.linalg.cholesky, torch.linalg.eigh, torch.linalg.svd}
"""Functions that ask the device whether they succeeded; without numbers, they do not."""


class Copies(TorchDispatchMode):
    """Copies between main memory and the device that somebody waits for."""

    def __init__(self, found):
        super().__init__()
        self.found = found

    def __torch_dispatch__(self, op, types, args=(), kwargs=None):
        labels = op(*args, **(kwargs or {}))
        if op in (torch.ops.aten._to_copy.default, torch.ops.aten.copy_.default):
            source = args[1] if op is torch.ops.aten.copy_.default else args[0]
            waits = not (kwargs or {}).get("non_blocking", False)
            if source.device != labels.device and waits:
                self.found.append(f"{op} of {tuple(source.shape)}")
        return labels


class Constants(TorchFunctionMode):
    """Numbers of Python that are made into tensors on the device, and error codes: each is a copy."""

    def __init__(self, found):
        super().__init__()
        self.found = found

    def __torch_function__(self, function, types, args=(), kwargs=None):
        labels = function(*args, **(kwargs or {}))
        if function in CONSTANTS and labels.device == META:
            self.found.append(f"{function.__name__} of {args}")
        if function in CHECKED and args[0].device == META:
            self.found.append(f"error code of {function.__name__}")
        return labels


@pytest.fixture
def seen(monkeypatch):
    """What is waited for."""
    found = []
    usual = torch.autocast

    def autocast(device, *rest, **named):
        return contextlib.nullcontext() if device == "meta" else usual(device, *rest, **named)

    monkeypatch.setattr(torch, "autocast", autocast)  # it knows no device without numbers
    return found


def examples(form, even):
    random = np.random.default_rng(0)
    answers = np.array([0, 1, 0, 1]) if isinstance(form.target, Classes) else np.arange(4.0)
    L = form.length
    lengths = (L,) * 4 if even else (L, L * 3 // 4, L, 11)
    if isinstance(form.signal, Tokens):
        return SequenceDataset.from_sequences([random.integers(16, size=n) for n in lengths], answers)
    return SequenceDataset.from_sequences([random.random((n, 3), dtype=np.float32) for n in lengths], answers)


def step(mixer, objective, form, found, even=False, **how):
    """What a step waits for, from its batch to new weights."""
    stage = Stage(objective, Budget(steps=2), batch=4, **how)
    network = Model(mixer, width=16, depth=1, causal=objective.needs_causal).build(
        form, objective.head(form, 16, "mean")
    )
    data = examples(form, even)
    prepared(network)
    network = network.to(META)
    network.activation_checkpointing = stage.activation_checkpointing
    optimizer = stage.optim.build(network, mixer.slow())
    source = torch.device("cpu") if objective.reads_inputs else META
    rows = BatchSampler(data.longest, 4, 0).rows(0)
    running, sums = torch.zeros(2, device=META), {}
    with Copies(found), Constants(found):
        optimizer.zero_grad(set_to_none=True)
        targets = objective.make_targets(data.batch(rows).to(source), form, generator("ask")).to(META)
        loss, more = backward(network, stage, form, targets)
        running[0] += loss
        accumulate_sums(sums, more)
        torch.nn.utils.clip_grad_norm_(network.parameters(), 1.0)
        optimizer.step()
        running[1] += 1
    assert any(p.grad is not None for p in network.parameters())


def prepared(network):
    """Patterns of attention are laid out once, and waited for; not in every step."""
    for module in network.modules():
        if isinstance(module, Pairs):
            with torch.no_grad():
                module(torch.zeros(1, LENGTH, 16))
            module._plan = [
                type(near)(near.blocks, near.numbers.to(META), near.whole, moved(near.mask))
                for near in module._plan
            ]
            module._plan_of = (META, *module._plan_of[1:])


def moved(mask):
    return None if mask is None else mask.to(META)


@every_mixer
def test_no_step_waits_for_the_device(name, seen):
    kind = MIXERS[name]
    denoise = Causal() if kind.causal else Masked(0.3)
    form = replace(TOKENS, length=24) if name in STEPWISE else TOKENS
    step(kind(), denoise if kind.denoises else Classify(), form, seen)
    assert seen == []


@pytest.mark.parametrize(
    ("objective", "form", "how"),
    [
        (Masked(0.3), VALUES, {}),
        (Regress(), VALUES, {}),
        (Classify(weights=(1.0, 2.0), smoothing=0.1), TOKENS, {}),
        (Joint(Classify(), Masked(0.3)), TOKENS, {}),
        (Classify(), TOKENS, {"grad_accumulation": 2}),
        (Masked(0.3), TOKENS, {"grad_accumulation": 2, "activation_checkpointing": True}),
        (Augmented(Classify(), NoisySignals()), replace(VALUES, target=TOKENS.target), {}),
        (Augmented(Classify(), DroppedSymbols(0, 0.5)), TOKENS, {}),
        (Augmented(Classify(), Pictures(("transpose",), 1)), replace(TOKENS, length=144), {}),
        (Augmented(Classify(), ShuffledOperands(98, 99)), replace(TOKENS, signal=Tokens(100)), {}),
        *((each, TOKENS if each.needs_tokens else VALUES, {}) for each in DENOISING),
    ],
    ids=lambda x: type(x).__name__ if isinstance(x, Objective) else "",
)
def test_no_step_waits_whatever_is_asked(objective, form, how, seen):
    for even in (True, False):
        step(Attention(), objective, form, seen, even, **how)
    assert seen == []


def test_waiting_would_be_noticed(seen):
    x = torch.randn(3, device=META)
    for wait in (
        lambda: x.sum().item(),
        lambda: x[x > 0],
        x.tolist,
        (x > 0).nonzero,
        lambda: bool(x.any()),
        x.cpu,
    ):
        with pytest.raises((RuntimeError, NotImplementedError)):
            wait()
    with Copies(seen), Constants(seen):
        torch.randn(2).to(META)
        torch.randn(2).to(META, non_blocking=True)
        torch.empty(2, device=META).copy_(torch.randn(2))
        x.new_tensor([1.0])
        torch.tensor([1.0], device=META)
        torch.tensor([1.0])
        torch.linalg.solve(x.diag(), x)
        torch.linalg.solve_ex(x.diag(), x)
    assert len(seen) == 5


def test_batches_that_are_prepared_ahead_are_those_of_their_steps():
    data = examples(TOKENS, even=False)
    order = BatchSampler(data.longest, 2, 0)
    threads = set()

    def prepare(number):
        threads.add(threading.current_thread())
        return data.batch(order.rows(number))

    steps = (0, 1, 2, 7, 8)  # goes on from a checkpoint, too
    plain = [data.batch(order.rows(number)) for number in steps]
    ahead = PrefetchLoader(prepare, META)
    for number, a in zip(steps, plain, strict=True):
        b = ahead.batch(number)
        assert torch.equal(a.inputs, b.inputs)
        assert torch.equal(a.targets, b.targets)
    assert list(ahead.coming) == [9, 10, 11]
    ahead.close()
    assert len(threads) == 1 and threading.current_thread() not in threads
    assert PrefetchLoader(prepare, torch.device("cpu")).batch(8).inputs.equal(plain[-1].inputs)
    assert threading.current_thread() in threads, "on a CPU, nothing works beside the step"


def test_evaluation_takes_as_many_as_half_of_the_free_memory_holds():
    assert larger_batch_size(4, used=100, free=1000) == 16
    assert larger_batch_size(4, used=1000, free=1000) == 4
    assert larger_batch_size(4, used=0, free=10) == 16


@given(size=st.integers(1, 512), used=st.integers(0, 10**12), free=st.integers(0, 10**12))
def test_evaluation_takes_few_batch_sizes(size, used, free):
    found = larger_batch_size(size, used, free)
    assert found.bit_count() == 1 and found <= 16_384
    if used <= free / 2:
        assert found * used <= (free / 2 + 1) * size


@pytest.mark.parametrize("used", [0, 1, 10**6, 10**9, 10**10])
def test_evaluation_stays_within_the_limits_of_kernels_however_large_the_memory(used):
    for free in (10**9, 10**11, 10**13):
        size = larger_batch_size(512, used, free)
        assert 512 <= size <= 16_384
        assert size == 512 or size // 512 * used <= 2**31 * 4
