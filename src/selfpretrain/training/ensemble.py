"""An ensemble as one model: several networks that differ in their initial weights, trained side by side."""

from dataclasses import fields, replace
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from ..config import Count, spec
from ..data.spec import SequenceSpec
from ..objectives.common.averaged import Averaged
from ..shapes import Inputs, LossMask, PaddingMask, PositionMask
from .model import Model, Network
from .recipe import Recipe


@spec
class EnsembleModel(Model):
    """Hyperparameters of equal networks; its objective must be ``Averaged`` with as many members."""

    members: Count = 2

    def build(
        self,
        form: SequenceSpec,
        head: nn.Module,
        symbols: tuple[str, ...] | None = None,
        masks_inputs: bool = False,
    ) -> "EnsembleNetwork":
        """Return the networks, initialised one after the other from torch's global random state.

        Args:
            head: a list of one head per network.
        """
        assert isinstance(head, nn.ModuleList), "an ensemble is trained by Averaged"
        heads = list(head)
        assert len(heads) == self.members, "the objective has as many members"
        build = super().build
        return EnsembleNetwork([build(form, each, symbols, masks_inputs) for each in heads])


def single_network(recipe: Recipe) -> tuple[Recipe, list[str]]:
    """Return the recipe of one network, and the prefixes of the weights of all networks of a recipe."""
    model = recipe.model
    objective = recipe.last.objective
    if not isinstance(model, EnsembleModel) or not isinstance(objective, Averaged):
        return recipe, [""]
    settings: dict[str, Any] = {field.name: getattr(model, field.name) for field in fields(Model)}
    last = replace(recipe.last, objective=objective.objective)
    alone = replace(recipe, model=Model(**settings), stages=(*recipe.stages[:-1], last))
    return alone, [f"members.{i}." for i in range(model.members)]


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
