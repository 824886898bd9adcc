"""Kernels of diagonal state space models: sums of damped oscillations, without a tensor of H x N x L."""

import math

import torch
from jaxtyping import Complex, Float
from torch import Tensor


def modal_kernel(
    weight: Complex[Tensor, "c H N"], rate: Complex[Tensor, "H N"], length: int
) -> Float[Tensor, "c H L"]:
    """K[c, h, l] = 2 Re sum_n weight[c, h, n] exp(rate[h, n] l), for l < length.

    Baby steps and giant steps: with l = i s + j and s near sqrt(length), exp(rate l) is the product of
    two small tables, so the sum is one real matrix product. The tables are built in double precision,
    because a phase of thousands of radians does not survive single precision.

    Args:
        weight: one per output, kernel and mode.
        rate: log of each mode's factor per position; its real part is negative for a stable mode.
    """
    s = max(1, math.isqrt(length - 1) + 1)
    giants = -(-length // s)
    wide = rate.to(torch.complex128)
    positions = torch.arange(max(s, giants), dtype=torch.float64, device=rate.device)
    baby = torch.exp(wide[..., None] * positions[:s]).to(rate.dtype)  # (H, N, s)
    giant = torch.exp(wide[..., None] * (s * positions[:giants])).to(rate.dtype)  # (H, N, G)
    turned = torch.einsum("chn,hng->hcgn", weight, giant).flatten(1, 2)  # (H, c*G, N)
    left = torch.cat([turned.real, -turned.imag], dim=-1)
    right = torch.cat([baby.real, baby.imag], dim=1)
    kernel = 2 * torch.bmm(left, right)  # (H, c*G, s)
    return kernel.view(rate.shape[0], len(weight), giants * s).transpose(0, 1)[..., :length]
