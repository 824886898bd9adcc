"""Recurrent layers with a state of constant size, unidirectional or bidirectional."""

import abc
from collections.abc import Callable

import torch
from jaxtyping import Float
from torch import Tensor, nn

from ...shapes import PaddingMask, Vectors
from ..base import LayerContext, State

CHUNK = 32
"""Positions per compiled graph; compilation takes half a second per position."""


class RecurrentCell(nn.Module, abc.ABC):
    """Base class of causal recurrent layers, from vectors and a state to vectors and the next state."""

    @abc.abstractmethod
    def initial_state(self, batch_size: int) -> State:
        """Return the state before the first position, for a batch of sequences."""

    @abc.abstractmethod
    def forward(self, x: Vectors, state: State) -> tuple[Vectors, State]:
        """Return the outputs and the state after the last position."""


Step = Callable[[Float[Tensor, "B N"], Float[Tensor, "B N"]], Float[Tensor, "B N"]]


def scan(step: Step, u: Vectors, h: Float[Tensor, "B N"]) -> tuple[Vectors, Float[Tensor, "B N"]]:
    """Return h[t] = step(u[t], h[t-1]) at every position, and the last h."""
    chunks = []
    for u_chunk in u.split(CHUNK, dim=1):
        if torch.compiler.is_compiling():
            torch._dynamo.graph_break()  # whole sequences would take minutes to compile
        states, h = _scan_chunk(step, u_chunk, h)
        chunks.append(states)
    return torch.cat(chunks, dim=1), h


def _scan_chunk(step: Step, u: Vectors, h: Float[Tensor, "B N"]) -> tuple[Vectors, Float[Tensor, "B N"]]:
    states = []
    for u_t in u.unbind(1):
        h = step(u_t, h)
        states.append(h)
    return torch.stack(states, dim=1), h


class Directions(nn.Module):
    """A forward cell and, unless causal, a backward cell, whose outputs are added."""

    def __init__(self, context: LayerContext, make: Callable[[], RecurrentCell]) -> None:
        super().__init__()
        self.past = make()
        self.future = None if context.causal else make()

    def forward(self, x: Vectors, padding_mask: PaddingMask = None) -> Vectors:
        """Mix the real positions of every sequence."""
        y = _run_cell(self.past, x, padding_mask, reverse=False)
        if self.future is None:
            return y
        return y + _run_cell(self.future, x, padding_mask, reverse=True)


def _run_cell(cell: RecurrentCell, x: Vectors, padding_mask: PaddingMask, *, reverse: bool) -> Vectors:
    """Run a cell forward or backward, with real positions sorted before padding."""
    if padding_mask is None:
        # A view, so that gradients add up in the same order with and without padding.
        y, _ = cell(x.flip(1) if reverse else x.view_as(x), cell.initial_state(len(x)))
        return y.flip(1) if reverse else y
    position = torch.arange(x.shape[1], device=x.device)
    rank = -position if reverse else position
    order = torch.where(padding_mask, rank, x.shape[1]).argsort(stable=True)
    y, _ = cell(x.gather(1, order[..., None].expand_as(x)), cell.initial_state(len(x)))
    return y.gather(1, order.argsort(1)[..., None].expand_as(y))
