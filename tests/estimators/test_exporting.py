"""Models in other hands: exported ones answer as the network does, published ones come back whole."""

import os
import shutil
import subprocess
import sys

import pytest

from selfpretrain import SequenceClassifier, SequenceRegressor
from selfpretrain.errors import SpecError, StoreError
from selfpretrain.tasks.imported import make_waves

X, y = make_waves(24, seed=0)
TOY = {"scale": "smoke"}


SCRIPT = """
import sys, warnings
import numpy as np
import torch
import selfpretrain
from selfpretrain.tasks.imported import make_waves

warnings.simplefilter("ignore")
X, y = make_waves(24, seed=0)
kind, mixer, objective, members, path, length, pooling = sys.argv[1:]
settings = dict(scale="smoke", mixer=mixer, objective=objective, n_members=int(members), pooling=pooling)
y = [len(x) % 2 for x in X]
if kind == "MultilabelClassifier":
    y = [["odd"] * odd + ["long"] * (len(x) > 30) for odd, x in zip(y, X)]
y = [np.arange(len(x)) % 3 for x in X] if kind == "PositionClassifier" else y
model = getattr(selfpretrain, kind)(**settings).fit(X, y)
assert model.export(path, int(length) or None) < 1e-5
if path.endswith(".onnx"):
    import onnxruntime
    session = onnxruntime.InferenceSession(path)
    ask = lambda x, n: session.run(None, {"inputs": x, "lengths": n})[0]
else:
    program = torch.export.load(path).module()
    ask = lambda x, n: program(torch.from_numpy(x), torch.from_numpy(n)).detach().numpy()
for rows in (X[:1], X[:7], [x[:9] for x in X[:3]]):
    lengths = np.array([len(row) for row in rows])
    inputs = np.zeros((len(rows), lengths.max(), 2), dtype=np.float32)
    for i, row in enumerate(rows):
        inputs[i, : len(row)] = row
    if kind == "PositionClassifier":
        for row, answer in zip(model.predict_proba(rows), ask(inputs, lengths), strict=True):
            assert np.abs(answer[: len(row)] - row).max() < 1e-5
        continue
    ours = {
        "SequenceClassifier": lambda: model.predict_proba(rows),
        "MultilabelClassifier": lambda: model.predict_proba(rows),
        "SequenceRegressor": lambda: model.predict(rows)[:, None],
        "SequencePretrainer": lambda: model.transform(rows),
    }[kind]()
    assert np.abs(ask(inputs, lengths) - ours).max() < 1e-5, kind
"""
"""In a process of its own, because the checks of types in tests take no symbolic lengths."""


def exported(*arguments, pooling="auto"):
    environment = os.environ | {"ORT_DISABLE_TELEMETRY": "1"}
    words = [*map(str, arguments), pooling]
    subprocess.run([sys.executable, "-c", SCRIPT, *words], check=True, env=environment)


TWO = """
import sys
from dataclasses import replace
import torch
from selfpretrain import SequenceClassifier

X = [[i % 5, i % 3, 1] for i in range(40)]
models = [
    SequenceClassifier(scale="smoke", signal="tokens", objective=each).fit(X, [i % 2 for i in range(40)])
    for each in ("causal", "masked")
]
model, other = models[0], models[1].predictor_
both = [getattr(model.predictor_, name) + getattr(other, name) for name in ("models", "networks")]
model.predictor_ = replace(model.predictor_, models=both[0], networks=both[1])
assert model.export(sys.argv[1]) < 1e-5
program = torch.export.load(sys.argv[1]).module()
data = model._to_dataset(X[:7])
answers = program(data.stack(), data.lengths[0]).detach().numpy()
assert abs(answers - model.predict_proba(X[:7])).max() < 1e-5
"""


def test_causal_and_bidirectional_networks_are_exported_together(tmp_path):
    subprocess.run([sys.executable, "-c", TWO, str(tmp_path / "model.pt2")], check=True)


@pytest.mark.parametrize(
    ("mixer", "pooling"),
    [
        ("s4d", "last"),
        pytest.param("attention", "mean", marks=pytest.mark.slow),
        pytest.param("attention", "max", marks=pytest.mark.slow),
        pytest.param("s4d", "attention", marks=pytest.mark.slow),
    ],
)
def test_torch_export_equals_the_network_at_other_lengths(mixer, pooling, tmp_path):
    exported("SequenceClassifier", mixer, "masked", 2, tmp_path / "model.pt2", 90, pooling=pooling)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["MultilabelClassifier", "PositionClassifier"])
def test_several_answers_are_exported_too(kind, tmp_path):
    exported(kind, "s4d", "masked", 2, tmp_path / "model.pt2", 90)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "objective"),
    [("SequenceRegressor", "masked"), ("SequencePretrainer", "causal"), ("PositionClassifier", "masked")],
)
def test_onnx_equals_the_network_at_lengths_never_exported(kind, objective, tmp_path):
    for name in ("onnx", "onnxscript", "onnxruntime"):
        pytest.importorskip(name, reason="the extra onnx is not installed")
    exported(kind, "s4d", objective, 1, tmp_path / "model.onnx", 100)


def test_a_network_that_knows_its_positions_is_not_exported_beyond_them(tmp_path):
    model = SequenceClassifier(**TOY, mixer="luna").fit(X, y)
    with pytest.raises(SpecError, match="knows 48 positions, and cannot be exported for 100"):
        model.export(tmp_path / "model.pt2", length=100)


def test_published_models_come_back(tmp_path, monkeypatch):
    hub = pytest.importorskip("huggingface_hub", reason="the extra hf is not installed")
    server = {}

    def create_repo(self, name, *, private, exist_ok):
        assert not private and exist_ok
        return hub.RepoUrl(f"https://huggingface.co/{name}")

    def upload_folder(self, *, repo_id, folder_path):
        server[repo_id] = shutil.copytree(folder_path, tmp_path / "hub" / repo_id)
        return f"https://huggingface.co/{repo_id}/commit/1"

    monkeypatch.setattr(hub.HfApi, "create_repo", create_repo)
    monkeypatch.setattr(hub.HfApi, "upload_folder", upload_folder)
    monkeypatch.setattr(hub, "snapshot_download", lambda name: str(server[name]))
    model = SequenceClassifier(**TOY).fit(X, y)
    assert model.push_to_hub("me/waves") == "https://huggingface.co/me/waves/commit/1"
    folder = server["me/waves"]
    card = (folder / "README.md").read_text()
    assert card.startswith("---\nlibrary_name: selfpretrain") and "sine, square" in card
    for name in ("me/waves", str(folder)):
        again = SequenceClassifier.from_pretrained(name)
        assert (again.predict_proba(X) == model.predict_proba(X)).all()
    with pytest.raises(SpecError, match="holds a SequenceClassifier, not a SequenceRegressor"):
        SequenceRegressor.from_pretrained("me/waves")
    with pytest.raises(StoreError, match="me/other cannot be downloaded"):
        SequenceClassifier.from_pretrained("me/other")
    monkeypatch.setattr(hub.HfApi, "upload_folder", lambda self, **arguments: server["nothing"])
    with pytest.raises(StoreError, match="me/waves was not published"):
        model.push_to_hub("me/waves")
