"""Heads of objectives in latent space, which compare predictions with representations of the inputs."""

import abc
from collections.abc import Mapping

import torch
from torch import Tensor, nn

from ...shapes import Inputs, LossMask, PaddingMask, Vectors


class LatentHead(nn.Module, abc.ABC):
    """A head that is given the network and its inputs, apart from what the network made of them.

    Without these it counts as it does with them, for FLOPs of the head alone.
    """

    @abc.abstractmethod
    def forward(
        self,
        x: Vectors,
        padding_mask: PaddingMask = None,
        loss_mask: LossMask = None,
        network: nn.Module | None = None,
        inputs: Inputs | None = None,
    ) -> Tensor:
        """Return one row per position of the loss mask (None: all), sequence by sequence."""

    def attach(self, network: nn.Module) -> None:
        """Take from a network what the head keeps of it when training begins; most keep nothing."""

    def follow(self, network: nn.Module) -> None:
        """Change what the head keeps of a network after a step of training."""


def at_rows(x: Tensor, loss_mask: LossMask) -> Tensor:
    """Return the vectors of x (B, L, K) at the positions of the loss mask: flat indices or booleans."""
    flat = x.flatten(0, 1)
    if loss_mask is None:
        return flat
    return flat[loss_mask.flatten()] if loss_mask.dtype == torch.bool else flat.index_select(0, loss_mask)


def move_average(average: Mapping[str, Tensor], weights: Mapping[str, Tensor], share: float) -> None:
    """Move an average of weights, in place, by a share of the way to the weights; counters are copied."""
    for name, value in average.items():
        if value.is_floating_point() or value.is_complex():
            value.lerp_(weights[name], share)
        else:
            value.copy_(weights[name])
