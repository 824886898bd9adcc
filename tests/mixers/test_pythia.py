"""Somebody else's network as a layer: it is the same network, and what is missing is said in one line."""

import json
import socket
import sys

import pytest
import torch
from pydantic import ValidationError

import toys
from releases import LETTERS, SIZES, write_pythia
from selfpretrain.cli import app
from selfpretrain.data.spec import Classes, SequenceSpec, Tokens, Values
from selfpretrain.errors import SpecError
from selfpretrain.mixers.attention import Attention
from selfpretrain.mixers.base import LayerContext
from selfpretrain.mixers.common import hf_model
from selfpretrain.mixers.pythia import Pythia
from selfpretrain.runner.run_dir import RunDir
from selfpretrain.training.mixer_checks import check
from selfpretrain.training.model import Model

transformers = pytest.importorskip("transformers")

LENGTH, D = 12, SIZES["hidden_size"]
ALONE = {"depth": 1, "expand": 0}
OTHERS = {
    "bert": {"intermediate_size": 32},
    "llama": {"intermediate_size": 32, "num_key_value_heads": 1},
    "gpt2": {},
    "albert": {"intermediate_size": 32, "embedding_size": 8},
}
"""Backbones with learned positions and a pooler, with grouped keys, with other names, with narrow inputs."""


@pytest.fixture(autouse=True)
def offline(monkeypatch):
    """Whoever looks for a network fails at once, and loudly."""
    toys.settle()

    def refuse(*address, **settings):
        raise AssertionError("nothing may look for a network")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)


@pytest.fixture
def folder(tmp_path):
    write_pythia(tmp_path)
    return tmp_path


def network(mixer, signal=Tokens(3), symbols=None, causal=True, width=D):  # noqa: B008
    form = SequenceSpec(signal, LENGTH, Classes(("x", "y")))
    return Model(mixer, width, **ALONE, causal=causal).build(form, torch.nn.Identity(), symbols).eval()


def test_alone_in_a_model_it_is_the_network_that_was_stored(folder):
    theirs = transformers.AutoModel.from_pretrained(folder, dtype=torch.float32).eval()
    ours = network(Pythia(str(folder), pretrained=True), symbols=("a", "b", "7"))
    tokens = torch.tensor([[0, 1, 2, 1, 0, 0, 2]])
    ids = torch.tensor([[1 + LETTERS.index("ab7"[t]) for t in tokens[0].tolist()]])
    expected = torch.nn.functional.layer_norm(theirs(input_ids=ids).last_hidden_state, (D,))
    torch.testing.assert_close(ours.features(tokens), expected, atol=1e-5, rtol=1e-4)
    names = [name for name, _ in ours.named_parameters()]
    assert "blocks.0.mixer.backbone.layers.0.attention.query_key_value.weight" in names
    assert not [name for name in names if "norm1" in name or "embed_in" in name or "enter" in name]


def test_symbols_and_grey_values_start_as_tokens_or_as_the_mean_of_several(folder):
    table = transformers.AutoModel.from_pretrained(folder, dtype=torch.float32).embed_in.weight
    a, b = table[1], table[2]
    started = network(Pythia(str(folder), pretrained=True), symbols=("a", "ab", "")).embed.symbol.weight
    torch.testing.assert_close(started, torch.stack([a, (a + b) / 2, table.mean(0)]))
    net = network(Pythia(str(folder), pretrained=True), Values(levels=11, high=20.0))
    numbers = [[LETTERS.index(c) + 1 for c in str(level)] for level in range(11)]
    torch.testing.assert_close(net.embed.symbol.weight, torch.stack([table[ids].mean(0) for ids in numbers]))
    x = torch.tensor([[[0.0], [6.9], [20.0]]])
    torch.testing.assert_close(net.embed(x)[0], net.embed.symbol.weight[[0, 3, 10]])
    fresh = network(Pythia(str(folder), layers=0), symbols=("a", "b", "7")).embed.symbol.weight
    assert fresh.std() > 0.2  # the checkpoint's are 0.02 wide
    assert network(Attention(), Values(levels=11)).embed.symbol is None
    assert network(Pythia(), Values(channels=3, levels=11)).embed.symbol is None


@pytest.mark.parametrize(("width", "heads", "layers"), [(512, 8, 6), (16, 4, 1), (24, 4, 2), (50, 1, 1)])
def test_the_fresh_network_is_pythia(width, heads, layers):
    backbone = Pythia(layers=layers, heads=heads).build(LayerContext(width, LENGTH)).backbone
    per_layer = 12 * width**2 + 13 * width  # two norms, attention and mlp with biases
    assert sum(p.numel() for p in backbone.parameters()) == layers * per_layer + 2 * width
    turned = backbone.layers[0].attention.rotary_ndims
    assert turned == max(2, width // heads // 8 * 2)


@pytest.mark.parametrize("kind", OTHERS)
@pytest.mark.parametrize("causal", [False, True])
def test_other_backbones_keep_the_contract(kind, causal, tmp_path):
    transformers.AutoConfig.for_model(kind, **SIZES, **OTHERS[kind]).save_pretrained(tmp_path)
    found = check(Pythia(str(tmp_path), layers=0), LayerContext(8, 40, causal))
    assert found.failures == []
    assert found.objectives == (("masked", "causal") if causal else ("masked",))


def test_a_stage_is_another_with_another_checkpoint(tmp_path):
    config = transformers.AutoConfig.for_model("gpt_neox", **SIZES)
    mixer = Pythia(str(tmp_path), pretrained=True)
    found = set()
    for seed in (0, 1):
        torch.manual_seed(seed)
        transformers.AutoModel.from_config(config).save_pretrained(tmp_path)
        found |= {mixer.version(), mixer.version()}
    assert len(found) == 2 and "" not in found
    architecture = Pythia(str(tmp_path), layers=0).version()
    (tmp_path / "model.safetensors").unlink()
    assert Pythia(str(tmp_path), layers=0).version() == architecture != ""
    assert Pythia().version() == Pythia("nobody/nothing", pretrained=True).version() == ""


@pytest.mark.parametrize("kind", ["gpt_neox", *OTHERS])
def test_weights_survive_a_file(kind, tmp_path):
    transformers.AutoConfig.for_model(kind, **SIZES, **OTHERS.get(kind, {})).save_pretrained(tmp_path)
    mixer = Pythia(str(tmp_path), layers=0)
    here, there = network(mixer), network(mixer)
    RunDir(tmp_path).save("weights.safetensors", here.state_dict())
    there.load_state_dict(RunDir(tmp_path).load("weights.safetensors")[0])
    tokens = torch.tensor([[0, 1, 2, 1]])
    torch.testing.assert_close(here.features(tokens), there.features(tokens))


def test_what_cannot_be_made_is_refused_in_a_line(folder, tmp_path, monkeypatch):
    def refused(mixer, width, said):
        with pytest.raises(SpecError, match=said) as found:
            mixer.build(LayerContext(width, LENGTH))
        assert "\n" not in str(found.value)

    there, config = str(folder), folder / "config.json"
    refused(Pythia(pretrained=True), 512, "pythia-70m-deduped is not on this machine: run `hf download")
    refused(Pythia(layers=0), 512, "or name a folder")
    refused(Pythia(heads=3), 16, "width 16 does not split into 3 heads")
    refused(Pythia(heads=16), 16, "use an even size")
    refused(Pythia(there, pretrained=True), 32, f"need a model of width {D}, not 32")
    config.write_text(json.dumps(json.loads(config.read_text()) | {"num_hidden_layers": 3}))
    refused(Pythia(there, pretrained=True), D, r"has no weights for layers\.2\.")
    config.write_text("{}")
    refused(Pythia(there, layers=0), D, "cannot be used")
    several = transformers.T5Config(vocab_size=9, d_model=D, d_kv=4, num_layers=1, num_heads=2)
    several.save_pretrained(folder)
    refused(Pythia(there, layers=0), D, "not one network")
    hf_model._import_transformers.cache_clear()
    monkeypatch.setitem(sys.modules, "transformers", None)
    refused(Pythia(), D, r"pip install 'selfpretrain\[hf\]'")


def test_a_missing_checkpoint_ends_a_comparison_at_once(tmp_path, capsys):
    asked = ["compare", "--task", "digits", "--mixers", "pythia", "--scale", "smoke", "--runs", str(tmp_path)]
    assert app.run([*asked, "-s", "pythia.mixer.pretrained=true", "--jobs", "1"]) == 2
    error = capsys.readouterr().err
    assert "hf download" in error
    assert error.count("\n") == 1
    assert not (tmp_path / "stages").exists()


def test_a_checkpoint_that_would_not_be_read_is_refused():
    with pytest.raises(SpecError, match="the checkpoint gpt2 would not be read: add layers=0"):
        Pythia(checkpoint="gpt2").build(LayerContext(16, 8))


def test_pretrained_weights_are_not_drawn_again():
    with pytest.raises(ValidationError, match="init=random would overwrite the pretrained weights of pythia"):
        Model(Pythia(pretrained=True), 16, **ALONE, init="random")
