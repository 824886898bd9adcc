"""Recurrences in chunks, against their formulas position by position."""

import pytest
import torch

import toys
from selfpretrain.mixers.ops.gated_delta_rule import gated_delta_rule
from selfpretrain.mixers.ops.gated_scan import gated_scan


def double(*shape):
    return torch.randn(*shape, dtype=torch.double)


@pytest.fixture(autouse=True)
def settled():
    toys.settle()


@pytest.mark.parametrize("length", [1, 2, 9, 10, 50])
def test_a_gated_scan_is_its_formula_with_its_gradient(length):
    a, b = torch.rand(2, length, 3, 4, dtype=torch.double), double(2, length, 3, 4)
    h, found = torch.zeros(2, 3, 4, dtype=torch.double), gated_scan(a, b)
    for t in range(length):
        h = a[:, t] * h + b[:, t]
        torch.testing.assert_close(found[:, t], h)
    some = (a[:1, :, :1, :2].clone().requires_grad_(), b[:1, :, :1, :2].clone().requires_grad_())
    assert torch.autograd.gradcheck(gated_scan, some)


def test_a_gated_scan_leaves_its_inputs_alone():
    a, b = torch.rand(1, 10, 2), torch.randn(1, 10, 2)
    before = a.clone(), b.clone()
    gated_scan(a, b)
    assert torch.equal(a, before[0]) and torch.equal(b, before[1])


def ruled(length, own):
    """Unit keys, and a share above one, which turns values around."""
    q, k = double(2, 2, length, 4), torch.nn.functional.normalize(double(2, 2, length, 4), dim=-1)
    g = -torch.rand(2, 2, length, 4 if own else 1, dtype=torch.double)
    beta = 2 * torch.rand(2, 2, length, 1, dtype=torch.double)
    return q, k, double(2, 2, length, 3), g, beta, double(2, 2, 4, 3)


@pytest.mark.parametrize("own", [False, True], ids=["a decay per head", "a decay per feature"])
@pytest.mark.parametrize("length", [1, 16, 40, 70])
def test_the_delta_rule_is_its_formula(length, own):
    q, k, v, g, beta, S = ruled(length, own)
    y, last = gated_delta_rule(q, k, v, g, beta, S)
    for t in range(length):
        S = g[:, :, t, :, None].exp() * S
        known = torch.einsum("bhmv,bhm->bhv", S, k[:, :, t])
        S = S + beta[:, :, t, :, None] * torch.einsum("bhm,bhv->bhmv", k[:, :, t], v[:, :, t] - known)
        torch.testing.assert_close(y[:, :, t], torch.einsum("bhmv,bhm->bhv", S, q[:, :, t]))
    torch.testing.assert_close(last, S)


@pytest.mark.parametrize("own", [False, True], ids=["a decay per head", "a decay per feature"])
def test_the_delta_rule_has_the_gradient_of_its_formula(own):
    inputs = [x[:1, :1].clone().requires_grad_() for x in ruled(5, own)]
    assert torch.autograd.gradcheck(gated_delta_rule, inputs)
