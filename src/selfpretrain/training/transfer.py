"""Moving weights from one network to the next, with nothing left unsaid."""

import fnmatch
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from ..config import spec
from ..errors import TransferError


@spec
class Transfer:
    """Which weights move; all others keep their fresh values."""

    patterns: tuple[str, ...] = ("*",)  # names that move, as in a shell: * ? [qk]
    fresh: tuple[str, ...] = ("head.*",)  # of these, names that stay fresh


EVERYTHING_BUT_THE_HEAD = Transfer()
QUERIES_AND_KEYS = Transfer(("blocks.*.mixer.[qk].*",), ())


@dataclass(frozen=True)
class Moved:
    """What a transfer did, by name of weight."""

    moved: tuple[str, ...]
    fresh: tuple[str, ...]
    unused: tuple[str, ...]


def move(source: Mapping[str, Tensor], network: nn.Module, rule: Transfer) -> Moved:
    """Copy the weights that ``rule`` names from ``source`` into ``network``.

    Raises:
        TransferError: if a pattern matches nothing, a named weight is not in the source, or shapes differ.
    """
    target = network.state_dict()
    kept = set(_named(target, rule.fresh))
    moved = sorted(set(_named(target, rule.patterns)) - kept)
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
    return Moved(
        tuple(moved), tuple(sorted(set(target) - set(moved))), tuple(sorted(set(source) - set(moved)))
    )


def freeze(network: nn.Module, patterns: tuple[str, ...]) -> None:
    """Stop training the parameters that ``patterns`` name.

    Raises:
        TransferError: if a pattern matches nothing.
    """
    parameters = dict(network.named_parameters())
    for name in _named(parameters, patterns):
        parameters[name].requires_grad_(False)


def _named(names: Iterable[str], patterns: tuple[str, ...]) -> list[str]:
    names = list(names)
    chosen: list[str] = []
    for pattern in patterns:
        matching = fnmatch.filter(names, pattern)
        if not matching:
            raise TransferError(f"{pattern!r} names nothing in the network")
        chosen += matching
    return chosen
