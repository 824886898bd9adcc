"""Plans of studies in moments: costs go by parameters alone, and the papers' data are stubbed."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from torch import nn

from selfpretrain.training import cost
from selfpretrain.training.cost import Planner
from selfpretrain.training.recipe import Recipe

ROUGH = Planner(0)
"""Of tests in which it does not matter how long matched arms are."""
NETWORKS: dict[object, nn.Module] = {}


@contextmanager
def stubbed(data: Path) -> Iterator[Planner]:
    """Form and sizes of the papers' tasks, in an empty folder."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SELFPRETRAIN_DATA", str(data))
        yield Planner(0, stubs=True)


@contextmanager
def shared_networks() -> Iterator[None]:
    """Networks whose parameters are counted are built once for all arms and stages of the same sizes."""
    build = cost._network_without_weights

    def known(recipe: Recipe) -> nn.Module:
        key = cost._passes(recipe), recipe.task_of(recipe.last).form
        if key not in NETWORKS:
            NETWORKS[key] = build(recipe).to("meta")
        return NETWORKS[key]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cost, "_network_without_weights", known)
        yield
