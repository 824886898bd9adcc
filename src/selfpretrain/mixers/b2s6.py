"""Block-biased Mamba (B2S6): Mamba in blocks of channels, with complex states and a bias for every channel.

h[t] = exp(dt[t] A) h[t-1] + (exp(dt[t] A) - 1)/A (B u[t] + beta) v[t],  o[t] = 2 Re (C u[t])^T h[t] + D v[t],
dt[t] = softplus(w^T u[t] + step) for every channel v of a block of channels u;
A = -exp(log_decay) + i frequency,  u = SiLU(conv(W_u x)),  y[t] = W (o[t] SiLU(W_z x[t])) for all blocks

B, C and w belong to a block, beta, step and D to a channel; A is the same for all.

Source: Yu & Erichson (2025), Block-Biased Mamba for Long-Range Sequence Processing, arXiv:2505.09022, section
6, algorithm 2, and appendix F for the number of blocks; around it is the layer of Mamba, as in the language
models of section 7. As published, A, B and beta are complex and C is real; w and step learn slowly. Only the
paper could be read, not its code. Where it is silent we chose: as many states as Mamba, in conjugate pairs; A
that starts as in S4D-Lin, beta as complex normal numbers, and steps as in Mamba. What differs from it:
bidirectional layers add the outputs of a second, backward recurrence. It refuses to be compiled: code that
PyTorch's compiler (inductor) makes for CPUs gives wrong gradients of the steps and of A.
"""

import math
from typing import ClassVar

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from ..config import Count, Even, Positive, spec
from ..errors import SpecError
from ..shapes import Vectors
from .base import LayerContext, Mixer, State
from .common.cells import Directions, RecurrentCell, gated_scan
from .common.convolution import ShortConvolution, log_uniform


@spec
class B2S6(Mixer):
    """Block-biased Mamba, one per direction unless causal."""

    compiles = False
    slow_parameters: ClassVar = dict.fromkeys(("*.log_decay", "*.frequency", "*.w", "*.step"), 1e-3)

    states: Even = 16  # N real states per channel: N/2 conjugate pairs
    blocks: Count = 8
    expand: Count = 2  # channels of u as a multiple of the width
    taps: Count = 4  # kernel size of the convolution
    shortest: Positive = 1e-3  # smallest initial step dt
    longest: Positive = 1e-1  # largest initial step dt

    def build(self, context: LayerContext) -> nn.Module:
        """Return the recurrent layer."""
        channels = self.expand * context.width
        if channels % self.blocks:
            raise SpecError(f"{channels} channels of b2s6 do not split into {self.blocks} blocks")
        return Directions(context, lambda: B2S6Cell(context.width, self))


class B2S6Cell(RecurrentCell):
    """One direction of ``B2S6``; h is a block, a channel of it and a mode per axis."""

    def __init__(self, width: int, settings: B2S6) -> None:
        super().__init__()
        E = settings.expand * width
        shape = settings.blocks, E // settings.blocks
        pairs = settings.states // 2
        self.enter = nn.Linear(width, 2 * E, bias=False)
        self.near = ShortConvolution(E, settings.taps, bias=True)
        self.log_decay = nn.Parameter(torch.full((pairs,), 0.5).log())
        self.frequency = nn.Parameter(math.pi * torch.arange(pairs).float())
        bound = shape[1] ** -0.5  # that of a linear layer
        self.B = nn.Parameter(torch.empty(*shape, pairs, 2).uniform_(-bound, bound))
        self.C = nn.Parameter(torch.empty(*shape, pairs).uniform_(-bound, bound))
        self.w = nn.Parameter(torch.empty(shape).uniform_(-bound, bound))
        self.beta = nn.Parameter(torch.randn(*shape, pairs, 2) * 0.5**0.5)
        dt = log_uniform(E, settings.shortest, settings.longest).exp().view(shape)
        self.step = nn.Parameter(dt + torch.log(-torch.expm1(-dt)))  # softplus(step) = dt
        self.D = nn.Parameter(torch.ones(shape))
        self.out = nn.Linear(E, width, bias=False)
        self.state_shapes = (settings.taps - 1, E), self.beta.shape  # last inputs of the convolution; h

    def forward(self, x: Vectors, state: State) -> tuple[Vectors, State]:
        """Compute all positions at once; return the outputs and the last state."""
        before, h = state
        z, u = self.enter(x).chunk(2, dim=-1)
        mixed, recent = self.near(u, before)
        u = F.silu(mixed).unflatten(-1, self.w.shape).to(h.dtype)  # (B, L, blocks, channels)
        dt = F.softplus((u * self.w).sum(-1, keepdim=True) + self.step)
        A = torch.stack([-self.log_decay.exp(), self.frequency], dim=-1)
        added = torch.expm1(torch.view_as_complex(dt[..., None, None] * A))
        B, beta = (_divided(weight, A) for weight in (self.B, self.beta))
        weight = torch.einsum("blhp,hpnc->blhnc", u, B).to(h.dtype)[:, :, :, None] + beta
        inputs = added * torch.view_as_complex(weight * u[..., None, None])
        kept = added + 1
        inputs[:, 0] += kept[:, 0] * torch.view_as_complex(h)
        states = gated_scan(kept, inputs)
        C = torch.einsum("blhp,hpn->blhn", u, self.C).to(h.dtype)
        o = 2 * (states.real @ C[..., None])[..., 0] + self.D * u
        return self.out(o.flatten(2) * F.silu(z)), (recent, torch.view_as_real(states[:, -1]))


def _divided(x: Float[Tensor, "... N 2"], A: Float[Tensor, "N 2"]) -> Float[Tensor, "... N 2"]:
    """Divide complex numbers, real and imaginary parts next to each other."""
    return torch.view_as_real(torch.view_as_complex(x) / torch.view_as_complex(A))


mixer = B2S6
