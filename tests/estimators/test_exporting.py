"""Models in other programs' hands: exported ones answer as the network does, published ones come back whole."""

import numpy as np
import pytest
import torch

from selfpretrain import SequenceClassifier, SequencePretrainer, SequenceRegressor
from selfpretrain.errors import SpecError
from selfpretrain.tasks._waves import waves

X, y = waves(24, seed=0)
TOY = {"scale": "smoke"}


def padded(rows):
    lengths = np.array([len(row) for row in rows])
    inputs = np.zeros((len(rows), lengths.max(), rows[0].shape[1]), dtype=np.float32)
    for i, row in enumerate(rows):
        inputs[i, : len(row)] = row
    return torch.from_numpy(inputs), torch.from_numpy(lengths)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("mixer", ["attention", "s4d"])
def test_torch_export_equals_the_network_at_other_lengths(mixer, tmp_path):
    model = SequenceClassifier(**TOY, mixer=mixer, n_members=2).fit(X, y)
    assert model.export(tmp_path / "model.pt2") < 1e-5
    program = torch.export.load(tmp_path / "model.pt2").module()
    for rows in (X[:1], X[:7], [x[:9] for x in X[:3]]):
        found = program(*padded(rows)).detach().numpy()
        assert np.abs(found - model.predict_proba(rows)).max() < 1e-5


@pytest.mark.filterwarnings("ignore")
def test_onnx_equals_the_network_at_lengths_never_exported(tmp_path, monkeypatch):
    for name in ("onnx", "onnxscript", "onnxruntime"):
        pytest.importorskip(name, reason="the extra onnx is not installed")
    monkeypatch.setenv("ORT_DISABLE_TELEMETRY", "1")
    import onnxruntime

    for model in (
        SequenceRegressor(**TOY, mixer="s4d"),
        SequencePretrainer(**TOY, mixer="s4d", objective="causal"),
    ):
        model.fit(X, [float(len(x)) for x in X])
        assert model.export(tmp_path / "model.onnx", length=100) < 1e-5
        session = onnxruntime.InferenceSession(tmp_path / "model.onnx")
        for rows in (X[:5], [x[:5] for x in X[:2]]):
            inputs, lengths = padded(rows)
            found = session.run(None, {"inputs": inputs.numpy(), "lengths": lengths.numpy()})[0]
            ours = (
                model.transform(rows)
                if isinstance(model, SequencePretrainer)
                else model.predict(rows)[:, None]
            )
            assert np.abs(found - ours).max() < 1e-5


def test_a_network_that_knows_its_positions_is_not_exported_beyond_them(tmp_path):
    model = SequenceClassifier(**TOY, mixer="attention").fit(X, y)
    with pytest.raises(SpecError, match="knows 48 positions, and cannot be exported for 100"):
        model.export(tmp_path / "model.pt2", length=100)


def test_published_models_come_back(tmp_path, monkeypatch):
    hub = pytest.importorskip("huggingface_hub", reason="the extra hub is not installed")
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    sent = {}

    def upload(self, name, **how):
        sent[name] = tmp_path / "hub" / name
        self.save_pretrained(sent[name])
        return f"https://huggingface.co/{name}"

    monkeypatch.setattr(hub.ModelHubMixin, "push_to_hub", upload)
    model = SequenceClassifier(**TOY).fit(X, y)
    assert model.push_to_hub("me/waves") == "https://huggingface.co/me/waves"
    card = (sent["me/waves"] / "README.md").read_text()
    assert card.startswith("---\nlibrary_name: selfpretrain") and "sine, square" in card
    again = SequenceClassifier.from_pretrained(str(sent["me/waves"]))
    assert (again.predict_proba(X) == model.predict_proba(X)).all()
    monkeypatch.setattr(hub, "snapshot_download", lambda name, **how: str(sent[name]))
    monkeypatch.setattr("huggingface_hub.hub_mixin.hf_hub_download", missing)
    assert (SequenceClassifier.from_pretrained("me/waves").predict_proba(X) == model.predict_proba(X)).all()


def missing(**how):
    from huggingface_hub.errors import EntryNotFoundError

    raise EntryNotFoundError("there is no config.json", response=None)
