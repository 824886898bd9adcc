"""Evaluation: metrics of a network on a split.

Networks see the test split through this alone: once after the last stage, or as new data of a finished model.
"""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from ..data.dataset import SequenceDataset, generator, to_device
from ..data.spec import SequenceSpec
from ..objectives.base import Objective, scores_of
from ..system import distributed
from ..system.hardware import free_gpu_memory
from ..tasks.base import Task
from .recipe import Precision, Recipe, load_split
from .step import accumulate_sums, precision_context

POSITIONS = 32_768
"""Maximum positions per evaluation batch, unless the free memory of a GPU allows more."""
MAX_EXAMPLES = 512
"""Maximum examples per evaluation batch, unless the free memory of a GPU allows more."""
MEMORY_SHARE = 0.5
"""Share of a GPU's free memory to use where that allows larger batches."""
MAX_LARGER = 16_384
"""Maximum examples per larger batch: grids of CUDA's kernels have at most 65,535 rows."""
MAX_MEMORY = 4 << 31
"""Maximum bytes that a larger batch takes, so that no tensor in it has 2^31 numbers of four bytes."""
MAX_TRAINING_EXAMPLES = 2_000
"""Maximum number of training examples to score."""


@dataclass(frozen=True)
class Evaluation:
    """Scores and predictions on one split."""

    scores: dict[str, float]
    predictions: Tensor | None  # (n,) class or value, in the order of the split; None unless one per example
    targets: Tensor  # (n,) classes or values
    shares: Tensor | None = None  # (n, 3) see ``Objective.shares``; None: at most one answer per example
    clusters: Tensor | None = None  # (n,) examples with the same number are not independent
    confidence: Tensor | None = None  # (n,) predicted probability of each prediction, if the head gives one

    def arrays(self) -> dict[str, Tensor]:
        """Return the arrays to save beside the result; empty if nothing is predicted."""
        found: dict[str, Tensor] = {}
        if self.predictions is not None:
            found = {"prediction": self.predictions.to(self.targets.dtype), "target": self.targets}
            if self.confidence is not None:  # 8 bits are enough for a reliability curve
                found["confidence"] = (255 * self.confidence).round().to(torch.uint8)
        elif self.shares is not None:
            columns = (column.contiguous() for column in self.shares.long().unbind(1))
            found = dict(zip(("prediction", "asked", "target"), columns, strict=True))
        if found and self.clusters is not None:
            found["cluster"] = self.clusters
        return found


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
    predictions = torch.zeros(len(data), 2 if single else 3, dtype=torch.float64, device=device)
    # Processes take batches in turn, so all must cut the split into the same ones, whatever memory each has.
    size = distributed.smallest(_batch_size(network, objective, data, precision))
    for i, (rows, batch) in enumerate(data.batches(size)):
        if i % distributed.world_size() != distributed.rank():
            continue
        # Seeded by the batch, not by the stage: every validation of every run has the same masks.
        targets = objective.make_targets(batch.to(device), form, generator("evaluate", i))
        with precision_context(precision, device):
            outputs = network(*targets.network_inputs())
        accumulate_sums(sums, objective.metric_sums(outputs, targets, form))
        if objective.labelled:
            batch_predictions = _predict(objective, outputs) if single else objective.shares(outputs, targets)
            predictions[to_device(rows, device)] = batch_predictions.double()
    network.train(training)
    if device.type == "cuda":
        torch.cuda.empty_cache()  # other stages may share the GPU, and training needs less
    scores = scores_of(objective, reduce_sums(sums, device))
    if not objective.labelled:
        return Evaluation(scores, None, data.targets, None, data.clusters())
    summed = distributed.all_reduce(predictions).cpu()
    if not single:
        return Evaluation(scores, None, data.targets, summed, data.clusters())
    y_pred, probabilities = summed.unbind(1)
    confidence = probabilities if (probabilities >= 0).all() else None
    return Evaluation(scores, y_pred, data.targets, None, data.clusters(), confidence)


def _predict(objective: Objective, outputs: Tensor) -> Tensor:
    """Return (examples, 2) predictions and their probabilities; -1 if the head gives none."""
    predictions = objective.predict(outputs).double()
    probabilities = objective.confidence(outputs)
    return torch.stack(
        [predictions, torch.full_like(predictions, -1) if probabilities is None else probabilities.double()],
        dim=1,
    )


def _batch_size(network: nn.Module, objective: Objective, data: SequenceDataset, precision: Precision) -> int:
    """Return the number of examples per batch that suits the device of this process."""
    device = next(network.parameters()).device
    size = max(1, min(MAX_EXAMPLES, POSITIONS // int(data.longest.max())))
    if device.type != "cuda" or objective.masks_inputs or not objective.labelled or len(data) <= size:
        return size
    batch = data.batch(data.longest.argsort()[-size:]).to(device)
    torch.cuda.reset_peak_memory_stats(device)
    before = torch.cuda.memory_allocated(device)
    with precision_context(precision, device):
        network(batch.inputs, batch.padding_mask)
    used = torch.cuda.max_memory_allocated(device) - before
    return larger_batch_size(size, used, free_gpu_memory(device))


def larger_batch_size(size: int, used: int, free: int) -> int:
    """Return the batch size that uses half of the free memory of a GPU, within the limits of CUDA's kernels.

    It is a power of two, as FlexAttention and compiled blocks are compiled once for every size. Only for
    objectives without masking: masks are drawn per batch, and must not depend on memory.

    Args:
        size: number of the longest examples that were tried.
        used: memory that they took, in bytes.
        free: free memory, in bytes.
    """
    memory = min(round(free * MEMORY_SHARE), MAX_MEMORY)
    fits = size * max(1, memory // max(used, 1))
    return min(MAX_LARGER, 1 << fits.bit_length() - 1)


def validation_data(recipe: Recipe) -> SequenceDataset:
    """Return the validation split of a recipe's last stage."""
    return load_split(recipe, "val")


def test(network: nn.Module, recipe: Recipe) -> Evaluation:
    """Evaluate a recipe's last stage on the test split; do not select anything by these scores."""
    return _evaluate_split(network, recipe, load_split(recipe, "test"))


def load_test(task: Task) -> SequenceDataset:
    """Return the test split of a task, for predictions of a finished model."""
    return task.load("test")


def score_training_data(network: nn.Module, recipe: Recipe, data: SequenceDataset) -> Evaluation:
    """Evaluate a recipe's last stage on its first training examples, at most `MAX_TRAINING_EXAMPLES`."""
    return _evaluate_split(network, recipe, data.take(torch.arange(min(MAX_TRAINING_EXAMPLES, len(data)))))


def _evaluate_split(network: nn.Module, recipe: Recipe, data: SequenceDataset) -> Evaluation:
    stage = recipe.last
    return evaluate(network, stage.objective, data, recipe.task_of(stage).form, stage.precision)


def reduce_sums(sums: dict[str, Tensor], device: torch.device) -> dict[str, float]:
    """Return metric sums added up over all processes."""
    # A process without a batch of its own has no sums and so no names: it takes those of the first process.
    names = distributed.broadcast(sorted(sums))
    nothing = torch.zeros((), dtype=torch.float64)
    values = distributed.all_reduce(torch.stack([sums.get(n, nothing).to(device) for n in names]))
    return dict(zip(names, values.tolist(), strict=True))
