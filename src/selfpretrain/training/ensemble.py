"""An ensemble as one model: several networks that differ in their initial weights, trained side by side."""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from ..config import Count, spec
from ..data.spec import SequenceSpec
from ..shapes import Inputs, LossMask, PaddingMask, PositionMask
from .model import Model, Network


@spec
class EnsembleModel(Model):
    """Hyperparameters of equal networks; its objective must be ``Averaged`` with as many members."""

    members: Count = 2

    def build(
        self, form: SequenceSpec, head: nn.Module, symbols: tuple[str, ...] | None = None
    ) -> "EnsembleNetwork":
        """Return the networks, initialised one after the other from torch's global random state.

        Args:
            head: a list of one head per network.
        """
        assert isinstance(head, nn.ModuleList), "an ensemble is trained by Averaged"
        heads = list(head)
        assert len(heads) == self.members, "the objective has as many members"
        build = super().build
        return EnsembleNetwork([build(form, each, symbols) for each in heads])


class EnsembleNetwork(Network):
    """Several networks that see the same batches."""

    def __init__(self, networks: list[Network]) -> None:
        nn.Module.__init__(self)  # that of Network would build one
        self.members = nn.ModuleList(networks)

    def forward(
        self,
        inputs: Inputs,
        padding_mask: PaddingMask = None,
        masked: PositionMask = None,
        loss_mask: LossMask = None,
    ) -> Float[Tensor, "members outputs K"]:
        """Return the outputs of every network."""
        return torch.stack([each(inputs, padding_mask, masked, loss_mask) for each in self.members])

    def networks(self) -> list[Network]:
        """Return the networks one by one."""
        return [each for each in self.members if isinstance(each, Network)]
