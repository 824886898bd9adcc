"""Weight transfer between stages: copy weights by name pattern and freeze parameters."""

import fnmatch
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from ..config import spec
from ..errors import TransferError
from ..objectives.common.latent import LatentHead
from .model import Network


@spec
class Transfer:
    """Which weights are transferred; all others keep their initial values."""

    patterns: tuple[str, ...] = ("*",)  # names to transfer, with shell wildcards: * ? [qk]
    fresh: tuple[str, ...] = ("head.*",)  # exceptions: names that keep their initial values


EVERYTHING_BUT_THE_HEAD = Transfer()
QUERIES_AND_KEYS = Transfer(("blocks.*.mixer.[qk].*",), ())


@dataclass(frozen=True)
class TransferResult:
    """Names of the weights that a transfer copied, left fresh and did not use."""

    moved: tuple[str, ...]
    fresh: tuple[str, ...]  # of the network, with their initial values
    unused: tuple[str, ...]  # of the source, not copied


def transfer_weights(source: Mapping[str, Tensor], network: nn.Module, rule: Transfer) -> TransferResult:
    """Copy the weights selected by ``rule`` from ``source`` into ``network``.

    Raises:
        TransferError: if a pattern matches nothing, a selected weight is not in the source, or shapes differ.
    """
    target = network.state_dict()
    kept = set(_match_names(target, rule.fresh))
    moved = sorted(set(_match_names(target, rule.patterns)) - kept)
    # All weights are checked before any is copied: a failed transfer leaves the network unchanged.
    for name in moved:
        if name not in source:
            raise TransferError(
                f"the network's {name} is not among the weights to move; name it in fresh=..."
            )
        if source[name].shape != target[name].shape:
            shapes = f"{tuple(source[name].shape)} there, {tuple(target[name].shape)} in the network"
            raise TransferError(
                f"{name} has two shapes: {shapes}; use the same model, or name it in fresh=..."
            )
    with torch.no_grad():
        for name in moved:
            target[name].copy_(source[name])
    head = getattr(network, "head", None)
    # Its copy of the network starts from the same weights, unless it was moved itself.
    if isinstance(head, LatentHead) and not any(name.startswith("head.") for name in moved):
        head.attach(network)
    return TransferResult(
        tuple(moved), tuple(sorted(set(target) - set(moved))), tuple(sorted(set(source) - set(moved)))
    )


def freeze(network: Network, patterns: tuple[str, ...]) -> None:
    """Freeze the parameters that match ``patterns``, of an ensemble those of every network.

    Raises:
        TransferError: if a pattern matches nothing, or no parameter is left to train.
    """
    for each in network.networks():
        parameters = dict(each.named_parameters())
        for name in _match_names(parameters, patterns):
            parameters[name].requires_grad_(False)
    if not any(parameter.requires_grad for parameter in network.parameters()):
        raise TransferError("freeze leaves nothing to train; name fewer parameters")


def _match_names(names: Iterable[str], patterns: tuple[str, ...]) -> list[str]:
    names = list(names)
    chosen: list[str] = []
    for pattern in patterns:
        matching = fnmatch.filter(names, pattern)
        if not matching:
            raise TransferError(f"{pattern!r} names nothing in the network")
        chosen += matching
    return chosen
