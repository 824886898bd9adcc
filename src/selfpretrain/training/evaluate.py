"""Evaluation on a split. The test split is used only here, once, after the last stage."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from ..data.dataset import SequenceDataset, generator, sent
from ..data.spec import SequenceSpec
from ..objectives.base import Objective
from ..system import distributed
from ..tasks.base import Task
from .build import training_data, usable
from .recipe import Precision, Recipe
from .step import add, precision_context

POSITIONS = 32_768
"""Positions per evaluation batch, unless the free memory of a GPU allows more."""
MOST = 512
ROOM = 0.5
"""Maximum examples per evaluation batch; share of a GPU's free memory to use where that allows more."""
FITTED = 2_000
"""Maximum number of training examples to score."""


@dataclass(frozen=True)
class Evaluation:
    """Scores and predictions on one split."""

    scores: dict[str, float]
    predictions: Tensor | None  # (n,) class or value, in the order of the split; None unless one per example
    targets: Tensor
    shares: Tensor | None = (
        None  # (n, 3) contribution of each example to the score, if it has several answers
    )
    clusters: Tensor | None = None  # (n,) examples with the same number are not independent
    confidence: Tensor | None = None  # (n,) predicted probability of each prediction, if the head gives one


@torch.no_grad()
def evaluate(
    network: nn.Module,
    objective: Objective,
    data: SequenceDataset,
    form: SequenceSpec,
    precision: Precision = "fp32",
) -> Evaluation:
    """Evaluate a network on all examples of a split; the masked positions are the same in every call.

    In distributed training each process evaluates its share of the batches, and all return the same result.
    """
    training = network.training
    device = next(network.parameters()).device
    network.eval()
    sums: dict[str, Tensor] = {}
    single = form.target.single
    predicted = torch.zeros(len(data), 2 if single else 3, dtype=torch.float64, device=device)
    size = max(1, min(MOST, POSITIONS // int(data.longest.max())))
    if device.type == "cuda" and not objective.hides and objective.labelled and len(data) > size:
        size = roomier(size, *_memory(network, data, size, device))
    for i, (rows, batch) in enumerate(data.batches(size)):
        if i % distributed.world_size() != distributed.rank():
            continue
        # Seeded by the batch, not by the stage: every validation of every run has the same masks.
        targets = objective.make_targets(batch.to(device), form, generator("evaluate", i))
        with precision_context(precision, device):
            outputs = network(*targets.question())
        add(sums, objective.metric_sums(outputs, targets, form))
        if objective.labelled:
            answers = _answered(objective, outputs) if single else objective.shares(outputs, targets)
            predicted[sent(rows, device)] = answers.double()
    network.train(training)
    scores = objective.scores(gathered(sums, device))
    if not objective.labelled:
        return Evaluation(scores, None, data.targets, None, data.clusters())
    found = distributed.all_reduce(predicted).cpu()
    if not single:
        return Evaluation(scores, None, data.targets, found, data.clusters())
    one, sure = found.unbind(1)
    confidence = sure if (sure >= 0).all() else None
    return Evaluation(scores, one, data.targets, None, data.clusters(), confidence)


def _answered(objective: Objective, outputs: Tensor) -> Tensor:
    """Return (examples, 2) predictions and their probabilities; -1 if the head gives none."""
    answers = objective.predict(outputs).double()
    sure = objective.confidence(outputs)
    return torch.stack([answers, torch.full_like(answers, -1) if sure is None else sure.double()], dim=1)


def roomier(size: int, taken: int, free: int) -> int:
    """Return the batch size that uses half of the free memory of a GPU.

    Only for objectives without masking: masks are drawn per batch, and must not depend on memory.

    Args:
        size: number of the longest examples that were tried.
        taken: memory that they took, in bytes.
        free: free memory, in bytes.
    """
    return size * max(1, round(free * ROOM) // max(taken, 1))


def _memory(network: nn.Module, data: SequenceDataset, size: int, device: torch.device) -> tuple[int, int]:
    """Return the memory that the ``size`` longest examples take on a GPU and its free memory, in bytes."""
    batch = data.batch(data.longest.argsort()[-size:]).to(device)
    torch.cuda.reset_peak_memory_stats(device)
    before = torch.cuda.memory_allocated(device)
    network(batch.inputs, batch.padding_mask)
    return torch.cuda.max_memory_allocated(device) - before, torch.cuda.mem_get_info(device)[0]


def validation_data(recipe: Recipe) -> SequenceDataset:
    """Return the validation split of a recipe's last stage."""
    return usable(recipe, recipe.task_of(recipe.last).load("val"))


def validate(network: nn.Module, recipe: Recipe) -> Evaluation:
    """Evaluate a recipe's last stage on the validation split."""
    return _scored(network, recipe, validation_data(recipe))


def test(network: nn.Module, recipe: Recipe) -> Evaluation:
    """Evaluate a recipe's last stage on the test split; do not select anything by these scores."""
    return _scored(network, recipe, usable(recipe, recipe.task_of(recipe.last).load("test")))


def held_out(task: Task) -> SequenceDataset:
    """Return the test split of a task, for predictions of a finished model."""
    return task.load("test")


def fitted(network: nn.Module, recipe: Recipe) -> Evaluation:
    """Evaluate a recipe's last stage on its training data, at most the first `FITTED` examples."""
    data = training_data(recipe)
    return _scored(network, recipe, data.take(torch.arange(min(FITTED, len(data)))))


def _scored(network: nn.Module, recipe: Recipe, data: SequenceDataset) -> Evaluation:
    stage = recipe.last
    return evaluate(network, stage.objective, data, recipe.task_of(stage).form, stage.precision)


def gathered(sums: dict[str, Tensor], device: torch.device) -> dict[str, float]:
    """Return metric sums added up over all processes."""
    # A process without a batch of its own has no names yet: it takes those of the first process.
    names = distributed.broadcast(sorted(sums))
    nothing = torch.zeros((), dtype=torch.float64)
    values = distributed.all_reduce(torch.stack([sums.get(n, nothing).to(device) for n in names]))
    return dict(zip(names, values.tolist(), strict=True))
