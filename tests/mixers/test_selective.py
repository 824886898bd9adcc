"""B2S6 and Mamba-3 beside plain loops over positions, in double precision."""

import math

import pytest
import torch
import torch.nn.functional as F

import toys
from selfpretrain.mixers.b2s6 import B2S6
from selfpretrain.mixers.base import LayerContext
from selfpretrain.mixers.mamba3 import Mamba3

WIDTH = 8


def build(mixer):
    toys.settle()
    return mixer.build(LayerContext(WIDTH, 70, causal=True)).double().past


def b2s6(cell, x):
    """Every channel by itself, by the formula of the module."""
    z, u = cell.enter(x).chunk(2, dim=-1)
    u = F.silu(cell.near(u, cell.near.initial_state(len(x)))[0]).unflatten(-1, cell.w.shape)
    A = torch.complex(-cell.log_decay.exp(), cell.frequency)
    B, beta = torch.view_as_complex(cell.B), torch.view_as_complex(cell.beta)
    o = torch.zeros_like(u)
    for j in range(u.shape[2]):
        for i in range(u.shape[3]):
            h = torch.zeros(len(x), len(A), dtype=torch.cdouble)
            for t in range(x.shape[1]):
                block = u[:, t, j]
                dt = F.softplus(block @ cell.w[j] + cell.step[j, i])[:, None]
                weight = block.to(B) @ B[j] + beta[j, i]
                h = torch.exp(dt * A) * h + (torch.exp(dt * A) - 1) / A * weight * block[:, i, None]
                o[:, t, j, i] = 2 * ((block @ cell.C[j]) * h).sum(-1).real + cell.D[j, i] * block[:, i]
    return cell.out(o.flatten(2) * F.silu(z))


def mamba3(cell, x):
    """Every head by itself, with a complex state for each pair of features: proposition 2."""
    z, u, b, c, dt, decay, share, theta = cell.enter(x).split(cell.sizes, dim=-1)
    theta = F.pad(math.pi * theta.tanh(), (0, b.shape[-1] // 2 - theta.shape[-1]))
    dt, share = F.softplus(dt + cell.step), share.sigmoid()
    heads = []
    for head, values in enumerate(u.chunk(cell.heads, dim=-1)):
        key, query = (
            torch.complex(*(norm(y) + bias[head]).chunk(2, dim=-1))
            for norm, bias, y in ((cell.norm_b, cell.bias_b, b), (cell.norm_c, cell.bias_c, c))
        )
        terms = key[..., None] * values[:, :, None]
        state, last, rows = 0, torch.zeros_like(terms[:, 0]), []
        for t in range(x.shape[1]):
            step = dt[:, t, head, None]
            rate = -F.softplus(decay[:, t, head, None]).clamp(min=1e-4) - 1j * theta[:, t]
            half = step[..., None] * share[:, t, head, None, None]
            state = torch.exp(step * rate)[..., None] * (state + (step[..., None] - half) * last)
            state = state + half * (last := terms[:, t])
            read = (query[:, t, :, None].conj() * state).sum(1).real
            rows.append(read + cell.D[head] * values[:, t])
        heads.append(torch.stack(rows, dim=1))
    return cell.out(torch.cat(heads, dim=-1) * F.silu(z))


@pytest.mark.parametrize(
    ("mixer", "loop", "length"),
    [
        (B2S6(states=6, blocks=4), b2s6, 11),
        (B2S6(states=2, blocks=1, expand=1), b2s6, 11),
        (Mamba3(heads=2, states=6), mamba3, 70),  # more than a chunk of linear attention
        (Mamba3(heads=4, states=4, rotating=1.0, expand=1), mamba3, 11),
    ],
)
def test_layers_and_their_gradients_are_the_loops(mixer, loop, length):
    cell, x = build(mixer), torch.randn(2, length, WIDTH, dtype=torch.double, requires_grad=True)
    with torch.no_grad():
        for parameter in cell.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    found, expected = cell(x, cell.initial_state(2))[0], loop(cell, x)
    torch.testing.assert_close(found, expected, atol=1e-11, rtol=1e-9)
    of = [x, *cell.parameters()]
    direction = torch.randn_like(found)
    gradients = (torch.autograd.grad(y, of, direction) for y in (found, expected))
    for gradient, by_hand in zip(*gradients, strict=True):
        torch.testing.assert_close(gradient, by_hand, atol=1e-9, rtol=1e-7)
