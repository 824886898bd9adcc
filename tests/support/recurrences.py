"""State space layers as plain recurrences, position by position, which their kernels are compared with."""

import functools

import torch

from selfpretrain.mixers.dlr import DLRLayer
from selfpretrain.mixers.dss import DSSLayer
from selfpretrain.mixers.ema import EMALayer
from selfpretrain.mixers.lssl import LSSLLayer
from selfpretrain.mixers.ops.dplr import dense
from selfpretrain.mixers.s4 import S4Layer
from selfpretrain.mixers.s4d import S4DLayer


@functools.singledispatch
def matrices(layer):
    """A (H, N, N), B and C (H, N) of z[t] = A z[t-1] + B u[t], y[t] = Re C z[t]."""
    raise TypeError(f"{type(layer).__name__} is no recurrence")


def diagonal(rate, weight):
    rate = rate.expand(len(weight), -1)
    return torch.diag_embed(torch.exp(rate)), torch.ones_like(weight), weight


@matrices.register
def _(layer: S4DLayer):
    rate, B = layer._discretize()
    return diagonal(rate, 2 * torch.view_as_complex(layer.C[0].double()) * B)


@matrices.register
def _(layer: DSSLayer):
    rate, scale = layer._discretize()
    return diagonal(rate, torch.view_as_complex(layer.W[0].double()) * scale)


@matrices.register
def _(layer: DLRLayer):
    return diagonal(layer._rate()[None], torch.view_as_complex(layer.W[0].double()))


@matrices.register
def _(layer: EMALayer):
    scale, rate = layer.averages.discretize()
    return diagonal(rate[0], scale[0])


@matrices.register
def _(layer: LSSLLayer):
    change, B = layer._discretize()
    return change + torch.eye(change.shape[-1]).to(change), B, layer.C[0].double()


@matrices.register
def _(layer: S4Layer):
    system, C = layer._discretize()
    change = dense(system)
    return change + torch.eye(change.shape[-1]).to(change), system.B, C[0].double()


@torch.no_grad()
def kernel(layer, length):
    """(H, length) what an impulse at the first position gives at every position."""
    A, z, C = matrices(layer)
    answers = []
    for _ in range(length):
        answers.append((C * z).sum(-1).real)
        z = (A @ z[..., None])[..., 0]
    return torch.stack(answers, dim=1)
