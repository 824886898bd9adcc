"""Streams: the answers of the whole sequence, piece by piece, and the recurrence as plain tensors."""

import pytest
import torch
from safetensors.torch import load_file

import toys
from selfpretrain.data.schema import Classes, Form, Tokens, Values
from selfpretrain.errors import SpecError
from selfpretrain.mixers.attention import Attention
from selfpretrain.mixers.base import LayerContext
from selfpretrain.mixers.dlr import DLR
from selfpretrain.mixers.ema import EMA
from selfpretrain.mixers.longconv import LongConv
from selfpretrain.mixers.lssl import LSSL
from selfpretrain.mixers.s4 import S4
from selfpretrain.mixers.s4d import S4D
from selfpretrain.objectives.causal import Causal
from selfpretrain.objectives.classify import Classify
from selfpretrain.training import streaming
from selfpretrain.training.model import Model

TOKENS = Form(Tokens(vocab=5), 40, Classes(("a", "b")))
VALUES = Form(Values(2, centre=(0.0, 0.0), spread=(1.0, 1.0)), 40, Classes(("a", "b")))


def build(model, form=TOKENS, objective=None):
    toys.settle()
    head = (objective or Causal()).head(form, model.width, model.pooling)
    return model.build(form, head).eval()


def causal(mixer, norm="layer", placement="pre", positions="auto"):
    return Model(mixer, 8, 2, causal=True, norm=norm, placement=placement, positions=positions)


@pytest.mark.parametrize("norm", ["layer", "rms", "batch"])
@pytest.mark.parametrize("placement", ["pre", "post"])
def test_pieces_are_the_whole(norm, placement):
    network = build(causal(S4(states=8), norm, placement)).double()
    x = torch.randint(5, (2, 200))
    whole = network(x).unflatten(0, x.shape)
    running = streaming.Stream(network, batch=2)
    pieces = [running(part) for part in x.split([1, 90, 9, 100], dim=1)]
    torch.testing.assert_close(torch.cat(pieces, dim=1), whole, atol=1e-9, rtol=1e-9)
    running.reset()
    torch.testing.assert_close(running(x[:, :3]), whole[:, :3], atol=1e-9, rtol=1e-9)


def test_long_inputs_are_taken_in_chunks(monkeypatch):
    monkeypatch.setattr(streaming, "CHUNK", 16)
    network, x = build(causal(DLR(states=16)), VALUES), torch.randn(1, 100, 2)
    torch.testing.assert_close(
        streaming.Stream(network).features(x), network.features(x), atol=1e-4, rtol=1e-4
    )


@pytest.mark.parametrize(
    ("model", "said"),
    [
        (Model(S4(states=8), 8), "bidirectional"),
        (causal(Attention(heads=2)), "no state of constant size"),
        (causal(LongConv()), "no state of constant size"),
        (causal(S4(states=8), positions="sinusoidal"), "positions"),
    ],
)
def test_refuses_what_needs_more_than_a_state(model, said):
    with pytest.raises(SpecError, match=said):
        streaming.Stream(build(model))


def test_refuses_dropout_pooling_and_other_batches():
    network = build(causal(S4(states=8)), objective=Classify())
    with pytest.raises(SpecError, match="eval"):
        streaming.Stream(network.train())
    running = streaming.Stream(network.eval())
    with pytest.raises(SpecError, match="pools"):
        running(torch.randint(5, (1, 4)))
    with pytest.raises(SpecError, match="1 sequences was given 2"):
        running.features(torch.randint(5, (2, 4)))
    assert running.features(torch.randint(5, (1, 4))).shape == (1, 4, 8)


@pytest.mark.parametrize("mixer", [S4(states=8), LSSL(states=8)])
def test_matrices_run_elsewhere(mixer):
    toys.settle()
    layer, u = mixer.build(LayerContext(3, 30, causal=True)).double(), torch.randn(30, 3, dtype=torch.double)
    A, B, C, D = (streaming.discretised(layer)[name] for name in "ABCD")
    z, out = torch.zeros(3, 8, dtype=torch.double), []
    for x in u:
        z = torch.einsum("hnm,hm->hn", A, z) + B * x[:, None]
        out.append((C * z).sum(-1) + D * x)
    torch.testing.assert_close(layer.gate(torch.stack(out)), layer(u[None])[0])


@pytest.mark.parametrize("mixer", [S4D(states=8), DLR(states=8), EMA(states=4)])
def test_modes_run_elsewhere(mixer):
    toys.settle()
    layer, u = mixer.build(LayerContext(3, 30, causal=True)).double(), torch.randn(30, 3, dtype=torch.double)
    found = streaming.discretised(layer)
    factor, weight = (
        torch.view_as_complex(x.contiguous()) if x.ndim == 3 else x
        for x in (found["factor"], found["weight"])
    )
    z, out = torch.zeros_like(weight), []
    for x in u:
        z = factor * z + x[:, None]
        out.append((weight * z).sum(-1).real + found["D"] * x)
    torch.testing.assert_close(layer.gate(torch.stack(out)), layer(u[None])[0])


def test_export_writes_every_layer(tmp_path):
    network = build(causal(S4(states=8)))
    streaming.export(network, tmp_path / "made" / "recurrence.safetensors")
    found = load_file(tmp_path / "made" / "recurrence.safetensors")
    assert sorted(found) == [f"blocks.{i}.{name}" for i in range(2) for name in "ABCD"]
    assert found["blocks.1.A"].shape == (8, 8, 8)
    assert found["blocks.1.A"].dtype == torch.float64
