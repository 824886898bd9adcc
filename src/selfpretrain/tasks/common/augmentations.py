"""Changes that keep the labels of pictures, signals, texts, expressions and strands of DNA."""

from dataclasses import replace
from typing import Annotated, ClassVar, Literal

import numpy as np
import torch
from jaxtyping import Int
from pydantic import Field
from torch import Tensor

from ...config import Count, Natural, Rate, Share, spec
from ...data.dataset import Augmentation, Batch, per_channel, to_device
from ...data.spec import PositionClasses, SequenceSpec, Values

Symmetry = Literal["left-right", "up-down", "transpose"]
FLIPPED = {"left-right": 2, "up-down": 1}  # axis of the cells (B, S, S, C) that is turned


@spec
class Pictures(Augmentation):
    """Symmetries and shifts of square pictures that are read row by row, each chosen for every picture.

    Each symmetry is applied with probability 1/2. Shifts are uniform from ``-shift`` to ``shift`` pixels in
    both directions; what enters is 0. A position may be a token of patch x patch cells, each of
    ``kinds`` kinds: then cells are moved, and the tokens are made again.
    """

    symmetries: tuple[Symmetry, ...] = ()
    shift: Natural = 0
    patch: Count = 1
    kinds: Count = 1

    def apply(self, batch: Batch, form: SequenceSpec, random: torch.Generator) -> Batch:
        """Return the batch with its pictures turned over and shifted."""
        cells = self._cells(batch.inputs)
        for symmetry in self.symmetries:
            chosen = to_device(torch.rand(len(cells), generator=random) < 0.5, cells.device)
            flipped = cells.transpose(1, 2) if symmetry == "transpose" else cells.flip(FLIPPED[symmetry])
            cells = torch.where(chosen[:, None, None, None], flipped, cells)
        if self.shift:
            side = cells.shape[1]
            down, right = torch.randint(-self.shift, self.shift + 1, (2, len(cells)), generator=random)
            cells = _moved(cells, to_device(down, cells.device), side)
            cells = _moved(cells.transpose(1, 2), to_device(right, cells.device), side).transpose(1, 2)
        if self.patch > 1:  # tokens again
            side = cells.shape[1] // self.patch
            parts = cells.reshape(-1, side, self.patch, side, self.patch).transpose(2, 3)
            cells = (parts.reshape(len(cells), side**2, -1) * self._units(cells)).sum(-1)
        return replace(batch, inputs=cells.reshape(batch.inputs.shape))

    def _cells(self, inputs: Tensor) -> Tensor:
        """Return the cells (B, S, S, C) of sequences (B, L) or (B, L, C)."""
        B, L = inputs.shape[:2]
        side = round(L**0.5)
        if self.patch == 1:
            return inputs.reshape(B, side, side, -1)
        digits = inputs[..., None] // self._units(inputs) % self.kinds
        parts = digits.reshape(B, side, side, self.patch, self.patch).transpose(2, 3)
        return parts.reshape(B, side * self.patch, side * self.patch, 1)

    def _units(self, like: Tensor) -> Tensor:
        return self.kinds ** torch.arange(self.patch**2, device=like.device)


def _moved(x: Tensor, offsets: Int[Tensor, "B"], lengths: Int[Tensor, "B 1"] | int) -> Tensor:
    """Return sequences (B, L, ...) that start later by their offsets; what enters is 0."""
    source = torch.arange(x.shape[1], device=x.device) - offsets[:, None]
    inside = (source >= 0) & (source < lengths)
    rows = torch.arange(len(x), device=x.device)[:, None]
    return x[rows, source.clamp(0, x.shape[1] - 1)] * inside.view(*inside.shape, *[1] * (x.ndim - 2))


@spec
class NoisySignals(Augmentation):
    """Noise, another loudness and a shift in time of signals, drawn for every sequence.

    Values become centre + a (x - centre) + noise, with a from U(1 - scale, 1 + scale) and normal noise with
    ``jitter`` times the spread of its channel. The signal moves by at most ``shift`` of its length to either
    side; what enters is the centre.
    """

    jitter: Annotated[float, Field(ge=0)] = 0.05
    scale: Rate = 0.1
    shift: Rate = 0.05

    def apply(self, batch: Batch, form: SequenceSpec, random: torch.Generator) -> Batch:
        """Return the batch with changed signals; padding stays zero."""
        signal = form.signal
        assert isinstance(signal, Values), "signals are values"
        x = batch.inputs
        centre, spread = (per_channel(of, x) for of in (signal.centre, signal.spread))
        factor = 1 + self.scale * (2 * torch.rand(len(x), 1, 1, generator=random) - 1)
        noise = self.jitter * torch.randn(x.shape, generator=random)
        share = self.shift * (2 * torch.rand(len(x), generator=random) - 1)
        real = to_device(batch.real(), x.device)
        lengths = real.sum(1, keepdim=True)
        offsets = (to_device(share, x.device)[:, None] * lengths).round().long()[:, 0]
        deviation = _moved(x - centre, offsets, lengths)
        changed = centre + to_device(factor, x.device) * deviation + to_device(noise, x.device) * spread
        return replace(batch, inputs=changed.to(x.dtype) * real[..., None])


@spec
class DroppedSymbols(Augmentation):
    """Symbols of a text replaced by a blank, each with probability ``rate``."""

    blank: Natural
    rate: Share = 0.05

    def apply(self, batch: Batch, form: SequenceSpec, random: torch.Generator) -> Batch:
        """Return the batch with blanks at random real positions."""
        real = batch.real()
        dropped = (torch.rand(real.shape, generator=random) < self.rate) & real
        inputs = batch.inputs.masked_fill(to_device(dropped, batch.inputs.device), self.blank)
        return replace(batch, inputs=inputs)


@spec
class ReverseComplement(Augmentation):
    """Sequences of bases as read on the other strand, each with probability 1/2.

    The order is reversed and every base is replaced by its ``complement``; labels of positions move along.
    """

    complement: tuple[int, ...]  # of every symbol

    def apply(self, batch: Batch, form: SequenceSpec, random: torch.Generator) -> Batch:
        """Return the batch with some sequences turned; padding stays at their ends."""
        chosen = torch.rand(len(batch.inputs), generator=random) < 0.5
        turned = batch.real() & chosen[:, None]
        place = torch.arange(turned.shape[1])
        source = torch.where(turned, batch.real().sum(1, keepdim=True) - 1 - place, place)
        device = batch.inputs.device
        source = to_device(source, device)
        turned = to_device(turned, device)
        inputs = batch.inputs.gather(1, source)
        table = to_device(torch.tensor(self.complement), device)
        inputs = torch.where(turned, table[inputs], inputs)
        if not isinstance(form.target, PositionClasses):
            return replace(batch, inputs=inputs)
        targets = batch.targets.clone()
        targets[:, : len(place)] = targets.gather(1, source)
        return replace(batch, inputs=inputs, targets=targets)


@spec
class ShuffledOperands(Augmentation):
    """Expressions in which the operands of every operator are put in random order.

    The operators must not depend on the order, as MIN, MAX, the median and sums do not.
    """

    reads_inputs: ClassVar[bool] = True

    first: Count  # symbol of the first operator
    close: Count  # symbol that closes an expression; symbols from ``first`` to before it open one

    def apply(self, batch: Batch, form: SequenceSpec, random: torch.Generator) -> Batch:
        """Return the batch with shuffled expressions of the same lengths."""
        seed = int(torch.randint(2**62, (), generator=random))
        shuffle = np.random.default_rng(seed)
        lengths = batch.real().sum(1).tolist()
        sequences = batch.inputs.cpu().numpy().copy()
        for row, length in zip(sequences, lengths, strict=True):
            row[:length] = self._shuffled(row[:length].tolist(), shuffle)
        return replace(batch, inputs=to_device(torch.from_numpy(sequences), batch.inputs.device))

    def _shuffled(self, symbols: list[int], shuffle: np.random.Generator) -> list[int]:
        """Return an expression with its operands in another order; what is none, e.g. generated, as it is."""
        depths = np.cumsum([(self.first <= s < self.close) - (s == self.close) for s in symbols])
        if not len(depths) or depths.min() < 0 or depths[-1] != 0:
            return symbols
        open_nodes: list[list[list[int]]] = [[]]  # of every open expression, the operands so far
        operators: list[int] = []
        for symbol in symbols:
            if self.first <= symbol < self.close:
                operators.append(symbol)
                open_nodes.append([])
            elif symbol == self.close:
                operands = open_nodes.pop()
                order = shuffle.permutation(len(operands)).tolist()
                whole = [operators.pop(), *(each for i in order for each in operands[i]), symbol]
                open_nodes[-1].append(whole)
            else:
                open_nodes[-1].append([symbol])
        return [each for operand in open_nodes[0] for each in operand]
