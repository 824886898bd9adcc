"""Weights transfer_weights by name, and nothing is left unsaid."""

import pytest
import torch
from torch import nn

import toys
from selfpretrain.errors import TransferError
from selfpretrain.mixers.attention import Attention
from selfpretrain.objectives.classify import Classify
from selfpretrain.objectives.masked import Masked
from selfpretrain.training.model import Model
from selfpretrain.training.transfer import (
    EVERYTHING_BUT_THE_HEAD,
    QUERIES_AND_KEYS,
    Transfer,
    freeze,
    transfer_weights,
)


def network(objective, placement="pre"):
    form = toys.Majority().form
    model = Model(Attention(heads=2), width=8, placement=placement)
    return model.build(form, objective.head(form, 8, "mean"))


@pytest.mark.parametrize("placement", ["pre", "post"])
def test_everything_but_the_head(placement):
    source, target = network(Masked(), placement).state_dict(), network(Classify(), placement)
    moved = transfer_weights(source, target, EVERYTHING_BUT_THE_HEAD)
    state = target.state_dict()
    assert all(torch.equal(state[name], source[name]) for name in moved.moved)
    assert all(name.startswith("head.") for name in (*moved.fresh, *moved.unused))
    assert set(moved.moved) | set(moved.fresh) == set(state)
    assert set(moved.moved) | set(moved.unused) == set(source)


def test_queries_and_keys_alone():
    moved = transfer_weights(network(Masked()).state_dict(), network(Classify()), QUERIES_AND_KEYS).moved
    kinds = ("q.weight", "q.bias", "k.weight", "k.bias")
    assert set(moved) == {f"blocks.{i}.mixer.{kind}" for i in range(2) for kind in kinds}


def test_mismatches_are_errors():
    a = {"x.weight": torch.zeros(2, 2)}
    b = nn.ModuleDict({"x": nn.Linear(3, 2)})
    with pytest.raises(TransferError, match="two shapes"):
        transfer_weights(a, b, Transfer(("x.weight",), ()))
    with pytest.raises(TransferError, match="not among"):
        transfer_weights(a, b, Transfer(("x.bias",), ()))
    with pytest.raises(TransferError, match="names nothing"):
        transfer_weights(a, b, Transfer(("y.*",), ()))


def test_freezing_by_name():
    net = network(Classify())
    freeze(net, ("blocks.*.mixer.*",))
    frozen = {name for name, p in net.named_parameters() if not p.requires_grad}
    assert frozen
    assert all(".mixer." in name for name in frozen)
    with pytest.raises(TransferError, match="names nothing"):
        freeze(net, ("blocks.*.mixr.*",))
