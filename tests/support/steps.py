"""One step of every mixer on the shelf, for tests of it; as a program, beside the same one compiled.

python tests/support/steps.py BACKEND MIXER ...  a line of JSON for each: mixer, relative differences of loss
                                                 and gradient, whether its blocks are a graph each; for
                                                 "s4, joint" with kernels of all blocks at once; and for
                                                 "statistics" those of a batch norm, plain and compiled
"""

import json
import sys
from dataclasses import replace

import numpy as np
import pytest
import torch

import toys
from selfpretrain import registry
from selfpretrain.data.dataset import SequenceDataset, generator
from selfpretrain.data.spec import Classes, SequenceSpec, Tokens, Values
from selfpretrain.objectives.classify import Classify
from selfpretrain.objectives.masked import Masked
from selfpretrain.training.model import Model
from selfpretrain.training.recipe import Budget, Stage
from selfpretrain.training.step import prepare, step

MIXERS = registry.names("mixers")
SAMPLE = {
    *("attention", "window", "reformer", "performer", "fnet", "pythia", "mega", "hyena", "s4", "s4d"),
    *("lru", "gla", "deltanet", "lstm", "exprnn", "mamba", "gated-deltanet", "resnet", "wavegan"),
}
"""A mixer of each way to compute: pairs, kernels, scans, chunks, position by position, of other libraries."""
every_mixer = pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] * (name not in SAMPLE)) for name in MIXERS]
)
"""In the default suite those of the sample, which share their code with all others; all in the slow lane."""
STEPWISE = ("exprnn", "gru", "lipschitz", "lstm", "slstm")
"""Mixers that go position by position, so that a few show all that a step does."""
SHORT = {"wavegan": {"stages": 2}}
"""Settings for 24 positions."""
TOKENS = SequenceSpec(Tokens(16), 24, Classes(("no", "yes")))


class Still(torch.optim.SGD):
    """Moves nothing, so that gradients are left to be looked at."""

    def step(self, closure=None):
        pass


def backward(network, stage, form, targets):
    """Leave the gradients of a batch, not clipped; return its loss and metric sums."""
    unclipped = replace(stage, optim=replace(stage.optim, clip=0.0))
    return step(network, Still(network.parameters()), unclipped, form, targets)


def data(form=TOKENS):
    random = np.random.default_rng(0)
    if isinstance(form.signal, Values):
        return SequenceDataset.from_array(random.random((4, 24, 3), dtype=np.float32), np.array([0, 1, 0, 1]))
    return SequenceDataset.from_sequences(
        [random.integers(16, size=n) for n in (24, 20, 24, 11)], np.array([0, 1, 0, 1])
    )


def asked(name):
    """What a mixer of the shelf is trained for, and its settings."""
    mixer = registry.find("mixers", name)(**SHORT.get(name, {}))
    return mixer, Masked(0.3) if mixer.denoises else Classify()


def gradients(mixer, objective, form=TOKENS, kind=torch.float32, joint=False, **how):
    """Loss and gradients of one batch, all in one row; with kernels of all blocks at once, as on a GPU."""
    stage = Stage(objective, Budget(steps=1), batch=4, **how)
    toys.settle()
    causal = objective.needs_causal
    model = Model(mixer, width=16, depth=1, causal=causal)
    network = model.build(form, objective.head(form, 16, "mean")).to(kind)
    prepare(network, stage, torch.device("cpu"))
    network.joint_kernels = joint
    targets = objective.make_targets(data(form).batch(torch.arange(4)), form, generator("ask"))
    loss, _ = backward(network, stage, form, targets)
    found = [p.grad for p in network.parameters() if p.grad is not None]
    assert {p.dtype for p in network.parameters()} == {g.dtype for g in found} == {kind}
    return float(loss), torch.cat([g.flatten() for g in found])


def statistics(mixer, steps=2, **how):
    """Buffers of a network with batch normalisation after some passes, forward and backward."""
    stage = Stage(Masked(0.3), Budget(steps=steps), batch=4, **how)
    toys.settle()
    network = Model(mixer, width=16, depth=2, norm="batch").build(
        TOKENS, stage.objective.head(TOKENS, 16, "mean")
    )
    prepare(network, stage, torch.device("cpu"))
    for number in range(steps):
        targets = stage.objective.make_targets(
            data().batch(torch.arange(4)), TOKENS, generator("ask", number)
        )
        backward(network, stage, TOKENS, targets)
    return dict(network.named_buffers())


def apart(a, b):
    """The distance of two gradients, relatively."""
    return float((a - b).norm() / b.norm())


def running(compile):
    """Running statistics where activations of compiled blocks are recomputed, rounded."""
    found = statistics(toys.Normed(), compile=compile, activation_checkpointing=compile)
    return {key: [round(float(x), 4) for x in value.flatten()] for key, value in found.items()}


def main():
    backend, *names = sys.argv[1:]
    whole = torch.nn.Module.compile
    torch.nn.Module.compile = lambda block: whole(block, backend=backend)
    for name in names or MIXERS:
        torch._dynamo.reset()
        if name == "statistics":
            print(json.dumps({"plain": running(False), "compiled": running(True)}), flush=True)
            continue
        breaks = torch._dynamo.utils.counters["graph_break"]
        breaks.clear()
        mixer, _, joint = name.partition(", ")
        loss, gradient = gradients(*asked(mixer))
        fast, of_fast = gradients(*asked(mixer), compile=True, joint=bool(joint))
        found = {"mixer": name, "loss": abs(fast / loss - 1), "gradient": apart(of_fast, gradient)}
        found["whole"] = not breaks
        print(json.dumps(found), flush=True)


if __name__ == "__main__":
    main()
