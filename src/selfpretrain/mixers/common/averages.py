"""Damped exponential moving averages as convolution kernels."""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from ..ops.vandermonde import modal_kernel


class Averages(nn.Module):
    """K[l] = sum_n p b g / sqrt(N) q^l,  p = sigmoid(d),  q = 1 - p sigmoid(a), per direction and channel.

    Source: Ma et al. (2023), Mega: Moving Average Equipped Gated Attention, eqs. 2 to 4.
    """

    def __init__(self, directions: int, width: int, states: int) -> None:
        super().__init__()
        shape = directions, width, states
        signs = 1 - 2 * (torch.arange(states) % 2)
        self.weight = nn.Parameter(0.2 * torch.randn(shape))  # d: weight of the input
        self.damping = nn.Parameter(0.2 * torch.randn(shape))  # a: damping of the past by the input
        self.enter = nn.Parameter(signs + 0.02 * torch.randn(shape))  # b
        self.leave = nn.Parameter(torch.randn(shape))  # g

    def kernel(self, length: int) -> Float[Tensor, "c H L"]:
        """Return K for lags below ``length``."""
        scale, rate = self.discretize()
        K = modal_kernel(scale.flatten(0, 1)[None].to(self.leave), rate.flatten(0, 1), length)
        return K.view(*self.leave.shape[:2], length)

    def discretize(self) -> tuple[Float[Tensor, "c H N"], Float[Tensor, "c H N"]]:
        """Return the factor p b g / sqrt(N) and log q, in double precision."""
        p = torch.sigmoid(self.weight.double())
        scale = p * self.enter * self.leave / self.leave.shape[-1] ** 0.5
        return scale, torch.log1p(-p * torch.sigmoid(self.damping.double()))
