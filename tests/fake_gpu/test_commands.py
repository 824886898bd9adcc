"""Whole commands on the emulated GPU: they end, their steps wait for nothing, and they resume."""

import contextlib
import json
import os
import signal
import sys
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
import torch
from fake_gpu.emulation import MEMORY, watch

import toys
from selfpretrain import SequenceClassifier
from selfpretrain.cli import app
from selfpretrain.errors import DoesNotFit, Interrupted
from selfpretrain.mixers.common import pairs
from selfpretrain.mixers.common.own_network import mixer_of
from selfpretrain.objectives.base import Denoise
from selfpretrain.objectives.classify import Classify
from selfpretrain.objectives.common.augmented import Augmented
from selfpretrain.objectives.masked import Masked
from selfpretrain.registry import find, name_of, names
from selfpretrain.runner import forecast
from selfpretrain.runner.run_dir import RunDir
from selfpretrain.runner.stage import run
from selfpretrain.runner.workspace import Workspace, run_context
from selfpretrain.system.events import listen
from selfpretrain.training import cost, memory, train
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


@pytest.mark.parametrize("flags", [["--measure"], ["--minutes", "30"]])
def test_steps_are_timed_on_the_gpu_that_will_train_and_after_it_has_ended(flags, tmp_path, monkeypatch):
    order = []
    plain = train.step
    monkeypatch.setattr(train, "step", lambda *given: order.append("step") or plain(*given))
    monkeypatch.setattr(torch.cuda, "synchronize", lambda device: order.append("wait"))
    monkeypatch.setattr(cost, "_measured", {})
    asked = ["compare", "--task", "digits", "--mixers", "attention", "--seeds", "1", "--scale", "smoke"]
    with watch() as found:
        assert app.run([*asked, "--device", "cuda", "--dry-run", "--runs", str(tmp_path), *flags]) == 0
    assert found.kernels and order[0] == order[-1] == "wait"
    assert order[:8] == ["wait", "step", "wait"] * 2 + ["wait", "step"]


def test_a_stage_that_does_not_fit_takes_no_time(monkeypatch):
    monkeypatch.setattr(memory, "_gigabytes", lambda *how: 90.0)
    made = recipe(Masked())
    with pytest.raises(DoesNotFit):
        cost.seconds_per_step(made, "cuda")
    assert forecast._seconds(made, cost.COUNTED, "cuda") == 0


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


@pytest.mark.parametrize("trials", [1, 2])
def test_a_time_limit_of_fit_is_filled_with_steps_of_its_gpu(monkeypatch, trials):
    """A step takes two minutes on the processor, a millisecond there, where a batch of 16 does not fit."""
    X = np.random.default_rng(0).random((80, 30), dtype=np.float32)
    y = (X.mean(1) > 0.5).astype(int)
    asked = []

    def seconds(recipe, device="cpu"):
        assert sys.exc_info()[0] is None  # an error that is handled would keep its tensors
        asked.append((recipe.last.batch, device))
        if device == "cuda" and recipe.last.batch == max(batch for batch, _ in asked):
            raise DoesNotFit("too little memory")
        return 0.001 if device == "cuda" else 120.0

    monkeypatch.setattr(cost, "seconds_per_step", seconds)
    monkeypatch.setattr(cost, "seconds_to_count", lambda recipe: 0.0)
    quick = {"width": 8, "depth": 1, "epochs": 1, "pretrain_epochs": 0.1, "model": "network"}
    model = SequenceClassifier(device="cuda", n_trials=trials, minutes=1, **quick).fit(X, y)
    assert model.trained_ and {device for _, device in asked} == {"cuda"}


def test_a_step_that_runs_out_of_memory_while_it_is_timed_does_not_fit(monkeypatch):
    def fails(*given):
        raise torch.OutOfMemoryError("CUDA out of memory")

    monkeypatch.setattr(cost, "seconds_on_gpu", fails)
    monkeypatch.setattr(cost, "_measured", {})
    with pytest.raises(DoesNotFit, match="attention: the GPU ran out of memory"):
        cost.seconds_per_step(recipe(Masked()), "cuda")


STUDY = ["--task", "digits", "--mixers", "attention,s4d,longconv", "--objective", "masked", "--seeds", "1"]


def compared(runs):
    """Compare three models; return the exit code, the finished stages of each, and the page."""
    code = app.run(
        ["compare", *STUDY, "--scale", "smoke", "--device", "cuda", "--jobs", "1", "--runs", str(runs)]
    )
    found = Counter(path.name.split("-")[1] for path in runs.glob("stages/*") if RunDir(path).finished)
    return code, found, next(runs.glob("*/report.md")).read_text()


def test_a_study_of_which_one_stage_does_not_fit_ends_with_all_others_done(tmp_path, capsys, monkeypatch):
    plain = memory._gigabytes

    def gigabytes(recipe, stage, *how):
        large = name_of(recipe.model.mixer) == "s4d" and name_of(stage.objective) == "masked"
        return 90.0 if large else plain(recipe, stage, *how)

    monkeypatch.setattr(memory, "_gigabytes", gigabytes)
    code, found, page = compared(tmp_path)
    why = "s4d, masked, seed 0: a step takes 90.0 GB, the GPU has 80.0 GB"
    assert code == 1 and why in capsys.readouterr().err
    assert found["attention"] == found["longconv"] > found["s4d"] > 0
    assert "Missing" in page and why in page


def test_running_out_of_memory_ends_a_stage_and_not_the_study(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(MEMORY, "limit", MEMORY.live + (1 << 30))
    plain = train.step

    def step(network, optimizer, stage, *given):
        if type(network.blocks[0].mixer).__name__.startswith("S4D") and name_of(stage.objective) == "masked":
            torch.empty(8 << 30, dtype=torch.uint8, device="cuda")  # more than is freed meanwhile
        return plain(network, optimizer, stage, *given)

    monkeypatch.setattr(train, "step", step)
    code, found, page = compared(tmp_path)
    said = capsys.readouterr().err
    advice = "the GPU ran out of memory; recompute activations (-s stage.activation_checkpointing=true)"
    assert code == 1 and advice in said
    assert found["attention"] == found["longconv"] > found["s4d"] > 0
    assert "the GPU ran out of memory" in page


@pytest.mark.parametrize("mixer", ["attention", "mega"])
def test_a_stage_that_does_not_fit_recomputes_its_activations_and_keeps_its_name(
    mixer, tmp_path, monkeypatch
):
    made = recipe(Masked(), mixer)
    whole = RunDir(trained(made, tmp_path / "large"))
    plain = memory._gigabytes

    def gigabytes(of, stage, again, *how):
        return plain(of, stage, again, *how) + (0.0 if again else 100.0)

    monkeypatch.setattr(memory, "_gigabytes", gigabytes)
    saved = RunDir(trained(made, tmp_path / "small"))
    assert saved.name == whole.name
    assert saved.read("environment.json")["memory saved by"] == "recomputed activations"
    assert "memory saved by" not in whole.read("environment.json")
    weights = [folder.load("weights.safetensors")[0] for folder in (saved, whole)]
    assert all(torch.equal(x, weights[1][key]) for key, x in weights[0].items())


def test_a_network_that_cannot_be_traced_is_run_as_it_is_and_the_log_says_why(tmp_path):
    made = recipe(Masked())
    own = replace(made.model, mixer=mixer_of("own_networks:NeedsNumbers")(), positions="none")
    said = []
    with listen(lambda event: said.append(event) if event.kind == "memory" else None):
        folder = RunDir(trained(replace(made, model=own), tmp_path))
    why = "not known beforehand (ValueError: only numbers can be sorted)"
    assert [event.numbers["said"] for event in said] == [why, why]
    assert "memory saved by" not in folder.read("environment.json")


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
