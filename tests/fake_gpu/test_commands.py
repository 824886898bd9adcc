"""Whole commands on the emulated GPU: they end, their steps wait for nothing, and they resume."""

import contextlib
import json
import os
import signal
from dataclasses import replace

import numpy as np
import pytest
import torch
from fake_gpu.emulation import watch

import toys
from selfpretrain import SequenceClassifier
from selfpretrain.cli import app
from selfpretrain.errors import Interrupted
from selfpretrain.mixers.common import pairs
from selfpretrain.objectives.base import Denoise
from selfpretrain.objectives.classify import Classify
from selfpretrain.objectives.common.augmented import Augmented
from selfpretrain.objectives.masked import Masked
from selfpretrain.registry import find, name_of, names
from selfpretrain.runner.run_dir import RunDir
from selfpretrain.runner.stage import run
from selfpretrain.runner.workspace import Workspace, run_context
from selfpretrain.training import train
from selfpretrain.training.model import Model
from selfpretrain.training.recipe import Budget, Recipe, Stage


@pytest.fixture
def steps(monkeypatch):
    """Waits of every step but the first of a stage, which may lay out patterns."""
    waits, plain = [], train.step

    def step(network, *given):
        first = not waits or waits[-1][0] is not network
        with watch() as found:
            answer = plain(network, *given)
        waits.append((network, {} if first else dict(found.waits)))
        return answer

    monkeypatch.setattr(train, "step", step)
    return waits


def waited(steps):
    return {name: n for _, waits in steps for name, n in waits.items()}


@pytest.mark.parametrize(("task", "objective"), [("digits", "masked"), ("stdlib", "ngram-statistics")])
def test_compare_ends_and_its_steps_wait_for_nothing(task, objective, steps, tmp_path):
    command = ["compare", "--task", task, "--mixers", "attention", "--objective", objective]
    smoke = ["--seeds", "1", "--scale", "smoke", "--device", "cuda", "--jobs", "1", "-q"]
    assert app.run([*command, *smoke, "--runs", str(tmp_path)]) == 0
    assert len(steps) > 10 and waited(steps) == {}
    recipes = [json.loads(path.read_text()) for path in tmp_path.glob("stages/*/recipe.json")]
    assert {stage["precision"] for recipe in recipes for stage in recipe["stages"]} == {"bf16"}


def recipe(objective, mixer="attention", **stage):
    """Pretraining, then a classifier of augmented sequences."""
    values = {"signal": "values"} if name_of(objective) in ("spans", "diffusion") else {}
    first = Stage(objective, Budget(steps=6), evals=2, precision="bf16", **stage)
    then = replace(first, objective=Augmented(Classify(), toys.Reversal()))
    model = Model(find("mixers", mixer)(), 16, 1, dropout=0.1, causal=objective.needs_causal)
    return Recipe(toys.Majority(**values), model, (first, then))


def trained(made, runs):
    """Train as a command would, which signals stop."""
    with run_context(Workspace(runs, "cuda", quiet=True)) as here:
        return run(made, here)


DENOISING = [name for name in names("objectives") if issubclass(find("objectives", name), Denoise)]


@pytest.mark.parametrize("name", DENOISING)
def test_stages_of_every_objective_end_and_wait_for_nothing(name, steps, tmp_path):
    folder = trained(recipe(find("objectives", name)()), tmp_path)
    assert RunDir(folder).read("result.json")["scores"]["test"]
    assert len(steps) == 12
    assert waited(steps[:6]) == {}


@pytest.mark.parametrize("mixer", ["attention", "s4"])
def test_stages_that_a_signal_stops_resume_to_the_same_bits(mixer, steps, tmp_path, monkeypatch):
    made, step = recipe(Masked(), mixer), train.step

    def interrupted(*given):
        answer = step(*given)
        if len(steps) in (3, 9):
            os.kill(os.getpid(), signal.SIGTERM)
        return answer

    with monkeypatch.context() as patch:
        patch.setattr(train, "step", interrupted)
        for _ in range(2):
            with pytest.raises(Interrupted):
                trained(made, tmp_path / "cut")
    assert len(steps) == 9
    folders = [trained(made, tmp_path / name) for name in ("cut", "whole")]
    assert len(steps) == 12 + 12
    weights = [RunDir(folder).load("weights.safetensors")[0] for folder in folders]
    assert weights[0].keys() == weights[1].keys()
    assert all(torch.equal(x, weights[1][key]) for key, x in weights[0].items())
    scores = [RunDir(folder).read("result.json")["scores"] for folder in folders]
    assert scores[0] == scores[1]


def test_an_estimator_fits_predicts_and_is_saved(steps, tmp_path):
    X = np.random.default_rng(0).random((80, 30), dtype=np.float32)
    y = (X.mean(1) > 0.5).astype(int)
    quick = {"width": 8, "depth": 1, "epochs": 1, "pretrain_epochs": 0.1, "n_trials": 1, "model": "network"}
    model = SequenceClassifier(device="cuda", **quick).fit(X, y)
    assert [waits for _, waits in steps if waits] == []
    shares = model.predict_proba(X)
    assert shares.shape == (80, 2) and np.isfinite(shares).all()
    model.save(tmp_path / "model")
    again = SequenceClassifier.load(tmp_path / "model", device="cpu")
    np.testing.assert_allclose(again.predict_proba(X), shares, atol=0.02)


@pytest.mark.parametrize("compiler", [True, False])
def test_flex_attention_needs_triton_and_a_compiler_for_it(compiler, monkeypatch):
    monkeypatch.delenv("CC", raising=False)
    monkeypatch.setattr("shutil.which", lambda name: f"/usr/bin/{name}" if compiler else None)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: name)
    q = torch.zeros(1, 1, 2048, 16, device="cuda")
    pairs._triton_compiles.cache_clear()
    with pytest.warns(UserWarning, match="install gcc") if not compiler else contextlib.nullcontext():
        assert pairs.supports_flex(q) == compiler
    assert pairs.supports_flex(q) == compiler, "warned once"
    pairs._triton_compiles.cache_clear()
