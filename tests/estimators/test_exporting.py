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
from dataclasses import replace
import numpy as np
import torch
import selfpretrain
from selfpretrain.tasks.imported import make_waves

warnings.simplefilter("ignore")
kind, mixer, objectives, path, length, pooling, signal = sys.argv[1:]
X, y = make_waves(24, seed=0)
if signal == "tokens":
    X = [[i % 5, i % 3, 1] * (1 + i % 7) for i in range(24)]
settings = dict(scale="smoke", mixer=mixer, pooling=pooling, signal=signal)
unit = 1e5 if kind == "SequenceRegressor" else 1  # numbers may be large: pascals, prices
y = [len(x) % 2 * unit for x in X]
if kind == "MultilabelClassifier":
    y = [["odd"] * odd + ["long"] * (len(x) > 30) for odd, x in zip(y, X)]
y = [np.arange(len(x)) % 3 for x in X] if kind == "PositionClassifier" else y
models = [getattr(selfpretrain, kind)(**settings, objective=each).fit(X, y) for each in objectives.split()]
model = models[0]
both = {name: sum((getattr(m.predictor_, name) for m in models), ()) for name in ("models", "networks")}
model.predictor_ = replace(model.predictor_, **both)
assert model.export(path, int(length) or None) < 1e-5 * unit
if path.endswith(".onnx"):
    import onnxruntime
    session = onnxruntime.InferenceSession(path)
    ask = lambda x, n: session.run(None, {"inputs": x, "lengths": n})[0]
else:
    program = torch.export.load(path).module()
    ask = lambda x, n: program(torch.from_numpy(x), torch.from_numpy(n)).detach().numpy()
for rows in (X[:1], X[:7], [x[:9] for x in X[:3]]):
    data = model._to_dataset(rows)
    found = ask(data.batch(torch.arange(len(rows))).inputs.numpy(), data.lengths[0].numpy())
    if kind == "PositionClassifier":
        for row, answer in zip(model.predict_proba(rows), found, strict=True):
            assert np.abs(answer[: len(row)] - row).max() < 1e-5
        continue
    ours = {
        "SequenceClassifier": lambda: model.predict_proba(rows),
        "MultilabelClassifier": lambda: model.predict_proba(rows),
        "SequenceRegressor": lambda: model.predict(rows)[:, None],
        "SequencePretrainer": lambda: model.transform(rows),
    }[kind]()
    assert np.abs(found - ours).max() < 1e-5 * unit, kind
"""
"""In a process of its own, because the checks of types in tests take no symbolic lengths.

Networks of two objectives are exported together: a causal one and a bidirectional one.
"""


@pytest.mark.parametrize(
    ("kind", "mixer", "objectives", "file", "pooling", "signal"),
    [
        ("SequenceClassifier", "s4d", "causal masked", "model.pt2", "last", "values"),
        ("SequenceClassifier", "attention", "causal masked", "model.pt2", "mean", "tokens"),
        ("SequenceClassifier", "attention", "masked", "model.pt2", "max", "values"),
        ("SequenceClassifier", "s4d", "masked", "model.pt2", "attention", "values"),
        ("MultilabelClassifier", "s4d", "causal masked", "model.pt2", "auto", "values"),
        ("PositionClassifier", "s4d", "causal masked", "model.pt2", "auto", "values"),
        ("SequenceRegressor", "s4d", "masked", "model.onnx", "auto", "values"),
        ("SequencePretrainer", "s4d", "causal", "model.onnx", "auto", "values"),
        ("PositionClassifier", "s4d", "masked", "model.onnx", "auto", "values"),
        ("SequenceClassifier", "fnet", "masked", "model.pt2", "mean", "values"),
    ],
)
@pytest.mark.slow
def test_an_exported_model_answers_as_the_network_does_at_other_lengths(
    kind, mixer, objectives, file, pooling, signal, tmp_path
):
    for name in ("onnx", "onnxscript", "onnxruntime") if file.endswith("onnx") else ():
        pytest.importorskip(name, reason="the extra onnx is not installed")
    length = "0" if mixer == "fnet" else "90"  # it knows the positions of training alone
    words = [kind, mixer, objectives, str(tmp_path / file), length, pooling, signal]
    environment = os.environ | {"ORT_DISABLE_TELEMETRY": "1"}
    command = [sys.executable, "-c", SCRIPT, *words]
    done = subprocess.run(command, check=False, env=environment, capture_output=True)
    assert done.returncode == 0, done.stderr
    assert b"torch.onnx" not in done.stdout + done.stderr and b"torchvision" not in done.stderr


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

    def upload_folder(self, *, repo_id, folder_path, delete_patterns=()):
        place = tmp_path / "hub" / repo_id
        for old in [path for pattern in delete_patterns for path in place.glob(pattern)]:
            old.unlink()
        server[repo_id] = shutil.copytree(folder_path, place, dirs_exist_ok=True)
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
    SequenceClassifier(**TOY, width=8).fit(X, y).push_to_hub("me/waves")
    assert len(list(folder.glob("*.safetensors"))) == 1  # the weights of the first model are gone
    monkeypatch.setattr(hub.HfApi, "upload_folder", lambda self, **arguments: server["nothing"])
    with pytest.raises(StoreError, match="me/waves was not published"):
        model.push_to_hub("me/waves")
