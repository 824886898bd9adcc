"""One step: its precision, in parts, with activations worked out again, and compiled; on the whole shelf."""

import contextlib
import json
import shutil
import subprocess
import sys
from dataclasses import replace

import pytest
import torch

import toys
from processes import SUPPORT
from selfpretrain.config import spec
from selfpretrain.data.dataset import generator
from selfpretrain.data.spec import Classes, SequenceSpec, Values
from selfpretrain.errors import SpecError
from selfpretrain.mixers.attention import Attention
from selfpretrain.mixers.b2s6 import B2S6
from selfpretrain.mixers.pythia import Pythia
from selfpretrain.mixers.s4d import S4D
from selfpretrain.objectives.causal import Causal
from selfpretrain.objectives.classify import Classify
from selfpretrain.objectives.common.joint import Joint
from selfpretrain.objectives.masked import Masked
from selfpretrain.registry import resolve
from selfpretrain.runner.run_dir import RunDir
from selfpretrain.runner.stage import run
from selfpretrain.runner.workspace import Workspace
from selfpretrain.system import distributed
from selfpretrain.training.model import Model
from selfpretrain.training.recipe import Budget, Recipe, Stage, build_network
from selfpretrain.training.step import default_precision, precision_context, prepare, step
from steps import MIXERS, TOKENS, apart, asked, data, every_mixer, gradients, statistics

TRACED = ("s4d",)
IN_PARTS = {
    *("bigbird", "local", "longformer", "spade", "sparse", "window"),  # which blocks see which is worked out
    *("exprnn", "lipschitz", "gru", "lstm", "slstm"),  # position by position
    *("dlr", "linear", "performer"),
}
"""Mixers that compiled blocks of are several graphs on a CPU."""
LOSS, GRADIENT = 2e-3, 0.15
"""How far bfloat16 may take a loss and a gradient from those in single precision, relatively."""
COMPILED = 1e-5
"""How far compiled blocks may take a gradient."""


@every_mixer
def test_a_step_is_the_same_in_half_precision_in_parts_and_with_activations_worked_out_again(name):
    loss, gradient = gradients(*asked(name))
    rough, rough_gradient = gradients(*asked(name), precision="bf16")
    assert abs(rough / loss - 1) < LOSS
    assert apart(rough_gradient, gradient) < GRADIENT
    assert rough != loss, "half precision was used"
    again, of_again = gradients(*asked(name), activation_checkpointing=True)
    assert again == loss and torch.equal(of_again, gradient)
    loss, gradient = gradients(*asked(name), kind=torch.float64)
    in_parts, of_parts = gradients(*asked(name), kind=torch.float64, grad_accumulation=4)
    assert in_parts == pytest.approx(loss, rel=1e-12)
    assert apart(of_parts, gradient) < 1e-10


def test_half_precision_leaves_what_blocks_add_to_alone():
    form = SequenceSpec(Values(channels=3), 24, Classes(("no", "yes")))
    network = Model(S4D(states=4), width=16).build(form, Classify().head(form, 16, "mean"))
    seen = []
    network.blocks[0].register_forward_pre_hook(lambda _, given: seen.append(given[0].dtype))
    with precision_context("bf16", torch.device("cpu")):
        answers = network(data(form).batch(torch.arange(4)).inputs)
    assert seen == [torch.float32]
    assert answers.dtype == torch.float32


@pytest.mark.parametrize("objective", [Classify(), Causal(), Joint(Classify(), Masked(0.3))], ids=repr)
def test_parts_add_up_whatever_is_asked(objective):
    loss, gradient = gradients(Attention(), objective)
    in_parts, of_parts = gradients(Attention(), objective, grad_accumulation=2)
    assert in_parts == pytest.approx(loss, rel=1e-6)
    assert apart(of_parts, gradient) < 1e-6


def counted(sizes):
    def keep(x):
        sizes.append(x.numel())
        return x

    return keep


@pytest.mark.parametrize("mixer", [Attention(), Pythia(layers=6, heads=2)], ids=["blocks", "layers"])
def test_activations_worked_out_again_take_less_memory(mixer):
    kept = {}
    for activation_checkpointing in (False, True):
        sizes = kept[activation_checkpointing] = []
        with torch.autograd.graph.saved_tensors_hooks(counted(sizes), lambda x: x):
            gradients(mixer, Masked(0.3), activation_checkpointing=activation_checkpointing)
    assert sum(kept[True]) < 0.5 * sum(kept[False])


def test_dropout_is_the_same_when_activations_are_worked_out_again(tmp_path):
    model, budget = Model(Attention(heads=2), 16, 2, dropout=0.3), Budget(steps=3)
    stages = (Stage(Masked(), budget), Stage(Masked(), budget, activation_checkpointing=True))
    plain, again = (run(Recipe(toys.Majority(), model, (s,)), Workspace(tmp_path)) for s in stages)
    a, b = (RunDir(folder).load("weights.safetensors")[0] for folder in (plain, again))
    assert plain != again
    assert all(torch.equal(a[key], b[key]) for key in a)


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
@pytest.mark.parametrize("mixer", [S4D(states=4), toys.Normed()], ids=["own-norm", "norm-of-pytorch"])
def test_recomputed_activations_count_once_in_running_statistics(mixer, precision):
    plain, again = (statistics(mixer, precision=precision, activation_checkpointing=c) for c in (False, True))
    assert len(plain) > 3 and plain.keys() == again.keys()
    assert all(torch.equal(plain[key], again[key]) for key in plain)


def compiled(backend, *names):
    """What compiled blocks are apart by; in a process of its own, where annotations are not checked."""
    command = [sys.executable, "-W", "ignore", str(SUPPORT / "steps.py"), backend, *names]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def are_close(found, names):
    assert [line["mixer"] for line in found] == list(names)
    assert [line for line in found if max(line["loss"], line["gradient"]) > COMPILED] == []


@pytest.mark.slow
def test_blocks_of_a_sample_are_close_and_one_graph_and_count_once_when_they_are_traced():
    """Recomputed activations of compiled blocks count once in running statistics."""
    *found, statistics = compiled("aot_eager", *TRACED, "statistics")
    are_close(found, TRACED)
    assert all(line["whole"] for line in found)
    assert statistics["compiled"] == statistics["plain"] and len(statistics["plain"]) > 3


@pytest.mark.slow
def test_blocks_are_close_when_they_are_traced():
    found = compiled("aot_eager")
    are_close(found, MIXERS)
    assert {line["mixer"] for line in found if not line["whole"]} == IN_PARTS


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("g++") is None, reason="code for CPUs is made with g++")
def test_blocks_are_close_when_they_are_compiled():
    names = [name for name in MIXERS if resolve("mixers", name).compiles]
    are_close(compiled("inductor", *names), names)


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("g++") is None, reason="code for CPUs is made with g++")
def test_compiled_blocks_take_the_kernels_of_all_blocks():
    names = ["s4, joint", "dlr, joint", "hyena, joint"]
    are_close(compiled("inductor", *names), names)


def test_a_mixer_of_which_the_compiler_makes_wrong_gradients_is_not_compiled():
    stage = Stage(Classify(), Budget(steps=1), compile=True)
    with pytest.raises(ValueError, match="b2s6 gets wrong gradients when it is compiled"):
        Recipe(toys.Majority(), Model(B2S6(), 16, 1), (stage,))


def test_a_stage_is_run_and_validated_as_its_recipe_says(tmp_path):
    stage = Stage(Classify(), Budget(steps=4), precision="bf16", grad_accumulation=2, batch=8)
    recipe = Recipe(toys.Majority(), Model(Attention(heads=2), 16, 1), (stage,))
    found = RunDir(run(recipe, Workspace(tmp_path))).read("result.json")
    plain = RunDir(
        run(replace(recipe, stages=(replace(stage, precision="fp32"),)), Workspace(tmp_path))
    ).read("result.json")
    assert found["recipe"]["stages"][0]["precision"] == "bf16"
    assert found["scores"]["val"]["loss"] == pytest.approx(plain["scores"]["val"]["loss"], rel=0.02)
    assert found["scores"]["val"]["loss"] != plain["scores"]["val"]["loss"]


def test_says_what_a_stage_cannot_have():
    cpu = torch.device("cpu")
    stage = Stage(Classify(), Budget(steps=1), batch=4)
    network = Model(Attention(), 16).build(TOKENS, stage.objective.head(TOKENS, 16, "mean"))
    with pytest.raises(SpecError, match="tf32 is for GPUs"):
        prepare(network, replace(stage, precision="tf32"), cpu)
    with pytest.raises(SpecError, match="not for compiled blocks"):
        prepare(network, replace(stage, precision="tf32", compile=True), torch.device("cuda"))
    with pytest.raises(SpecError, match="does not divide among 1 processes in 3 parts each"):
        prepare(network, replace(stage, grad_accumulation=3), cpu)
    with pytest.raises(ValueError, match="not a multiple of grad_accumulation=3"):
        Recipe(toys.Majority(), Model(Attention()), (replace(stage, grad_accumulation=3),))
    with pytest.raises(ValueError, match="leave out grad_accumulation"):
        Recipe(toys.Majority(), Model(Attention(), norm="batch"), (replace(stage, grad_accumulation=2),))


@pytest.mark.parametrize("precision", ["fp32", "tf32", "bf16"])
def test_products_on_a_gpu_are_as_precise_as_asked_and_settings_come_back(precision):
    parts = (torch.backends.cuda.matmul, torch.backends.cudnn.conv, torch.backends.cudnn.rnn)
    before = [part.fp32_precision for part in parts]
    warned = pytest.warns() if precision == "bf16" else contextlib.nullcontext()
    with warned, precision_context(precision, torch.device("cuda")):
        seen = {part.fp32_precision for part in parts}
    assert seen == {"tf32" if precision == "tf32" else "ieee"}
    assert [part.fp32_precision for part in parts] == before
    assert (default_precision("cuda:1"), default_precision("cpu")) == ("bf16", "fp32")


def test_backward_passes_are_as_precise_as_forward_ones_whatever_the_setting():
    """As cuDNN's convolutions, whose setting at first is TF32; here with that of products on CPUs."""
    task = toys.Majority()
    stage = Stage(Classify(), Budget(steps=1), batch=4)
    network = build_network(Recipe(task, Model(Attention(2), 8, 1), (stage,)))
    targets = stage.objective.make_targets(task.load("train").batch(torch.arange(4)), task.form, generator(0))
    products = torch.backends.mkldnn.matmul
    before, products.fp32_precision = products.fp32_precision, "bf16"
    found = []
    network.head.linear.weight.register_hook(lambda gradient: found.append(products.fp32_precision))
    try:
        step(network, stage.optim.build(network, {}), stage, task.form, targets)
        assert found == ["ieee"] and products.fp32_precision == "bf16"
    finally:
        products.fp32_precision = before


@spec
class Whole(Classify):
    """An objective of other code whose loss is of a batch as a whole."""

    whole_batch = True


def test_a_batch_that_is_one_whole_is_not_split_over_processes(monkeypatch):
    stage = Stage(Whole(), Budget(steps=1), batch=4)
    network = build_network(Recipe(toys.Majority(), Model(Attention(), width=8), (stage,)))
    prepare(network, stage, torch.device("cpu"))
    monkeypatch.setattr(distributed, "world_size", lambda: 2)
    with pytest.raises(SpecError, match="whole sees the whole batch: run it in one process"):
        prepare(network, stage, torch.device("cpu"))
