"""On a GPU: the numbers of the CPU, no waiting, and half precision within its tolerance."""

import contextlib
from dataclasses import replace

import numpy as np
import pytest
import torch

import toys
from selfpretrain.data.dataloader import PrefetchLoader
from selfpretrain.data.dataset import SequenceDataset, generator
from selfpretrain.data.rows import pack_rows
from selfpretrain.data.spec import Values
from selfpretrain.objectives.classify import Classify
from selfpretrain.objectives.masked import Masked
from selfpretrain.training.model import Model
from selfpretrain.training.recipe import Budget, Stage
from selfpretrain.training.step import prepare
from steps import MIXERS, TOKENS, apart, asked, backward, data

pytestmark = pytest.mark.cuda
every_mixer = pytest.mark.parametrize("name", MIXERS)


def gradient(name, device, kind=torch.float32, waits="default", **how):
    mixer, objective = asked(name)
    stage = Stage(objective, Budget(steps=1), batch=4, **how)
    toys.settle()
    network = Model(mixer, width=16).build(TOKENS, objective.head(TOKENS, 16, "mean")).to(device, kind)
    prepare(network, stage, torch.device(device))
    for again in (False, True):  # the first step may lay out patterns
        network.zero_grad(set_to_none=True)
        targets = objective.make_targets(
            data().preload(device).batch(torch.arange(4)).to(device), TOKENS, generator("ask")
        )
        torch.cuda.set_sync_debug_mode(waits if again else "default")
        try:
            backward(network, stage, TOKENS, targets)
        finally:
            torch.cuda.set_sync_debug_mode("default")
    return torch.cat([p.grad.flatten().cpu() for p in network.parameters() if p.grad is not None])


@every_mixer
def test_gradients_are_those_of_the_cpu(name):
    true = gradient(name, "cpu", torch.float64)
    assert apart(gradient(name, "cuda", torch.float64), true) < 1e-8
    assert apart(gradient(name, "cuda").double(), true) < 1e-3
    assert apart(gradient(name, "cuda", precision="bf16").double(), true) < 0.2


@every_mixer
def test_a_step_waits_for_nothing(name):
    gradient(name, "cuda", waits="error")


def test_batches_that_are_copied_ahead_stay_until_their_step_has_ended(random):
    rows = random.rand(512, 4096, 1).astype(np.float32)
    split = SequenceDataset.from_sequences(list(rows), np.zeros(512, int)).preload("cuda")
    form, objective = replace(TOKENS, signal=Values(), length=4096), Masked(0.5)

    def prepare(step):
        batch = split.batch(torch.arange(16) + 16 * (step % 32)).to("cuda")
        return objective.make_targets(batch, form, generator("ask", step)).to(torch.device("cuda"))

    slow, seen = torch.rand(4096, 4096, device="cuda"), []
    with contextlib.closing(PrefetchLoader(prepare, torch.device("cuda"))) as ahead:
        for step in range(64):
            targets = ahead.batch(step)
            for _ in range(20):  # the processor is far ahead of this
                slow = (slow @ slow).clamp(0, 1)
            seen.append([x.clone() for x in (targets.batch.inputs, targets.mask, targets.rows)])
    for step, found in enumerate(seen):
        wanted = prepare(step)
        for x, y in zip(found, (wanted.batch.inputs, wanted.mask, wanted.rows), strict=True):
            assert torch.equal(x, y)


def test_packed_sequences_live_on_the_device(random):
    rows = (random.rand(7, 40) < 0.2).astype(np.uint8) * 200
    out, ends = np.zeros(2 * rows.size, np.uint8), np.zeros(7, np.int64)
    used = pack_rows(rows, out, ends)
    starts = torch.from_numpy(np.concatenate([[0], ends[:-1]]))[None]
    packed = SequenceDataset(
        torch.from_numpy(out[:used]), starts, torch.full((1, 7), 40), torch.zeros(7), packed=True
    )
    there = packed.preload("cuda")
    assert there.flat.is_cuda
    take = torch.tensor([5, 1])
    assert torch.equal(there.batch(take).inputs.cpu(), packed.batch(take).inputs)


def test_evaluation_is_that_of_the_cpu():
    from selfpretrain.training.evaluate import evaluate

    network = Model(asked("attention")[0], width=16).build(TOKENS, Classify().head(TOKENS, 16, "mean"))
    here = evaluate(network, Classify(), data(), TOKENS).scores
    there = evaluate(network.to("cuda"), Classify(), data().preload("cuda"), TOKENS).scores
    assert there["loss"] == pytest.approx(here["loss"], rel=1e-4)
