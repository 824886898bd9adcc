"""Scores on a split. The test split is touched here and nowhere else, once, after the last stage."""

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
"""Positions that are evaluated at once, where it is not for memory to say."""
MOST, ROOM = 512, 0.5
"""Examples at once, at most; share of the free memory of a GPU that may be taken instead."""
FITTED = 2_000
"""Training examples that are scored at most."""


@dataclass(frozen=True)
class Evaluation:
    """What came out on one split."""

    scores: dict[str, float]
    predictions: Tensor | None  # (n,) class or value, in the order of the split; None where it is not one
    targets: Tensor
    shares: Tensor | None = None  # (n, 3) what each example adds to the score; where it has several answers
    clusters: Tensor | None = None  # (n,) examples of one number are no independent evidence
    confidence: Tensor | None = None  # (n,) how probable the answers are said to be, where that is said


@torch.no_grad()
def evaluate(
    network: nn.Module,
    objective: Objective,
    data: SequenceDataset,
    form: SequenceSpec,
    precision: Precision = "fp32",
) -> Evaluation:
    """Scores over all examples of a split, none dropped; the same positions are hidden every time.

    With several processes each evaluates its share of the batches, and all get the sums.
    """
    training, device = network.training, next(network.parameters()).device
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
    """(examples, 2) answers, and how probable they are said to be; -1 where that is not said."""
    answers = objective.predict(outputs).double()
    sure = objective.confidence(outputs)
    return torch.stack([answers, torch.full_like(answers, -1) if sure is None else sure.double()], dim=1)


def roomier(size: int, taken: int, free: int) -> int:
    """Examples to evaluate at once, where so many of the longest take so much memory: half of what is free.

    Only where no position is hidden: which ones are is drawn batch by batch, and must not depend on memory.
    """
    return size * max(1, round(free * ROOM) // max(taken, 1))


def _memory(network: nn.Module, data: SequenceDataset, size: int, device: torch.device) -> tuple[int, int]:
    """Bytes that the longest examples take on a GPU, and those that are free."""
    batch = data.batch(data.longest.argsort()[-size:]).to(device)
    torch.cuda.reset_peak_memory_stats(device)
    before = torch.cuda.memory_allocated(device)
    network(batch.inputs, batch.padding_mask)
    return torch.cuda.max_memory_allocated(device) - before, torch.cuda.mem_get_info(device)[0]


def validation_data(recipe: Recipe) -> SequenceDataset:
    """What the last stage of a recipe is validated on."""
    return usable(recipe, recipe.task_of(recipe.last).load("val"))


def validate(network: nn.Module, recipe: Recipe) -> Evaluation:
    """Scores of a recipe's last stage on the validation split."""
    return _scored(network, recipe, validation_data(recipe))


def test(network: nn.Module, recipe: Recipe) -> Evaluation:
    """Scores of a recipe's last stage on the test split; nothing may be chosen by them."""
    return _scored(network, recipe, usable(recipe, recipe.task_of(recipe.last).load("test")))


def held_out(task: Task) -> SequenceDataset:
    """The test split of a task, for somebody who asks a finished model about it."""
    return task.load("test")


def fitted(network: nn.Module, recipe: Recipe) -> Evaluation:
    """Scores of a recipe's last stage on what it was trained on, or the first examples of it."""
    data = training_data(recipe)
    return _scored(network, recipe, data.take(torch.arange(min(FITTED, len(data)))))


def _scored(network: nn.Module, recipe: Recipe, data: SequenceDataset) -> Evaluation:
    stage = recipe.last
    return evaluate(network, stage.objective, data, recipe.task_of(stage).form, stage.precision)


def gathered(sums: dict[str, Tensor], device: torch.device) -> dict[str, float]:
    """Sums over all processes."""
    # A process without a batch of its own has no names yet: they are taken from the first process.
    names = distributed.broadcast(sorted(sums))
    nothing = torch.zeros((), dtype=torch.float64)
    values = distributed.all_reduce(torch.stack([sums.get(n, nothing).to(device) for n in names]))
    return dict(zip(names, values.tolist(), strict=True))
