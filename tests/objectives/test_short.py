"""Sequences so short that a batch, or a part of it, has no position to ask for: they contribute nothing."""

import math
from dataclasses import fields, replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import several
import toys
from selfpretrain import registry
from selfpretrain.data.dataset import generator
from selfpretrain.mixers.attention import Attention
from selfpretrain.objectives.base import Denoise, objective_for
from selfpretrain.objectives.common.joint import Joint
from selfpretrain.objectives.latent import Latent
from selfpretrain.objectives.masked import Masked
from selfpretrain.training.evaluate import evaluate
from selfpretrain.training.model import Model
from selfpretrain.training.recipe import Budget, Stage
from steps import backward

KINDS = [registry.find("objectives", name) for name in registry.names("objectives")]
DENOISERS = [kind for kind in KINDS if issubclass(kind, Denoise)]
REBUILDERS = [kind for kind in DENOISERS if "distance" in {field.name for field in fields(kind)}]
"""Objectives that rebuild what was hidden, at a distance."""
SIGNALS = {"tokens": "auto", "values": "l1", "levels": "levels"}
"""How sequences are rebuilt, by what they are called here."""
BATCH = 8


def task_of(signal, target):
    return several.majority(target, signal="tokens" if signal == "tokens" else "values", shortest=4, length=4)


def denoiser(kind, distance):
    return kind(distance=distance) if kind in REBUILDERS else kind()


def suits(kind, signal):
    return signal == "tokens" or not kind.needs_tokens


def cases():
    for signal, distance in SIGNALS.items():
        for kind in (kind for kind in KINDS if suits(kind, signal)):
            target = kind.target_type.kind if kind.target_type else "classes"
            yield denoiser(kind, distance), task_of(signal, target)
        for kind in (kind for kind in DENOISERS if suits(kind, signal) and kind.rebuilds):
            for target in ("classes", "reals", "sets"):
                task = task_of(signal, target)
                objective = Joint(objective_for(task.form.target)(), denoiser(kind, distance))
                yield objective, task


WHOLE = (Latent("next", "features", "sigreg"), task_of("tokens", "classes"))
"""An objective whose batches are not split."""
every_case = pytest.mark.parametrize(("objective", "task"), [*cases(), WHOLE], ids=str)


def made(objective, task, lengths):
    """A network, and examples that are cut to such lengths."""
    toys.settle()
    head = objective.head(task.form, 8, "mean")
    network = Model(Attention(heads=2), width=8, depth=1, causal=objective.needs_causal)
    data = task.load("train").take(torch.arange(len(lengths)))
    return network.build(task.form, head), replace(data, lengths=torch.tensor([lengths]))


def gradients(network, objective, task, targets, parts):
    network.zero_grad()
    stage = Stage(objective, Budget(steps=1), batch=BATCH, grad_accumulation=parts)
    loss, sums = backward(network, stage, task.form, targets)
    return float(loss), sums, {name: p.grad for name, p in network.named_parameters()}


@settings(max_examples=20, deadline=None, derandomize=True)
@given(
    case=st.sampled_from(list(cases())),
    lengths=st.lists(st.integers(1, 4), min_size=BATCH, max_size=BATCH),
    parts=st.sampled_from([1, 2, 4, 8]),
    seed=st.integers(0, 100),
)
def test_parts_without_anything_to_ask_for_add_nothing(case, lengths, parts, seed):
    objective, task = case
    network, data = made(objective, task, lengths)
    asked = objective.make_targets(data.batch(torch.arange(BATCH)), task.form, generator(seed))
    loss, sums, whole = gradients(network, objective, task, asked, 1)
    in_parts, sums_of_parts, of_parts = gradients(network, objective, task, asked, parts)
    assert math.isfinite(loss)
    assert in_parts == pytest.approx(loss, rel=1e-5, abs=1e-6)
    for name in sums:
        assert float(sums_of_parts[name]) == pytest.approx(float(sums[name]), rel=1e-5, abs=1e-5)
    for name, gradient in whole.items():
        assert (gradient is None) == (of_parts[name] is None)  # every process waits for the same ones
        if gradient is not None:
            torch.testing.assert_close(of_parts[name], gradient, rtol=1e-4, atol=1e-5)


@every_case
def test_batches_of_the_shortest_sequences_train_and_are_scored(objective, task):
    for lengths in ([1] * BATCH, [1, 2, 1]):
        network, data = made(objective, task, lengths)
        for seed in range(2):
            asked = objective.make_targets(data.batch(torch.arange(len(lengths))), task.form, generator(seed))
            loss, _, found = gradients(network, objective, task, asked, 1)
            assert math.isfinite(loss)
            assert all(gradient.isfinite().all() for gradient in found.values() if gradient is not None)
        scores = evaluate(network, objective, data, task.form).scores
        if not isinstance(objective, Joint) and not objective.labelled:
            assert all(math.isfinite(score) for score in scores.values())


@pytest.mark.parametrize("kind", DENOISERS)
@pytest.mark.parametrize("signal", SIGNALS)
def test_nothing_to_ask_for_costs_nothing_and_gives_gradients_of_zero(kind, signal):
    if not suits(kind, signal):
        pytest.skip("it is of symbols")
    objective, task = denoiser(kind, SIGNALS[signal]), task_of(signal, "classes")
    network, data = made(objective, task, [1] * BATCH)
    nothing = torch.zeros(BATCH, 1, dtype=torch.bool)
    asked = objective.make_targets(data.batch(torch.arange(BATCH)), task.form, generator(0))
    asked = replace(asked, masked=nothing, loss_mask=nothing, size=nothing.sum())
    loss, sums, found = gradients(network, objective, task, asked, 2)
    assert loss == 0
    assert {float(each) for each in sums.values()} == {0.0}
    for name, gradient in found.items():
        if name != "embed.mask_token":
            assert gradient is not None and not gradient.any(), name
    assert math.isfinite(objective.scores({name: float(each) for name, each in sums.items()})["score"])


def test_masking_asks_for_one_position_at_least_and_for_no_other_where_there_are_some():
    task = toys.Majority(shortest=1, length=4)
    data = task.load("train")
    empty = 0
    for seed in range(200):
        batch = data.batch(torch.tensor([seed % len(data), (seed + 1) % len(data)]))
        usual = (torch.rand(batch.inputs.shape[:2], generator=generator(seed)) < 0.15) & batch.real()
        masked = Masked(0.15).make_targets(batch, task.form, generator(seed)).masked
        empty += not usual.any()
        assert not (masked & ~batch.real()).any()
        if usual.any():
            assert torch.equal(masked, usual)
        else:
            assert int(masked.sum()) == 1
    assert empty > 20
