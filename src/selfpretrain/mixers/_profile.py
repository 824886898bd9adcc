"""What a long kernel looks like from afar: how strong at every lag, how far it reaches."""

from dataclasses import dataclass

import numpy as np
import torch
from torch import nn

from ._convolution import Convolution

REACH = 0.99
"""Share of a kernel's energy up to its horizon."""


@dataclass(frozen=True)
class KernelProfile:
    """The kernels of one layer in one direction."""

    envelope: np.ndarray  # (L,) largest |K| of any channel at every lag
    horizon: np.ndarray  # (H,) lags that hold 99 % of a channel's energy
    energy: np.ndarray  # (H,) sum of squares


@torch.no_grad()
def profiles(layer: Convolution, length: int) -> list[KernelProfile]:
    """One for the past and, for bidirectional layers, one for the future.

    Source: Amos et al. (2024), figure 4.
    """
    found = []
    for K in layer.kernel(length).double():
        risen = K.square().cumsum(-1)
        energy = risen[:, -1]
        horizon = (risen < REACH * energy[:, None]).sum(-1) + 1
        found.append(
            KernelProfile(K.abs().amax(0).cpu().numpy(), horizon.cpu().numpy(), energy.cpu().numpy())
        )
    return found


def kernel_layers(network: nn.Module) -> dict[str, Convolution]:
    """Every layer of a network that has long kernels, by name."""
    return {name: module for name, module in network.named_modules() if isinstance(module, Convolution)}
