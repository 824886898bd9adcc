"""Linear recurrences, one input and one output per channel: position by position, or a chunk at a time.

z[t] = A z[t-1] + B u[t],  y[t] = C z[t]

A chunk is cut into blocks of s positions. What a block adds to the state, and what it answers by itself,
is a product for all blocks at once; only z -> A^s z goes from block to block.

All of it is in double precision: a sequence without end adds up what single precision rounds off.
"""

import abc
import functools
from dataclasses import dataclass, field

import torch
from jaxtyping import Complex, Float
from torch import Tensor

from .ops._modes import as_modes, as_real, powers

BLOCK = 64
"""Positions of a block; about as many as states, so that neither products nor leaps outweigh the other."""

Inputs = Float[Tensor, "B L H"]
States = Float[Tensor, "B H N"]
"""Everything the past has left: real, or real and imaginary parts next to each other."""


@dataclass(frozen=True)
class Table:
    """What is needed to take a block of s positions at once; R is 1 where all channels share it, else H."""

    enter: Float[Tensor, "R s N"]  # from inputs to what they add to the state behind the block
    leave: Float[Tensor, "R N s"]  # from the weighed state before the block to its answers
    within: Float[Tensor, "H s s"]  # from inputs to answers
    leap: Tensor  # A^s


@dataclass(frozen=True)
class System(abc.ABC):
    """A linear recurrence."""

    tables: dict[int, Table] = field(default_factory=dict, init=False, repr=False)

    @abc.abstractmethod
    def start(self, batch: int) -> States:
        """The state before anything was seen: zero."""

    @abc.abstractmethod
    def step(self, u: Float[Tensor, "B H"], z: States) -> tuple[Float[Tensor, "B H"], States]:
        """One position further: its answer, and the state behind it."""

    @abc.abstractmethod
    def tensors(self) -> dict[str, Tensor]:
        """The recurrence as real tensors, for export."""

    @abc.abstractmethod
    def _make_table(self, s: int) -> Table: ...

    @abc.abstractmethod
    def _leap(self, z: Float[Tensor, "H B N"], table: Table) -> Float[Tensor, "H B N"]: ...

    @abc.abstractmethod
    def _weigh(self, z: Float[Tensor, "H blocks B N"]) -> Float[Tensor, "H blocks B N"]: ...

    def advance(self, u: Inputs, z: States) -> tuple[Inputs, States]:
        """As many steps, in blocks: first of the full size, then of halves of it for what is left."""
        answers, at, s = [u[:, :0]], 0, BLOCK
        while at < u.shape[1]:
            many = (u.shape[1] - at) // s * s
            if many:
                y, z = self._blocks(u[:, at : at + many], z, s)
                answers.append(y)
            at, s = at + many, s // 2
        return torch.cat(answers, dim=1), z

    def _blocks(self, u: Inputs, z: States, s: int) -> tuple[Inputs, States]:
        if s not in self.tables:
            self.tables[s] = self._make_table(s)
        table = self.tables[s]
        blocks = u.unflatten(1, (-1, s)).permute(3, 1, 0, 2)  # (H, blocks, B, s)
        entering = _product(blocks, table.enter)
        now, before = z.transpose(0, 1), []
        for added in entering.unbind(1):
            before.append(now)
            now = self._leap(now, table) + added
        y = _product(blocks, table.within) + _product(self._weigh(torch.stack(before, dim=1)), table.leave)
        return y.permute(2, 1, 3, 0).flatten(1, 2), now.transpose(0, 1)


@dataclass(frozen=True)
class DenseSystem(System):
    """Every channel with a matrix of its own."""

    A: Float[Tensor, "H N N"]
    B: Float[Tensor, "H N"]
    C: Float[Tensor, "H N"]

    def start(self, batch: int) -> States:
        """Zeros."""
        return self.B.new_zeros(batch, *self.B.shape)

    def step(self, u: Float[Tensor, "B H"], z: States) -> tuple[Float[Tensor, "B H"], States]:
        """Z' = A z + B u, y = C z'."""
        after = (z.transpose(0, 1) @ self.A.mT).transpose(0, 1) + self.B * u[..., None]
        return (self.C * after).sum(-1), after

    def tensors(self) -> dict[str, Tensor]:
        """A (H, N, N), B and C (H, N)."""
        return {"A": self.A, "B": self.B, "C": self.C}

    def _make_table(self, s: int) -> Table:
        columns, rows, leap = self.B[..., None], self.C[:, None] @ self.A, self.A
        while columns.shape[-1] < s:
            columns = torch.cat([columns, leap @ columns], dim=-1)
            rows = torch.cat([rows, rows @ leap], dim=1)
            leap = leap @ leap
        taps = (self.C[:, None] @ columns)[:, 0]
        return Table(columns.flip(-1).mT.contiguous(), rows.mT.contiguous(), _toeplitz(taps), leap)

    def _leap(self, z: Float[Tensor, "H B N"], table: Table) -> Float[Tensor, "H B N"]:
        return z @ table.leap.mT

    def _weigh(self, z: Float[Tensor, "H blocks B N"]) -> Float[Tensor, "H blocks B N"]:
        return z


@dataclass(frozen=True)
class ModalSystem(System):
    """Every channel a sum of modes, z[t] = exp(rate) z[t-1] + u[t], y[t] = Re sum_n weight_n z_n[t].

    Complex modes are kept as two real numbers each. Where all channels share the rates, H of ``rate`` is 1.
    """

    weight: Complex[Tensor, "H N"] | Float[Tensor, "H N"]
    rate: Complex[Tensor, "R N"] | Float[Tensor, "R N"]

    @functools.cached_property
    def factor(self) -> Tensor:
        """What one position does to every mode."""
        return torch.exp(self.rate)

    def start(self, batch: int) -> States:
        """Zeros."""
        return as_real(self.weight).new_zeros(batch, *as_real(self.weight).shape)

    def step(self, u: Float[Tensor, "B H"], z: States) -> tuple[Float[Tensor, "B H"], States]:
        """Turn every mode, add the input, sum up."""
        after = as_modes(z, self.weight) * self.factor + u[..., None]
        return (self.weight * after).sum(-1).real, as_real(after)

    def tensors(self) -> dict[str, Tensor]:
        """Factor and weight of every mode, (H, N, 2), real and imaginary part; (H, N) where all are real."""
        pair = torch.view_as_real if self.rate.is_complex() else torch.clone
        return {"factor": pair(self.factor), "weight": pair(self.weight)}

    def _make_table(self, s: int) -> Table:
        table = powers(self.rate, 1, s + 1, self.rate.dtype)  # (R, s + 1, N)
        after = as_real(table).mT
        taps = _product(as_real(self.weight.conj().resolve_conj())[:, None], after[..., :s])[:, 0]
        enter = as_real(table[:, :s].flip(1))
        return Table(enter, after[..., 1:].contiguous(), _toeplitz(taps), table[:, s, None])

    def _leap(self, z: Float[Tensor, "H B N"], table: Table) -> Float[Tensor, "H B N"]:
        return as_real(as_modes(z, self.weight) * table.leap)

    def _weigh(self, z: Float[Tensor, "H blocks B N"]) -> Float[Tensor, "H blocks B N"]:
        weight = self.weight[:, None, None]
        return as_real((as_modes(z, weight) * weight).conj().resolve_conj())


def _product(x: Float[Tensor, "H *rows M"], table: Float[Tensor, "R M K"]) -> Float[Tensor, "H *rows K"]:
    """Rows of every channel times its matrix, or times the one that all share."""
    if len(table) == 1:
        return x @ table[0]
    return (x.flatten(1, -2) @ table).unflatten(1, x.shape[1:-1])


def _toeplitz(taps: Float[Tensor, "H s"]) -> Float[Tensor, "H s s"]:
    """Row j, column t: what input j contributes to answer t, which is tap t - j."""
    t = torch.arange(taps.shape[-1], device=taps.device)
    lag = t[None] - t[:, None]
    return torch.where(lag >= 0, taps[:, lag.clamp(min=0)], 0)
