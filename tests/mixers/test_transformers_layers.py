"""Layers taken out of transformers: they are the library's, with a start and a cost of ours."""

import copy
import importlib.machinery
import subprocess
import sys
import textwrap
import types

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

import toys
from selfpretrain import registry
from selfpretrain.cli import app
from selfpretrain.data.spec import Classes, SequenceSpec, Tokens
from selfpretrain.errors import SpecError
from selfpretrain.mixers.base import LayerContext
from selfpretrain.mixers.common.transformers_layer import TransformersMixer, offline
from selfpretrain.mixers.gated_deltanet import GatedDeltaNet
from selfpretrain.mixers.lightning import Lightning
from selfpretrain.mixers.mamba import Mamba
from selfpretrain.mixers.mlstm import MLSTM
from selfpretrain.mixers.rg_lru import RGLRU
from selfpretrain.mixers.rwkv4 import RWKV4
from selfpretrain.objectives.masked import Masked
from selfpretrain.runner.run_dir import RunDir
from selfpretrain.runner.stage import run
from selfpretrain.runner.workspace import Workspace
from selfpretrain.training.model import Model
from selfpretrain.training.recipe import Budget, Recipe, Stage

transformers = pytest.importorskip("transformers")

KINDS = [registry.find("mixers", name) for name in registry.names("mixers")]
TAKEN = [kind() for kind in KINDS if issubclass(kind, TransformersMixer)]
every_layer = pytest.mark.parametrize("mixer", TAKEN, ids=registry.name_of)


def cell(mixer, width=16, length=70):
    toys.settle()
    return mixer.build(LayerContext(width, length, causal=True)).past


def as_in_the_library(mixer, layer):
    """The same layer without anything of ours."""
    layer = copy.deepcopy(layer)
    for part in layer.modules():
        part.__dict__.pop("_rnn_scan", None)
        part.__dict__.pop("forward", None)
        if "_inference_fn" in vars(part):
            part._inference_fn = type(part)(part.config)._inference_fn

    def forward(x):
        y = type(layer).forward(layer, x, **mixer.arguments(x))
        return y[0] if isinstance(y, tuple) else y

    return layer, forward


def with_gradients(forward, parameters, x):
    x = x.clone().requires_grad_()
    y = forward(x)
    loss = (y * torch.linspace(-1, 1, y.shape[-1])).square().sum()
    return [y.detach(), *torch.autograd.grad(loss, [x, *parameters])]


@every_layer
def test_is_the_layer_of_the_library_with_a_start_of_ours(mixer):
    kind = mixer.classes()[2]
    before = dict(vars(sys.modules[kind.__module__]))
    ours = cell(mixer)
    theirs, forward = as_in_the_library(mixer, ours.layer)
    x = torch.randn(2, 70, 16)
    found = with_gradients(lambda u: ours(u, ())[0], ours.parameters(), x)
    expected = with_gradients(forward, theirs.parameters(), x)
    for a, b in zip(found, expected, strict=True):
        assert (a - b).abs().max() <= 2e-5 * b.abs().max()
    for width in (32, 128):
        start = cell(mixer, width)(torch.randn(2, 128, width), ())[0].std()
        assert 0.08 < start < 1.2, "layers do not start near zero"
    assert vars(sys.modules[kind.__module__]) == before, "the library is left alone"
    assert {f.__module__ for f in vars(kind).values() if callable(f)} <= {kind.__module__, None}


class Written(TorchDispatchMode):
    """Counts the numbers that operations write."""

    count = 0

    def __torch_dispatch__(self, op, types, args=(), kwargs=None):
        out = op(*args, **(kwargs or {}))
        tensors = out if isinstance(out, tuple | list) else [out]
        if not op.is_view:
            self.count += sum(x.numel() for x in tensors if isinstance(x, torch.Tensor))
        return out


def growth(forward, parameters):
    """How many times as much four times the length costs."""
    written = []
    for length in (64, 256):
        x = torch.randn(1, length, 16)
        with Written() as counter:
            with_gradients(forward, parameters, x)
        written.append(counter.count)
    return written[1] / written[0]


@every_layer
def test_cost_is_linear_in_the_length(mixer):
    ours = cell(mixer, length=256)
    assert growth(lambda u: ours(u, ())[0], list(ours.parameters())) < 5


@pytest.mark.parametrize(("mixer", "what"), [(Lightning(), "slope_rate"), (RWKV4(), "time_decay")])
def test_blocks_decay_by_their_depth(mixer, what):
    form = SequenceSpec(Tokens(3), 12, Classes(("a", "b")))
    network = Model(mixer, width=16, depth=3, causal=True).build(form, torch.nn.Identity())
    first, second, third = (getattr(block.mixer.past.layer, what) for block in network.blocks)
    assert (first - second).abs().max() > 0.01 and (second - third).abs().max() > 0.01
    if what == "slope_rate":
        torch.testing.assert_close(second / first, torch.full_like(first, 0.5), atol=1e-4, rtol=0)


def test_starts_of_rwkv_and_gated_deltanet_and_rg_lru_keeps_no_graph():
    first = cell(RWKV4()).layer.time_first.detach()
    assert [round(float(x), 3) for x in first[:4]] == [-1.204, -0.704, -1.704, -1.204], "as in the paper"
    steps = torch.nn.functional.softplus(cell(GatedDeltaNet()).layer.dt_bias)
    assert 1e-3 <= steps.min() < steps.max() <= 0.1, "states last"
    ours = cell(RGLRU())
    ours(torch.randn(1, 9, 16, requires_grad=True), ())
    assert ours.layer.rg_lru.recurrent_states is None
    assert ours.layer.conv1d_state is None


def test_a_run_says_which_code_it_ran(tmp_path):
    recipe = Recipe(toys.Majority(), Model(Mamba(), 16, 1), (Stage(Masked(), Budget(steps=1)),))
    environment = RunDir(run(recipe, Workspace(tmp_path))).read("environment.json")
    assert environment["transformers"] == f"{transformers.__version__}, no kernels"


KERNELS = """
import importlib.machinery, sys, types
for name in ("fla", "mamba_ssm", "causal_conv1d"):
    module = types.ModuleType(name)
    module.__spec__ = importlib.machinery.ModuleSpec(name, None)
    sys.modules[name] = module
    for function in ("chunk_gated_delta_rule", "fused_recurrent_gated_delta_rule", "selective_scan_fn",
                     "mamba_inner_fn", "selective_state_update", "causal_conv1d_fn", "causal_conv1d_update"):
        def kernel(*args, **kwargs):
            raise RuntimeError("a kernel ran")
        kernel.__name__, kernel.__module__ = function, name
        setattr(module, function, kernel)
import torch
from selfpretrain.mixers.base import LayerContext
from selfpretrain.mixers.gated_deltanet import GatedDeltaNet
from selfpretrain.mixers.mamba import Mamba
for mixer in (Mamba(), GatedDeltaNet()):
    layer, x = mixer.build(LayerContext(16, 20, causal=True)).train(), torch.randn(1, 20, 16)
    layer(x)
    try:
        layer.past.fast(layer.past.layer, x)
    except RuntimeError as error:
        print(error)
    print(mixer.libraries("cpu")["transformers"].partition(", ")[2])
    print(mixer.libraries("cuda:0")["transformers"].partition(", ")[2])
"""


@pytest.mark.slow
def test_kernels_run_on_a_gpu_only_and_are_named():
    command = [sys.executable, "-c", textwrap.dedent(KERNELS)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        "a kernel ran",
        "no kernels",
        "kernels of causal_conv1d, mamba_ssm in bf16",
        "a kernel ran",
        "no kernels",
        "kernels of causal_conv1d, fla in bf16",
    ]


def test_nothing_is_downloaded_while_a_layer_is_built(monkeypatch):
    constants = pytest.importorskip("huggingface_hub.constants")
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    with pytest.raises(KeyError), offline():
        assert constants.HF_HUB_OFFLINE
        raise KeyError
    assert not constants.HF_HUB_OFFLINE


class Elsewhere(TransformersMixer):
    """A layer that no version has."""

    layer = "mamba.MambaMixerOfTomorrow"
    model = "Mamba"

    def config(self, context):
        return {}


def test_another_package_or_version_of_the_library_is_named(monkeypatch):
    with pytest.raises(SpecError, match=r"has no MambaMixerOfTomorrow; pip install --upgrade"):
        Elsewhere().build(LayerContext(16, 9))
    package = types.ModuleType("xlstm")
    package.__spec__ = importlib.machinery.ModuleSpec("xlstm", None)
    monkeypatch.setitem(sys.modules, "xlstm", package)
    with pytest.raises(SpecError, match="pip uninstall xlstm"):
        MLSTM().build(LayerContext(16, 9))


def test_a_missing_library_is_named_with_its_extra_at_once(tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "transformers", None)
    for mixer in TAKEN:
        with pytest.raises(SpecError, match=r"needs the library transformers: pip install .*\[hf\]"):
            mixer.build(LayerContext(16, 9))
    asked = ["compare", "--task", "digits", "--mixers", "mamba", "--scale", "smoke", "--jobs", "1"]
    assert app.run([*asked, "--runs", str(tmp_path)]) == 2
    error = capsys.readouterr().err
    assert "mamba needs the library transformers: pip install 'selfpretrain[hf]'" in error
    assert error.count("\n") == 1
    assert not (tmp_path / "stages").exists()
