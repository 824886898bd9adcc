"""Latent targets: predict a representation of the next or of a masked position, not its input.

A linear head p predicts the target t of a position, and the loss is 1 - cos(p, t). Targets are the
network's own embeddings of single inputs (``embedding``), its own features of the inputs without masks
(``features``), or those of a slow average of the network, a <- decay a + (1 - decay) w after every step
(``average``). Embeddings are without positions. All of them could become equal, which makes the loss 0
and the network useless. Against this, either no gradients flow into targets (``stop-gradient``), or they
do and the loss has a further term (``sigreg``): how far projections of the targets on random directions
are from a normal distribution, by their characteristic functions, E = mean over directions of int |phi(s)
- exp(-s^2/2)|^2 exp(-s^2/2) ds.

- next, embedding, stop-gradient: next-embedding prediction, NEPA (Xu et al., 2025, arXiv 2512.16922);
- masked, average: like data2vec (Baevski et al., 2022);
- masked or next, features, sigreg: like LeJEPA (Balestriero & LeCun, 2025, arXiv 2511.08544).

What differs from these: a linear predictor; the last features rather than a mean over blocks (data2vec);
cosines rather than squared distances, E without the number of vectors as a factor (LeJEPA).

Collapse is measured with pairs of targets half a sequence apart: ``spread`` is the mean of 1 - cos, and
``rank``, 1 over the mean of cos^2, the effective number of directions. The score is 1 - loss / spread: 0 for
another position's target as the prediction, 1 for the right one.
"""

import copy
from typing import Literal

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from ..config import Positive, Rate, Share, spec
from ..data.dataset import Batch, to_device
from ..data.spec import SequenceSpec
from ..errors import SpecError
from ..shapes import Inputs, LossMask, PaddingMask, Vectors
from ..system import distributed
from .base import Denoise, ObjectiveBatch
from .common.heads import Pooling
from .common.latent import LatentHead, at_rows, move_average
from .common.reconstruction import at_least_one, followed, usual_rate

SLICES = 64
"""Random directions of SIGReg in a step; our choice, as all three."""
KNOTS = 17
"""Points in [0, 3] at which characteristic functions are compared."""
COLLAPSED = 0.01
"""Spread below which targets have collapsed."""


@spec
class Latent(Denoise):
    """1 - cosine of the predicted and the true representation of a position."""

    sees_answers = True
    rebuilds = False

    positions: Literal["next", "masked"] = "next"  # those to predict
    target: Literal["embedding", "features", "average"] = "embedding"
    guard: Literal["stop-gradient", "sigreg"] = "stop-gradient"
    rate: Share = 0.15  # probability of masking a position
    decay: Rate = 0.99  # of the slow average, per step
    weight: Positive = 1.0  # of E in the loss

    def __post_init__(self) -> None:
        if self.target == "average" and self.guard == "sigreg":
            raise SpecError("a slow average has no gradient that sigreg could use; use guard=stop-gradient")

    @classmethod
    def for_signal(cls, form: SequenceSpec) -> "Latent":
        """Return the objective with the rate that masked denoising has for a signal."""
        return cls(rate=usual_rate(form))

    @property
    def masks_inputs(self) -> bool:  # type: ignore[override]  # a setting
        """Return whether masked positions are predicted."""
        return self.positions == "masked"

    @property
    def needs_causal(self) -> bool:  # type: ignore[override]  # a setting
        """Return whether next positions are predicted."""
        return self.positions == "next"

    @property
    def whole_batch(self) -> bool:  # type: ignore[override]  # a setting
        """Return whether the loss has the distribution of a batch in it."""
        return self.guard == "sigreg"

    def head(self, form: SequenceSpec, width: int, pooling: Pooling) -> nn.Module:
        """Return the predictor, which knows where its targets come from."""
        return TargetHead(width, self)

    def make_targets(self, batch: Batch, form: SequenceSpec, random: torch.Generator) -> ObjectiveBatch:
        """Return the batch with the positions to predict; its labels say nothing."""
        real = batch.real()
        nothing = torch.zeros(*real.shape, 1, device=batch.inputs.device)
        if self.positions == "next":
            wanted = followed(real)
            return ObjectiveBatch(batch, nothing, wanted.sum(), loss_mask=wanted)
        wanted = at_least_one(torch.rand(real.shape, generator=random), self.rate, real)
        return ObjectiveBatch(batch, nothing, wanted.sum(), masked=wanted, loss_mask=wanted)

    def loss(self, outputs: Tensor, targets: ObjectiveBatch, form: SequenceSpec) -> Tensor:
        """Return the sum of distances and, for ``sigreg``, as many times E as there are positions here."""
        prediction, target, projections = self._split(outputs)
        loss = (1 - F.cosine_similarity(prediction, target, dim=-1)).sum()
        if self.guard == "sigreg":
            loss = loss + self.weight * len(outputs) * sigreg(projections, targets.size)
        return loss

    def metric_sums(self, outputs: Tensor, targets: ObjectiveBatch, form: SequenceSpec) -> dict[str, Tensor]:
        """Return sums of distances, and of cosines of pairs of targets."""
        prediction, target, _ = self._split(outputs)
        assert targets.loss_mask is not None, "set in make_targets"
        partner, pairs = partners(targets.loss_mask)
        partner = to_device(partner, outputs.device)
        pairs = to_device(pairs, outputs.device)
        cosine = F.cosine_similarity(target, target[partner], dim=-1)
        return {
            "positions": torch.tensor(float(len(outputs))),
            "loss": (1 - F.cosine_similarity(prediction, target, dim=-1)).sum(),
            "pairs": pairs.sum(),
            "spread": ((1 - cosine) * pairs).sum(),
            "squared": (cosine.square() * pairs).sum(),
        }

    def scores(self, metric_sums: dict[str, float]) -> dict[str, float]:
        """Return score, loss, spread and rank; and ``collapsed``, which is 1 if all targets are alike."""
        pairs = max(metric_sums["pairs"], 1.0)
        loss = metric_sums["loss"] / max(metric_sums["positions"], 1.0)
        spread = metric_sums["spread"] / pairs
        return {
            "score": 1 - loss / max(spread, 1e-6),
            "loss": loss,
            "spread": spread,
            "rank": pairs / max(metric_sums["squared"], 1e-6),
            "collapsed": float(spread < COLLAPSED and metric_sums["pairs"] > 0),
        }

    def _split(self, outputs: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        slices = SLICES if self.guard == "sigreg" else 0
        width = (outputs.shape[1] - slices) // 2
        prediction, target, projections = outputs.split([width, width, slices], dim=1)
        return prediction, target, projections


class TargetHead(LatentHead):
    """A linear predictor, and the targets of its predictions."""

    def __init__(self, width: int, settings: Latent) -> None:
        super().__init__()
        self.linear = nn.Linear(width, width)
        self.settings = settings
        self.average: nn.Module | None = None  # slow average of the network without its head
        self.patterns: dict[str, int] = {}  # versions of the network's boolean buffers that it has copied

    def attach(self, network: nn.Module) -> None:
        """Copy the network, if its average is the target."""
        if self.settings.target == "average":
            average = copy.deepcopy(network)
            average.head = nn.Identity()
            self.average = average.requires_grad_(False).eval()

    @torch.no_grad()
    def follow(self, network: nn.Module) -> None:
        """Move the average towards the network."""
        if self.average is None:
            return
        average = self.average.state_dict()
        weights = network.state_dict()
        patterns = {name: weights[name]._version for name, x in average.items() if x.dtype == torch.bool}
        if patterns == self.patterns:  # a copy would change the version, and sparse attention plan anew
            average = {name: x for name, x in average.items() if name not in patterns}
        self.patterns = patterns
        move_average(average, weights, 1 - self.settings.decay)

    def train(self, mode: bool = True) -> "TargetHead":
        """Set the mode of the head; the average stays in evaluation mode, without dropout."""
        super().train(mode)
        if self.average is not None:
            self.average.eval()
        return self

    def forward(
        self,
        x: Vectors,
        padding_mask: PaddingMask = None,
        loss_mask: LossMask = None,
        network: nn.Module | None = None,
        inputs: Inputs | None = None,
    ) -> Float[Tensor, "outputs K"]:
        """Return prediction, target and, for ``sigreg``, projections of the target, side by side."""
        prediction = self.linear(at_rows(x, loss_mask))
        target = prediction
        if network is not None:
            found = self._targets(x, padding_mask, network, inputs)
            target = at_rows(found.roll(-1, 1) if self.settings.positions == "next" else found, loss_mask)
        if self.settings.guard == "stop-gradient":
            return torch.cat([prediction, target.detach()], dim=1)
        directions = torch.zeros(x.shape[-1], SLICES, device=x.device)
        if self.training:  # equal in all processes, as their random states are: ``sigreg`` adds them up
            directions = F.normalize(torch.randn_like(directions), dim=0)
        return torch.cat([prediction, target, target @ directions], dim=1)

    def _targets(
        self, x: Vectors, padding_mask: PaddingMask, network: nn.Module, inputs: Inputs | None
    ) -> Vectors:
        """Return the target of every position."""
        if self.average is not None:
            with torch.no_grad():
                return self.average.features(inputs, padding_mask)  # type: ignore[operator]
        if self.settings.target == "embedding":
            return network.embed.content(inputs)  # type: ignore[union-attr,operator]
        if self.settings.positions == "next":
            return x
        with torch.set_grad_enabled(torch.is_grad_enabled() and self.settings.guard == "sigreg"):
            return network.features(inputs, padding_mask)  # type: ignore[operator]


def sigreg(projections: Float[Tensor, "n S"], size: Tensor) -> Tensor:
    """Return E of the module docstring, of the ``size`` projections of all processes.

    Source: Balestriero & LeCun (2025), arXiv 2511.08544, whose statistic is E times their number.
    """
    s = torch.linspace(0, 3, KNOTS, device=projections.device)
    normal = torch.exp(-s.square() / 2)
    step = torch.full_like(s, 2 * 3 / (KNOTS - 1))  # trapezoids, on both sides of 0
    step[[0, -1]] /= 2
    angles = projections[..., None] * s
    parts = torch.stack([angles.cos().sum(0), angles.sin().sum(0)])
    cosine, sine = distributed.all_reduce_with_gradient(parts) / size.clamp(min=1)
    return (((cosine - normal).square() + sine.square()) * normal * step).sum(-1).mean()


def partners(wanted: Bool[Tensor, "B L"]) -> tuple[Int[Tensor, "n"], Bool[Tensor, "n"]]:
    """Pair each wanted position with the one half its sequence's wanted positions further on, cyclically.

    Returns:
        The number of its partner among all wanted positions, and whether that is another one.
    """
    count = wanted.sum(1)
    sequence = torch.arange(len(wanted), device=wanted.device).repeat_interleave(count)
    start = (count.cumsum(0) - count)[sequence]
    own = torch.arange(len(sequence), device=wanted.device)
    partner = start + (own - start + count[sequence] // 2) % count[sequence]
    return partner, partner != own


objective = Latent
