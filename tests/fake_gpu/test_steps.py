"""A training step on the emulated GPU: on one device, with the gradients of the CPU, waiting for nothing."""

import contextlib
from dataclasses import replace

import numpy as np
import pytest
import torch
from fake_gpu.emulation import Stream, watch
from torch import nn

import toys
from scripts import script
from selfpretrain.data.dataloader import BatchSampler, PrefetchLoader
from selfpretrain.data.dataset import SequenceDataset, generator
from selfpretrain.data.spec import Tokens, Values
from selfpretrain.mixers import mega
from selfpretrain.mixers.attention import Attention
from selfpretrain.mixers.mega import Mega
from selfpretrain.mixers.ops import longconv
from selfpretrain.mixers.ops.longconv import causal_conv
from selfpretrain.mixers.pythia import Pythia
from selfpretrain.mixers.s4d import S4D
from selfpretrain.objectives.base import Denoise
from selfpretrain.objectives.classify import Classify
from selfpretrain.objectives.common.augmented import Augmented
from selfpretrain.objectives.common.joint import Joint
from selfpretrain.objectives.masked import Masked
from selfpretrain.objectives.ngram_statistics import NgramStatistics
from selfpretrain.registry import find, names
from selfpretrain.tasks.common.augmentations import DroppedSymbols, NoisySignals, ShuffledOperands
from selfpretrain.training.model import BatchNorm, Model
from selfpretrain.training.recipe import Budget, Stage
from selfpretrain.training.step import accumulate_sums, prepare
from steps import MIXERS, TOKENS, apart, asked, backward, data

CLOSE = {"fp32": 2e-5, "bf16": 0.2}


class Training:
    """A network and what its steps need, on a device."""

    def __init__(self, mixer, objective, device, form=TOKENS, depth=1, norm="layer", **how):
        self.stage, self.form = Stage(objective, Budget(steps=2), batch=4, **how), form
        toys.settle()
        model = Model(mixer, width=16, depth=depth, norm=norm, causal=objective.needs_causal)
        self.network = model.build(form, objective.head(form, 16, "mean")).to(device)
        prepare(self.network, self.stage, device)
        self.optimizer = self.stage.optim.build(self.network, mixer.slow())
        self.running, self.sums = torch.zeros(2, device=device), {}

    def step(self, batches):
        """Everything that a step does but its log; return the gradients."""
        targets = batches.batch(0)
        self.optimizer.zero_grad(set_to_none=True)
        loss, more = backward(self.network, self.stage, self.form, targets)
        gradients = [p.grad.clone() for p in self.network.parameters() if p.grad is not None]
        nn.utils.clip_grad_norm_(self.network.parameters(), 1.0)
        self.optimizer.step()
        self.running[0] += loss
        accumulate_sums(self.sums, more)
        return gradients


def stepped(mixer, objective, device, form=TOKENS, split=None, **how):
    """Gradients of a first step, and what a second one does: the first may lay out patterns."""
    device, split = torch.device(device), data(form) if split is None else split
    training = Training(mixer, objective, device, form, **how)
    order, source = BatchSampler(split.longest, 4, 0), "cpu" if objective.reads_inputs else device

    def targets_at(number):
        batch = split.batch(order.rows(number)).to(source)
        return objective.make_targets(batch, form, generator("ask")).to(device)

    with contextlib.closing(PrefetchLoader(targets_at, device)) as batches:
        gradients = training.step(batches)
        with watch() as found:
            if device.type == "cuda":
                training.step(batches)
    return torch.cat([gradient.cpu().flatten() for gradient in gradients]), found


def test_a_step_waits_for_the_copies_of_its_own_batch_and_later_ones_for_its_end(monkeypatch):
    prepared, waits = [], []

    class Copied(torch.cuda.Event):
        def __new__(cls):
            return object.__new__(cls)

        def __init__(self):
            self.number = prepared[-1]

    class Told(Stream):
        def record_event(self):
            return Copied()

        def wait_event(self, event):
            waits.append(event.number)

        def wait_stream(self, other):
            waits.append("end")

    monkeypatch.setattr(torch.cuda, "Stream", Told)
    monkeypatch.setattr(torch.cuda, "current_stream", Told)
    with contextlib.closing(PrefetchLoader(prepared.append, torch.device("cuda"))) as batches:
        for number in range(5):
            batches.batch(number)
        assert list(batches.coming) == [5, 6, 7]
    assert waits == [0, "end", 1, "end", 2, "end", 3, "end", 4, "end"]


@pytest.mark.parametrize("precision", CLOSE)
@pytest.mark.parametrize("name", MIXERS)
def test_a_step_has_the_gradient_of_the_cpu_and_waits_for_nothing(name, precision):
    there, found = stepped(*asked(name), "cuda", precision=precision)
    here, _ = stepped(*asked(name), "cpu", precision=precision)
    assert apart(there, here) < CLOSE[precision]
    assert found.kernels and not found.waits


VALUES = replace(TOKENS, signal=Values(channels=3, centre=(0.1, 0.2, 0.3), spread=(1.0, 2.0, 3.0)))
OBJECTIVES = {
    name: (objective(), VALUES if name in ("spans", "diffusion") else TOKENS)
    for name in names("objectives")
    if issubclass(objective := find("objectives", name), Denoise)
}


@pytest.mark.parametrize(
    ("objective", "form"),
    [
        *OBJECTIVES.values(),
        (Joint(Classify(), NgramStatistics()), TOKENS),
        (Augmented(Classify(), NoisySignals()), VALUES),
        (Augmented(Classify(), DroppedSymbols(0, 0.5)), TOKENS),
        (Augmented(Classify(), ShuffledOperands(98, 99)), replace(TOKENS, signal=Tokens(100))),
        (Classify(weights=(1.0, 2.0), smoothing=0.1), VALUES),
    ],
    ids=str,
)
def test_every_objective_and_augmentation_waits_for_nothing(objective, form):
    for how in ({}, {"grad_accumulation": 2, "activation_checkpointing": True}):
        there, found = stepped(Attention(), objective, "cuda", form, **how)
        here, _ = stepped(Attention(), objective, "cpu", form, **how)
        assert apart(there, here) < CLOSE["fp32"]
        assert found.kernels and not found.waits


@pytest.mark.parametrize(("name", "launches"), script("gpu_hour").LAUNCHES.items())
def test_kernels_of_all_blocks_are_computed_at_once(name, launches):
    form = replace(TOKENS, length=1024)
    rows = np.random.default_rng(0).integers(16, size=(4, 1024))
    split = SequenceDataset.from_sequences(list(rows), np.array([0, 1, 0, 1]))
    _, found = stepped(find("mixers", name)(), Classify(), "cuda", form, split, depth=6, precision="bf16")
    del found.kernels["clone"]  # of gradients, for the test
    assert found.kernels.total() == pytest.approx(launches, rel=0.05)


@pytest.mark.parametrize("again", [False, True])
@pytest.mark.parametrize(
    ("mixer", "form", "norm"),
    [
        *((Mega(chunk=8, weigh=weigh), TOKENS, "layer") for weigh in ("softmax", "laplace", "relu2")),
        (S4D(states=4), TOKENS, "layer"),
        *((S4D(states=4), form, "batch") for form in (TOKENS, VALUES)),
        (Pythia(layers=2, heads=2), TOKENS, "layer"),
    ],
    ids=str,
)
def test_what_a_gpu_does_to_keep_less_in_memory_leaves_the_gradient(mixer, form, norm, again, monkeypatch):
    monkeypatch.setattr(mega, "WEIGHTS", 100)
    monkeypatch.setattr(longconv, "GPU_BLOCK", 1000)
    how = {"norm": norm, "activation_checkpointing": again}
    there, found = stepped(mixer, Masked(0.3), "cuda", form, **how)
    here, _ = stepped(mixer, Masked(0.3), "cpu", form, norm=norm)
    assert apart(there, here) < CLOSE["fp32"]
    assert found.kernels and not found.waits


def kept_bytes(compute):
    """Bytes that are kept for a backward pass."""
    found = []
    with torch.autograd.graph.saved_tensors_hooks(lambda x: found.append(x.nbytes) or x, lambda x: x):
        compute()
    return sum(found)


def test_convolutions_and_batch_normalisation_keep_nothing_twice():
    u = torch.randn(4, 1000, 8, device="cuda", requires_grad=True)
    kernel = torch.randn(8, 1000, device="cuda")
    spectra = (4 + 1) * 8 * 1001 * 8  # of the inputs and of the kernel: complex numbers of 8 bytes
    assert kept_bytes(lambda: causal_conv(u, kernel)) == spectra
    norm = BatchNorm(8).to("cuda")
    assert kept_bytes(lambda: norm(u)) < 1.1 * u.nbytes


def test_waiting_and_mixing_devices_would_be_noticed():
    x = torch.randn(3, device="cuda")
    waits = [
        *(lambda: x.sum().item(), lambda: x[x > 0], x.tolist, (x > 0).nonzero, lambda: bool(x.any()), x.cpu),
        *(lambda: torch.randn(2).to("cuda"), lambda: x.new_tensor([1.0])),
        *(lambda: torch.tensor([1.0], device="cuda"), lambda: torch.linalg.solve(x.diag(), x)),
        *(lambda: x.copy_(torch.randn(3)), lambda: x[torch.tensor([0, 1])]),
    ]
    for wait in waits:
        with watch() as found:
            wait()
        assert found.waits
    with watch() as found:
        torch.randn(2).to("cuda", non_blocking=True)
        _ = x + 1.0 + torch.tensor(2.0)
    assert not found.waits
    with pytest.raises(RuntimeError, match="all tensors to be on the same device"):
        x + torch.randn(3)
    with pytest.raises(TypeError, match="can't convert cuda:0"):
        x.numpy()
