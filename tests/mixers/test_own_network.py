"""Networks of the user: how they are called, probed, remembered, trusted, and how their weights go home."""

import json
import shutil
import subprocess
import sys
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from torch import nn

import own_networks
import selfpretrain
import toys
from engines import run_experiment
from selfpretrain.api import comparison
from selfpretrain.cli import app
from selfpretrain.config import from_dict, to_dict
from selfpretrain.errors import Interrupted, SpecError, StageFailed, StoreError, first_line
from selfpretrain.mixers.base import LayerContext
from selfpretrain.mixers.common.hf_model import HfModel, translate_errors
from selfpretrain.mixers.common.own_network import OwnBackbone, OwnLayer
from selfpretrain.objectives.classify import Classify
from selfpretrain.registry import name_of, resolve
from selfpretrain.runner import run as runner
from selfpretrain.runner.plan import Plan
from selfpretrain.runner.provenance import describe
from selfpretrain.runner.stage import run
from selfpretrain.runner.workspace import Workspace
from selfpretrain.training import train
from selfpretrain.training.mixer_checks import check, check_recipes
from selfpretrain.training.model import Model
from selfpretrain.training.recipe import (
    Budget,
    Recipe,
    Stage,
    build_network,
    fingerprint,
    foreign_modules,
    identity,
)

WIDTH, LENGTH = 8, 24


def own(name):
    return resolve("mixers", f"own_networks:{name}")


def recipe(mixer, **settings):
    return Recipe(
        toys.Majority(), Model(mixer, width=WIDTH, depth=1, **settings), (Stage(Classify(), Budget(steps=2)),)
    )


@pytest.fixture(scope="module")
def config(tmp_path_factory):
    """The folder of a small model of transformers."""
    transformers = pytest.importorskip("transformers")
    folder = tmp_path_factory.mktemp("models") / "tiny-bert"
    settings = {"num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32, "vocab_size": 8}
    transformers.BertConfig(hidden_size=16, max_position_embeddings=64, **settings).save_pretrained(folder)
    return folder


def test_a_callable_gets_the_keywords_that_it_names():
    assert own("Conv") == OwnLayer(factory="own_networks:Conv", keywords=("dim", "causal"))
    assert own("encoder") == OwnBackbone(
        factory="own_networks:encoder", keywords=("width", "depth", "heads", "causal")
    )
    made = replace(own("encoder"), depth=3, heads=2).build(LayerContext(WIDTH, LENGTH, causal=True))
    assert (len(made.module.layers.layers), made.module.causal) == (3, True)
    assert made.module.layers.layers[0].self_attn.num_heads == 2
    assert made.origin == "own_networks:encoder(width=8, depth=3, heads=2, causal=True)"


@pytest.mark.parametrize(
    ("name", "causal", "said"),
    [
        ("Conv", False, None),
        ("Conv", True, None),
        ("encoder", False, None),
        ("encoder", True, None),
        ("recurrent", False, None),
        ("recurrent", True, None),
        ("Masked", False, None),
        ("Mixed", False, None),
        ("Complex", True, None),
        ("Ahead", True, "causality: positions from 1 on reach earlier ones"),
        ("narrow", False, "own_networks:narrow(width=8) gives (3, 24, 1) for inputs of shape (3, 24, 8)"),
        ("Unset", False, "initialisation: parameter module.weight is never set"),
        ("other_draws", False, "initialisation: parameter module.weight starts otherwise"),
        ("numpy_buffer", False, "initialisation: buffer module.scale starts otherwise"),
        ("InList", False, "saved weights: a new layer with them gives other outputs"),
        ("InList", False, "gradients: a weight of shape (8, 8) is not a parameter of the module"),
        ("OnesInList", False, "gradients: a weight of shape (8,) is not a parameter of the module"),
        ("Unsaved", False, "saved weights: a new layer with them gives other outputs"),
        ("unsaved_buffer", False, "saved weights: a new layer with them gives other outputs"),
        ("Remembers", False, "saved weights: a new layer with them gives other outputs"),
        ("remembers_in_training", False, "; in training, they depend on earlier batches"),
        ("LateBuffer", False, "saved weights: a new layer does not take them: Error(s) in loading"),
        (
            "ExtraState",
            False,
            "saved weights: module._extra_state is of type dict, and only tensors are saved",
        ),
        ("Detached", False, "gradients: the inputs get no gradient"),
        ("Frozen", False, "gradients: the inputs get no gradient"),
        ("ChangesInputs", False, "it changes its inputs in place"),
        ("along_the_batch", False, "batch independence: sequences of a batch reach each other"),
    ],
)
def test_sound_networks_pass_every_probe_and_every_fault_is_a_line(name, causal, said):
    found = check(own(name), LayerContext(WIDTH, LENGTH, causal))
    if said is None:
        assert found.failures == [] and ("causal" in found.objectives) == causal
    else:
        (line,) = [line for line in found.failures if said in line]
        assert "\n" not in line


def test_weights_that_are_never_set_are_named_also_if_memory_held_nan():
    before = torch.get_deterministic_debug_mode()
    torch.set_deterministic_debug_mode("warn")  # fills new memory with NaN
    try:
        found = check(own("Unset"), LayerContext(WIDTH, LENGTH))
    finally:
        torch.set_deterministic_debug_mode(before)
    assert any("initialisation: parameter module.weight is never set" in line for line in found.failures)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("failing", r"own_networks:failing\(width=8\) fails: RuntimeError: no such kernel$"),
        ("nothing", "returns NoneType, not a torch.nn.Module"),
        ("greedy", "it needs vocab, classes"),
        ("anything", "takes any keyword and names none; name those of width, "),
        ("NUMBER", "is of type int; name a class or function that returns a new module"),
        ("MODULE", "is of type Linear; name a class or function that returns a new module"),
        ("no", "has no 'no'"),
    ],
)
def test_what_is_no_mixer_or_cannot_be_built_says_why(name, said):
    with pytest.raises(SpecError, match=said):
        own(name).build(LayerContext(WIDTH, LENGTH))


RAGGED = [np.random.default_rng(i).normal(size=8 + i % 5).astype("f4") for i in range(40)]
TINY = {"width": 8, "depth": 2, "scale": "smoke", "device": "cpu"}


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("same", "own_networks:same returns weights (weight) that it has returned before; make new ones"),
        ("lazy", "own_networks:lazy: weight has no shape yet; use layers that are not lazy"),
        ("double", "a network with double fails: RuntimeError: "),
        ("InPlace", "a network with inplace fails: RuntimeError: "),
    ],
)
@pytest.mark.parametrize("scale", ["smoke", pytest.param("auto", marks=pytest.mark.slow)])
def test_fit_says_in_one_line_why_a_network_cannot_be_trained(name, said, scale):
    with pytest.raises((SpecError, StageFailed)) as caught:
        selfpretrain.SequenceClassifier(mixer=f"own_networks:{name}", **TINY | {"scale": scale}).fit(
            RAGGED, [0, 1] * 20
        )
    assert said in str(caught.value) and "\n" not in str(caught.value)


def test_tied_weights_are_trained_resumed_saved_and_loaded(tmp_path, monkeypatch):
    monkeypatch.setattr(train, "CHECKPOINT_SECONDS", 0.0)
    tied = replace(recipe(own("Tied")), task=toys.Majority())
    undisturbed = run(tied, Workspace(tmp_path / "undisturbed"))
    with pytest.raises(Interrupted):
        run(tied, Workspace(tmp_path / "runs", stop=lambda: True))
    resumed = run(tied, Workspace(tmp_path / "runs"))
    first, second = (load_file(folder / "weights.safetensors") for folder in (undisturbed, resumed))
    assert first.keys() == second.keys() and all(torch.equal(first[name], second[name]) for name in first)
    model = selfpretrain.SequenceClassifier(mixer="own_networks:Tied", **TINY).fit(RAGGED, [0, 1] * 20)
    again = selfpretrain.SequenceClassifier.load(model.save(tmp_path / "model"), trust=("own_networks",))
    assert (again.predict_proba(RAGGED) == model.predict_proba(RAGGED)).all()
    layer = again.predictor_.networks[0].blocks[0].mixer.module
    assert layer.first.weight is layer.second.weight


def test_the_first_line_of_an_error_is_never_empty():
    assert first_line(RuntimeError("\n  \n  what\nmore")) == "RuntimeError: what"
    assert first_line(RuntimeError()) == "RuntimeError"


def test_a_name_of_ours_stays_ours(monkeypatch):
    monkeypatch.setattr(own_networks, "s4d", own_networks.Conv, raising=False)
    assert name_of(own("s4d")) == "own-s4d"
    assert name_of(own("Conv")) == "conv"


def test_one_that_names_the_length_always_gets_it():
    layer = own("Mixed").build(LayerContext(WIDTH, LENGTH)).eval()
    x = torch.randn(2, 10, WIDTH)
    padded = torch.cat([x, torch.randn(2, 4, WIDTH)], 1)
    mask = (torch.arange(14) < 10).expand(2, 14)
    assert torch.allclose(layer(x, None), layer(padded, mask)[:, :10], atol=1e-6)
    with pytest.raises(SpecError, match="built for at most 24"):
        layer(torch.randn(2, 25, WIDTH))


def test_a_wrong_shape_never_broadcasts_into_a_network():
    network = build_network(recipe(own("narrow")))
    with pytest.raises(SpecError, match="gives"):
        network.features(toys.Majority().load("train").batch(torch.arange(2)).inputs)


def test_recipes_remember_the_callable_its_code_and_its_faults_and_demand_trust(monkeypatch):
    mixer = own("encoder")
    plain = to_dict(recipe(mixer))
    assert plain["model"]["mixer"]["factory"] == "own_networks:encoder"
    with pytest.raises(SpecError, match="add --trust own_networks"):
        from_dict(plain, ("toys",))
    with pytest.raises(SpecError, match="--trust os"):  # the class is ours, what it would import is not
        from_dict(to_dict(mixer) | {"factory": "os:getcwd"})
    assert from_dict(plain, ("toys", "own_networks")) == recipe(mixer)
    assert "own_networks" in foreign_modules(plain)
    assert describe(plain["model"]["mixer"]).startswith("encoder (factory own_networks:encoder")
    noted = check_recipes([recipe(own("Dead"))])
    assert noted == ["dead: gradients: parameter module.unused gets no gradient"]
    before = fingerprint(recipe(own("Conv")))
    assert identity(recipe(own("Conv")))["source"]["own_networks"]
    monkeypatch.setattr("selfpretrain.training.code_hash.digest", lambda module: "0123456789")
    assert fingerprint(recipe(own("Conv"))) != before, "the module was edited"


def test_causal_pretraining_of_one_that_looks_ahead_is_refused(tmp_path):
    study = comparison(toys.Majority(), ("own_networks:Ahead",), "causal", 1, "smoke", {})
    with pytest.raises(SpecError, match="must not be pretrained causally"):
        run_experiment(study.experiment("smoke"), Workspace.of(tmp_path, "cpu", "1"))
    assert not (tmp_path / "stages").exists()


def test_a_comparison_tells_faults_before_it_trains_and_in_its_report(tmp_path, capsys):
    command = ["compare", "--task", "toys:Majority", "--mixers", "own_networks:Dead", "--scale", "smoke"]
    assert app.run([*command, "--seeds", "1", "--arms", "matched,spt", "--runs", str(tmp_path)]) == 0
    said = capsys.readouterr()
    assert said.err.startswith("note: dead: gradients: parameter module.unused gets no gradient\n")
    _, caution = " ".join(said.out.split()).split("Before you trust this")
    assert caution.startswith(" - Found before training: dead: gradients: parameter module.unused gets no")


def test_jobs_that_are_submitted_have_their_faults_told_before(tmp_path, monkeypatch):
    engine = SimpleNamespace(detach=lambda stages, workspace: f"{len(stages)} jobs")
    monkeypatch.setattr(runner, "find", lambda shelf, name: engine)
    study = comparison(toys.Majority(), ("own_networks:Dead",), None, 1, "smoke", {})
    plan = Plan.of(study.experiment("smoke"))
    with pytest.warns(match="dead: gradients: parameter module.unused gets no gradient"):
        assert "jobs" in runner.detach(plan, Workspace.of(tmp_path, "cpu", "1"))


@pytest.fixture(scope="module")
def compared(tmp_path_factory, config):
    """Runs of a comparison of all three ways."""
    runs = tmp_path_factory.mktemp("runs")
    mixers = f"own_networks:Conv,own_networks:encoder,hf-model:{config}"
    command = ["compare", "--task", "toys:Majority", "--mixers", mixers, "--scale", "smoke", "--seeds", "1"]
    command += ["--objective", "masked", "--arms", "spt,matched", "--quiet", "-s", "task.shortest=24"]
    assert app.run([*command, "--runs", str(runs)]) == 0
    (folder,) = runs.glob("compare-*")
    return folder


def taken(folder, row, path):
    command = ["model", "take", str(folder), "--row", row, "--column", "SPT", "--backbone", str(path)]
    trust = [word for each in ("toys", "own_networks") for word in ("--trust", each)]
    assert app.run([*command, *trust]) == 0
    return load_file(path)


def test_weights_of_a_network_go_home_and_those_of_layers_as_a_list(compared, tmp_path, capsys):
    weights = taken(compared, "encoder", tmp_path / "weights.safetensors")
    assert "own_networks:encoder(width=16, depth=2, heads=4, causal=False)" in capsys.readouterr().out
    mine = own_networks.encoder(16, 2, 4)
    fresh = mine.layers.layers[0].linear1.weight.clone()
    mine.load_state_dict(weights)
    assert not torch.equal(fresh, mine.layers.layers[0].linear1.weight)
    layers = taken(compared, "conv", tmp_path / "layers.safetensors")
    nn.ModuleList([own_networks.Conv(16)]).load_state_dict(layers)


def test_weights_of_a_model_of_transformers_go_home(compared, config, tmp_path):
    transformers = pytest.importorskip("transformers")
    weights = taken(compared, "tiny-bert", tmp_path / "weights.safetensors")
    loaded = transformers.AutoConfig.from_pretrained(config)
    model = transformers.AutoModel.from_config(loaded, add_pooling_layer=False)
    left = model.load_state_dict(weights, strict=False)
    assert left.missing_keys == ["embeddings.word_embeddings.weight"]
    assert left.unexpected_keys == []


def test_a_mixer_of_ours_has_no_other_home(tmp_path, capsys):
    estimator = selfpretrain.SequenceClassifier(mixer="gru", scale="smoke", objective=None)
    waves = [np.sin(np.arange(20) * (1 + row % 2)) for row in range(20)]
    estimator.fit(waves, [row % 2 for row in range(20)])
    with pytest.raises(SpecError, match="gru is a mixer of this package"):
        estimator.save_backbone(tmp_path / "weights.safetensors")
    with pytest.raises(SpecError, match=r"called \.safetensors"):
        estimator.save_backbone(tmp_path / "weights.bin")
    assert app.run(["model", "take", str(tmp_path), "--row", "gru", "--column", "SPT"]) == 2
    assert "--backbone" in capsys.readouterr().err


def test_estimators_train_save_and_load_it(tmp_path):
    waves = [np.sin(np.arange(20) * (1 + row % 2)) for row in range(20)]
    estimator = selfpretrain.SequenceClassifier(mixer="own_networks:encoder", scale="smoke")
    estimator.fit(waves, [row % 2 for row in range(20)])
    estimator.save(tmp_path / "model")
    with pytest.raises(SpecError, match="--trust own_networks"):
        selfpretrain.SequenceClassifier.load(tmp_path / "model")
    again = selfpretrain.SequenceClassifier.load(tmp_path / "model", trust=("own_networks",))
    assert np.array_equal(again.predict_proba(waves), estimator.predict_proba(waves))
    assert "encoder" in (tmp_path / "model" / "README.md").read_text()


@pytest.mark.parametrize("causal", [False, True])
def test_a_model_of_transformers_passes_every_probe(config, causal):
    mixer = resolve("mixers", f"hf-model:{config}")
    assert name_of(mixer) == "tiny-bert"
    assert check(mixer, LayerContext(WIDTH, LENGTH, causal)).failures == []
    with pytest.raises(SpecError, match="at most 64"):
        mixer.build(LayerContext(WIDTH, 65, causal))


def test_a_model_whose_positions_start_behind_padding_has_fewer_of_them():
    pytest.importorskip("transformers")
    settings = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 8}
    settings |= {"model_type": "roberta", "vocab_size": 8, "max_position_embeddings": 18, "pad_token_id": 1}
    mixer = HfModel("tiny-roberta", json.dumps(settings))
    assert mixer.build(LayerContext(8, 16))(torch.randn(1, 16, 8)).shape == (1, 16, 8)
    with pytest.raises(SpecError, match="at most 16"):
        mixer.build(LayerContext(8, 17))


def test_any_error_of_the_library_is_one_line_and_ours_pass():
    class Odd(Exception):
        pass

    said = "the checkpoint odd cannot be used: Validation error for field 'x': wrong$"
    with pytest.raises(SpecError, match=said), translate_errors("odd"):
        raise Odd("Validation error for field 'x':\n    wrong\n\nmore")
    with pytest.raises(StoreError, match=r"^ours$"), translate_errors("odd"):
        raise StoreError("ours")


def test_a_checkpoint_keeps_the_dots_of_its_name(config, tmp_path):
    shutil.copytree(config, tmp_path / "Tiny-3.2-1B")
    assert name_of(resolve("mixers", f"hf-model:{tmp_path / 'Tiny-3.2-1B'}")) == "Tiny-3.2-1B"


def test_its_config_is_in_the_recipe_not_the_file(config):
    mixer = resolve("mixers", f"hf-model:{config / 'config.json'}")
    assert mixer == resolve("mixers", f"hf-model:{config}")
    assert json.loads(mixer.config)["hidden_size"] == 16
    assert from_dict(to_dict(mixer)) == mixer
    assert describe(to_dict(mixer)) == "tiny-bert"
    with pytest.raises(SpecError, match="is not on this machine"):  # and no network is asked
        resolve("mixers", "hf-model:nobody/nothing")


@pytest.mark.slow
def test_a_worker_in_another_process_finds_it(tmp_path):
    code = "from torch import nn\n\ndef make(width):\n    return nn.Linear(width, width)\n"
    (tmp_path / "mine.py").write_text(code)
    asked = ["compare", "--task", "stdlib", "--mixers", "mine:make", "--scale", "smoke", "--seeds", "1"]
    asked = [
        sys.executable,
        "-m",
        "selfpretrain",
        *asked,
        "--quiet",
        "--executor",
        "processes",
        "--jobs",
        "2",
    ]
    done = subprocess.run(asked, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    sources = next((tmp_path / "runs" / "stages").glob("*/sources.json"))
    assert "def make(width)" in json.loads(sources.read_text())["modules"]["mine"]
