"""Recurrent layers with a state of constant size, unidirectional or bidirectional, and scans of recurrences.

The factors of a gated scan depend on the input, at every position and for every feature.
"""

import abc
import math
from collections.abc import Callable
from typing import Any

import torch
from jaxtyping import Float, Inexact
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from ...shapes import PaddingMask, Vectors
from ..base import LayerContext, State

CHUNK = 32  # positions per compiled graph; compilation takes half a second per position
Steps = Inexact[Tensor, "B L ..."]


class RecurrentCell(nn.Module, abc.ABC):
    """Base class of causal recurrent layers, from vectors and a state to vectors and the next state."""

    state_shapes: tuple[tuple[int, ...], ...] = ()  # of the tensors of a state, for one sequence

    def initial_state(self, batch_size: int) -> State:
        """Return the state before the first position, for a batch of sequences: zeros."""
        weight = next(self.parameters())
        return tuple(weight.new_zeros(batch_size, *shape) for shape in self.state_shapes)

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
        # view_as is a node of the graph, as gather is below: gradients add up in one order, padding or not.
        y, _ = cell(x.flip(1) if reverse else x.view_as(x), cell.initial_state(len(x)))
        return y.flip(1) if reverse else y
    position = torch.arange(x.shape[1], device=x.device)
    rank = -position if reverse else position
    order = torch.where(padding_mask, rank, x.shape[1]).argsort(stable=True)
    y, _ = cell(x.gather(1, order[..., None].expand_as(x)), cell.initial_state(len(x)))
    return y.gather(1, order.argsort(1)[..., None].expand_as(y))


def gated_scan(a: Steps, b: Steps) -> Steps:
    """Return h[t] = a[t] h[t-1] + b[t] with h[-1] = 0, for factors of at most one, real or complex.

    Positions are cut into chunks of about sqrt(L). All chunks are scanned from zero together, then the last
    state of each is carried into the next. The gradient is the same recurrence from the end; autograd of the
    plain loop would keep a tensor per position.
    """
    return _GatedScan.apply(a, b)


class _GatedScan(torch.autograd.Function):
    """``gated_scan``, which keeps its factors and its result for the backward pass."""

    @staticmethod
    def forward(ctx: Any, a: Steps, b: Steps) -> Steps:
        L = b.shape[1]
        size = math.isqrt(L - 1) + 1
        after = -L % size
        factor = _padded(a, 0, after).unflatten(1, (-1, size))
        h = _padded(b, 0, after).unflatten(1, (-1, size))
        for t in range(1, size):
            h[:, :, t].addcmul_(factor[:, :, t], h[:, :, t - 1])
            factor[:, :, t].mul_(factor[:, :, t - 1])  # product of all factors of its chunk so far
        for i in range(1, h.shape[1]):
            h[:, i].addcmul_(factor[:, i], h[:, i - 1, -1:])
        h = h.flatten(1, 2)[:, :L]
        ctx.save_for_backward(a, h)
        return h

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Steps) -> tuple[Steps, Steps]:
        a, h = ctx.saved_tensors
        # of_b[t] = conj(a[t + 1]) of_b[t + 1] + grad[t], without a reversed copy of either.
        L = grad.shape[1]
        size = math.isqrt(L - 1) + 1
        before = -L % size
        factor = _padded(a[:, 1:].conj(), before, 1).unflatten(1, (-1, size))
        of_b = _padded(grad, before, 0).unflatten(1, (-1, size))
        for t in range(size - 2, -1, -1):
            of_b[:, :, t].addcmul_(factor[:, :, t], of_b[:, :, t + 1])
            factor[:, :, t].mul_(factor[:, :, t + 1])
        for i in range(of_b.shape[1] - 2, -1, -1):
            of_b[:, i].addcmul_(factor[:, i], of_b[:, i + 1, :1])
        of_b = of_b.flatten(1, 2)[:, before:]
        of_a = torch.empty_like(a)
        of_a[:, 0] = 0
        of_a[:, 1:] = of_b[:, 1:] * h[:, :-1].conj()
        return of_a, of_b


def _padded(x: Tensor, before: int, after: int) -> Tensor:
    """Return a copy with zeros at positions before and after; no position is written twice."""
    L = x.shape[1]
    padded = x.new_empty(x.shape[0], before + L + after, *x.shape[2:])
    padded[:, :before] = 0
    padded[:, before : before + L] = x
    padded[:, before + L :] = 0
    return padded
