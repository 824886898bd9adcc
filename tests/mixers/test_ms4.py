"""MS4 beside a plain loop over positions, in double precision."""

import torch
import torch.nn.functional as F

from selfpretrain.mixers.base import LayerContext
from selfpretrain.mixers.ms4 import MS4
from selfpretrain.mixers.s4d import S4D


def test_is_the_recurrence_written_out_as_a_loop():
    layer = MS4(states=6).build(LayerContext(width=3, length=11, causal=True)).double()
    core = layer.convolution
    with torch.no_grad():
        core.B.mul_(torch.linspace(0.5, 1.5, core.B.numel(), dtype=torch.double).view_as(core.B))
    x = torch.randn(2, 11, 3, dtype=torch.double)
    A = torch.complex(-core.log_decay.exp(), core.frequency)
    rate = torch.exp(core.log_dt.exp()[:, None] * core.B * A)
    C = torch.view_as_complex(core.C)[0]
    u = layer.project(x)
    state = torch.zeros(2, 3, 3, dtype=torch.cdouble)
    rows = []
    for t in range(11):
        state = rate * state + (rate - 1) / A * u[:, t, :, None]
        v = F.gelu(2 * (C * state).sum(-1).real + core.D * u[:, t])
        value, gate = core.out(v).chunk(2, dim=-1)
        rows.append(value * gate.sigmoid())
    torch.testing.assert_close(layer(x), torch.stack(rows, 1), atol=1e-12, rtol=1e-10)


def test_without_its_map_it_starts_as_s4d():
    context = LayerContext(width=4, length=16)
    ours, other = MS4(states=8).build(context), S4D(states=8).build(context)
    with torch.no_grad():
        for name in ("log_dt", "log_decay", "frequency", "C", "D"):
            getattr(ours.convolution, name).copy_(getattr(other, name))
    torch.testing.assert_close(ours.convolution.kernel(16), other.kernel(16))
