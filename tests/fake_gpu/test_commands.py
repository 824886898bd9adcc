"""Whole commands on the emulated GPU: they end, their steps wait for nothing, and they resume."""

import contextlib
import json
import os
import signal

import numpy as np
import pytest
import torch
from fake_gpu.emulation import watch

from selfpretrain import SequenceClassifier
from selfpretrain.cli import app
from selfpretrain.mixers.common.pairs import supports_flex
from selfpretrain.training.trainer import Trainer

SMOKE = ("--seeds", "1", "--scale", "smoke", "--device", "cuda", "--jobs", "1", "-q")


@pytest.fixture
def steps(monkeypatch):
    """Waits of every step but the first of a stage, which may lay out patterns."""
    waits, plain = [], Trainer._step

    def step(self):
        first = not waits or waits[-1][0] is not self
        with watch() as found:
            plain(self)
        waits.append((self, {} if first else dict(found.waits)))

    monkeypatch.setattr(Trainer, "_step", step)
    return waits


def compare(runs, *settings):
    return app.run(["compare", *settings, *SMOKE, "--runs", str(runs)])


def results(runs):
    """Scores, predictions and weights of all stages."""
    found = {}
    for folder in sorted((runs / "stages").iterdir()):
        content = json.loads((folder / "result.json").read_text())
        files = {path.name: path.read_bytes() for path in folder.glob("*.safetensors")}
        found[folder.name] = content["scores"], content["steps"], files
    return found


@pytest.mark.parametrize(
    ("task", "objective", "more"),
    [
        ("digits", "masked", ()),
        ("digits", "spans", ("-s", "task.augment=true")),
        ("digits", "diffusion", ()),
        ("recall", "causal", ()),
        ("stdlib", "replaced", ()),
        ("stdlib", "ngram-statistics", ()),
    ],
)
def test_compare_ends_and_its_steps_wait_for_nothing(task, objective, more, steps, tmp_path):
    assert compare(tmp_path, "--task", task, "--mixers", "attention", "--objective", objective, *more) == 0
    assert len(steps) > 10 and {name: n for _, waits in steps for name, n in waits.items()} == {}
    recipes = [json.loads(path.read_text()) for path in tmp_path.glob("stages/*/recipe.json")]
    assert {stage["precision"] for recipe in recipes for stage in recipe["stages"]} == {"bf16"}


def test_a_command_that_a_signal_stops_resumes_to_the_same_bits(steps, tmp_path, monkeypatch):
    command = ("--task", "digits", "--mixers", "s4d", "-s", "model.dropout=0.1")
    assert compare(tmp_path / "whole", *command) == 0
    counted, step = len(steps), Trainer._step

    def interrupted(self):
        step(self)
        if len(steps) == counted + 7:
            os.kill(os.getpid(), signal.SIGTERM)

    monkeypatch.setattr(Trainer, "_step", interrupted)
    assert compare(tmp_path / "cut", *command) != 0
    assert len(steps) == counted + 7 and list(tmp_path.glob("cut/stages/*/checkpoint.safetensors"))
    assert compare(tmp_path / "cut", *command) == 0
    assert len(steps) == 2 * counted
    assert results(tmp_path / "cut") == results(tmp_path / "whole")


def test_an_estimator_fits_predicts_and_is_saved(steps, tmp_path):
    X = np.random.default_rng(0).random((80, 30), dtype=np.float32)
    y = (X.mean(1) > 0.5).astype(int)
    model = SequenceClassifier(device="cuda", epochs=2, pretrain_epochs=1).fit(X, y)
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
    supports_flex.__globals__["_triton_compiles"].cache_clear()
    with pytest.warns(UserWarning, match="install gcc") if not compiler else contextlib.nullcontext():
        assert supports_flex(q) == compiler
    assert supports_flex(q) == compiler, "warned once"
    supports_flex.__globals__["_triton_compiles"].cache_clear()
