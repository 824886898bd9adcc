"""Build the training data and the freshly initialised network of a stage."""

from dataclasses import replace

import torch

from ..data.dataset import SequenceDataset, generator
from ..data.spec import SequenceSpec
from ..errors import SpecError
from .model import Network
from .recipe import Recipe


def training_data(recipe: Recipe) -> SequenceDataset:
    """Return the training data of a recipe's last stage: labelled examples only, if it needs labels.

    Raises:
        SpecError: if no example is left.
    """
    stage = recipe.last
    data = prepare_split(recipe, recipe.task_of(stage).load("train"))
    if stage.fraction < 1:
        order = torch.randperm(len(data), generator=generator(recipe.seed, "fraction"))
        data = data.take(order[: max(1, round(len(data) * stage.fraction))].sort().values)
    if not len(data):
        raise SpecError("no training examples are left; check labels and fraction")
    return data


def prepare_split(recipe: Recipe, data: SequenceDataset) -> SequenceDataset:
    """Return a split for the last stage: labelled examples only and fixed-length padding, where needed."""
    if recipe.last.objective.labelled:
        data = data.take(data.labelled.nonzero()[:, 0])
    fixed = recipe.model.mixer.fixed_length
    return replace(data, padded=recipe.task_of(recipe.last).form.length) if fixed else data


def build_network(recipe: Recipe, form: SequenceSpec | None = None) -> Network:
    """Return the network of the last stage, initialised from the recipe's seed.

    Torch's global random state is not changed.

    Args:
        form: sequence spec that replaces the task's.
    """
    stage = recipe.last
    form = form or recipe.task_of(recipe.last).form
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(generator(recipe.seed, "initialise").initial_seed())
        head = stage.objective.head(form, recipe.model.width, recipe.model.pooling)
        return recipe.model.build(form, head, recipe.task_of(stage).symbols())
