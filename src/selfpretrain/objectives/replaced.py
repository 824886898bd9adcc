"""Replaced tokens: say of every position whether its input was exchanged for another one.

Every real position is chosen with probability ``rate``, and its input is exchanged. With ``generator``
"place" the replacement is what another sequence has at that position. With "bigram", which is for tokens, it
is drawn from the bigram model of the batch: a token that follows the same token somewhere in it.
Where the replacement is equal, or there is none, nothing is replaced. The loss is the cross-entropy of two
classes at all real positions.

Source: Clark et al. (2020), ELECTRA; Krishna et al. (2023), arXiv 2209.14389, self-pretrain with it. What
differs from them: there the small generator is a network, trained by masking at the same time, which sees
both sides of a position; here it is counted, and sees the token before, so that it costs next to nothing.
"""

from dataclasses import replace
from typing import Literal

import torch
from jaxtyping import Bool, Int
from torch import Tensor, nn

from ..config import Share, spec
from ..data.dataset import Batch, to_device
from ..data.spec import SequenceSpec, Tokens
from ..errors import SpecError
from .base import Denoise, ObjectiveBatch
from .common.heads import PerPosition, Pooling
from .common.reconstruction import at_least_one


@spec
class Replaced(Denoise):
    """Cross-entropy of whether the input at a position was replaced."""

    sees_answers = True

    rate: Share = 0.15  # probability of choosing a position
    generator: Literal["place", "bigram"] = "place"  # of the replacements

    def head(self, form: SequenceSpec, width: int, pooling: Pooling) -> nn.Module:
        """Return a linear head with two outputs at every position.

        Raises:
            SpecError: if values are to be replaced by a bigram model, which is one of tokens.
        """
        if self.generator == "bigram" and not isinstance(form.signal, Tokens):
            raise SpecError("a bigram model generates tokens, and this task has values; use generator=place")
        return PerPosition(width, 2)

    def make_targets(self, batch: Batch, form: SequenceSpec, random: torch.Generator) -> ObjectiveBatch:
        """Return the batch with some inputs replaced, and whether each was, drawn on the CPU."""
        real = batch.real()
        chosen = at_least_one(torch.rand(real.shape, generator=random), self.rate, real)
        if self.generator == "bigram":
            others = bigram_samples(batch.inputs, real, random)
        else:
            along = 0 if len(real) > 1 else 1  # a sequence alone gets inputs of other positions
            shift = int(torch.randint(1, max(2, real.shape[along]), (), generator=random))
            others = batch.inputs.roll(shift, along)
            chosen = chosen & real.roll(shift, along)
        chosen = to_device(chosen, batch.inputs.device)
        chosen = chosen.view(*chosen.shape, *[1] * (batch.inputs.ndim - 2))
        inputs = torch.where(chosen, others, batch.inputs)
        replaced = (inputs != batch.inputs).flatten(2).any(2) if inputs.ndim > 2 else inputs != batch.inputs
        return ObjectiveBatch(
            replace(batch, inputs=inputs), replaced.long()[..., None], real.sum(), loss_mask=real
        )


def bigram_samples(
    tokens: Int[Tensor, "B L"], real: Bool[Tensor, "B L"], random: torch.Generator
) -> Int[Tensor, "B L"]:
    """Return a token for every position, drawn from those of the batch that follow the same token.

    First tokens are drawn from first tokens. Padding is kept.
    """
    before = torch.cat([torch.full_like(tokens[:, :1], -1), tokens[:, :-1]], 1)
    uniform = to_device(torch.rand(real.shape, generator=random)[real], tokens.device)
    real = to_device(real, tokens.device)
    followed, order = before[real].sort(stable=True)
    first = torch.searchsorted(followed, before[real])
    count = torch.searchsorted(followed, before[real], right=True) - first
    drawn = order[first + (uniform * count).long()]
    return tokens.masked_scatter(real, tokens[real][drawn])


objective = Replaced
