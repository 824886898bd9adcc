"""Contrastive prediction: tell the next position of a sequence from other positions of it.

A linear head predicts from the features of a position the embedding of the next. Its cosine with that,
divided by a temperature, competes with those of candidates: positions of the same sequence, evenly spaced.
Candidates whose input is that of the next position are left out. The loss is the cross-entropy (InfoNCE).
Embeddings are the network's own, of single inputs, without positions.

Source: van den Oord et al. (2018), Representation learning with contrastive predictive coding, whose Table 2
has candidates from the same sequence alone; cosines and temperature are those of Baevski et al. (2020),
wav2vec 2.0. What differs from them: one step ahead, and inputs are embedded one by one.
"""

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from ..config import Count, Positive, spec
from ..data.dataset import Batch
from ..data.spec import SequenceSpec
from ..shapes import Inputs, LossMask, PaddingMask, Vectors
from .base import Denoise, ObjectiveBatch
from .common.heads import Pooling
from .common.latent import LatentHead, at_rows
from .common.reconstruction import followed


@spec
class Contrastive(Denoise):
    """Cross-entropy of which of several positions of the sequence is the next."""

    needs_causal = True
    sees_answers = True
    rebuilds = False

    candidates: Count = 64  # other positions of the sequence; repeated where it is shorter
    temperature: Positive = 0.1

    def head(self, form: SequenceSpec, width: int, pooling: Pooling) -> nn.Module:
        """Return the predictor, which finds its candidates."""
        return CandidatesHead(width, self.candidates, self.temperature)

    def make_targets(self, batch: Batch, form: SequenceSpec, random: torch.Generator) -> ObjectiveBatch:
        """Return the batch with all positions that have a successor; the right answer is always the first."""
        wanted = followed(batch.real())
        first = torch.zeros(*wanted.shape, 1, dtype=torch.long, device=batch.inputs.device)
        return ObjectiveBatch(batch, first, wanted.sum(), loss_mask=wanted)


class CandidatesHead(LatentHead):
    """A linear predictor of embeddings; its outputs are scores of the next position and of the candidates."""

    def __init__(self, width: int, candidates: int, temperature: float) -> None:
        super().__init__()
        self.linear = nn.Linear(width, width)
        self.candidates = candidates
        self.temperature = temperature

    def forward(
        self,
        x: Vectors,
        padding_mask: PaddingMask = None,
        loss_mask: LossMask = None,
        network: nn.Module | None = None,
        inputs: Inputs | None = None,
    ) -> Float[Tensor, "outputs K"]:
        """Return the logits of the next position (first) and of every candidate; -inf if it is left out."""
        embedded = x if network is None else network.embed.content(inputs)  # type: ignore[union-attr,operator]
        keys = F.normalize(embedded, dim=-1)
        predicted = F.normalize(self.linear(x), dim=-1)
        length = torch.full(x.shape[:1], x.shape[1], device=x.device)
        if padding_mask is not None:
            length = padding_mask.sum(1)
        number = torch.arange(self.candidates, device=x.device)
        chosen = number * length[:, None] // self.candidates
        sequence = torch.arange(len(x), device=x.device)[:, None]
        others = predicted @ keys[sequence, chosen].mT
        if inputs is not None:
            same = inputs.roll(-1, 1)[:, :, None] == inputs[sequence, chosen][:, None]
            others = others.masked_fill(same.flatten(3).all(3) if same.ndim > 3 else same, -torch.inf)
        right = (predicted * keys.roll(-1, 1)).sum(-1, keepdim=True)
        return at_rows(torch.cat([right, others], dim=-1) / self.temperature, loss_mask)


objective = Contrastive
