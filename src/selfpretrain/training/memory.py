"""Memory that a stage takes on a GPU, and ways to take less of it that change no number."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm

from ..errors import DoesNotFit
from .model import BatchNorm
from .recipe import Recipe, Stage
from .trace import network_on_meta, trace_step

GB = 1 << 30
"""Bytes of a gigabyte of a GPU's memory."""
CONTEXT = 0.9
"""Gigabytes of CUDA itself and of the workspaces of its libraries."""
FRAGMENTED = 1.08
"""Memory that PyTorch reserves as a multiple of what tensors take."""
MOST_PARTS = 64
"""Most micro-batches of a batch that are tried."""


@dataclass(frozen=True)
class Fit:
    """How a stage is run so that it fits: settings that save memory, and gigabytes, 0 if unknown."""

    activation_checkpointing: bool
    grad_accumulation: int
    gigabytes: float

    def applied_to(self, stage: Stage) -> Stage:
        """Return the stage as it is run; its name stays that of the stage as it was given."""
        return replace(
            stage,
            activation_checkpointing=self.activation_checkpointing,
            grad_accumulation=self.grad_accumulation,
        )


def saved_memory(stage: Stage, run: Stage) -> str:
    """Return how a stage as it is run saves memory, unlike as it was given, in words; "" if it does not."""
    found = []
    if run.activation_checkpointing and not stage.activation_checkpointing:
        found.append("recomputed activations")
    if run.grad_accumulation > stage.grad_accumulation:
        found.append(f"{run.grad_accumulation} micro-batches")
    return " and ".join(found)


def fit_stage(
    recipe: Recipe, gigabytes: float, length: int | None = None, padded: bool = False, processes: int = 1
) -> Fit:
    """Return the first way to run a recipe's last stage in so much memory: as it is, else what saves memory.

    Recomputed activations give the same bits. Micro-batches give the same sums of gradients up to rounding,
    as two runs on a GPU do; they are tried only where no example depends on others or on random numbers.

    Args:
        gigabytes: memory of the GPU.
        length: padded length of the longest batch; None: the maximum of the task.
        padded: whether sequences differ in length.
        processes: GPUs that share a batch.

    Raises:
        DoesNotFit: if no way takes so little; the message says how much it takes.

    A network that cannot be traced, since it needs numbers, is run as it is.
    """
    stage = replace(recipe.last, batch=max(1, recipe.last.batch // processes))
    tried: list[Fit] = []
    for again, parts in _ways(recipe, stage):
        try:
            fit = Fit(again, parts, _gigabytes(recipe, stage, again, parts, length, padded))
        except (RuntimeError, NotImplementedError, TypeError):
            return Fit(again, parts, 0.0)
        if fit.gigabytes <= gigabytes:
            return fit
        tried.append(fit)
    least = min(tried, key=lambda each: each.gigabytes)
    how = saved_memory(stage, least.applied_to(stage))
    saved = f", {least.gigabytes:.1f} GB with {how}" if how else ""
    raise DoesNotFit(
        f"{recipe.title}: a step takes {tried[0].gigabytes:.1f} GB{saved}, the GPU has {gigabytes:.1f} GB; "
        "use a larger GPU, several with torchrun, or a smaller batch"
    )


def _ways(recipe: Recipe, stage: Stage) -> Iterator[tuple[bool, int]]:
    """Yield whether to recompute activations, and the number of micro-batches, what is fastest first."""
    parts = stage.grad_accumulation
    yield stage.activation_checkpointing, parts
    if not stage.activation_checkpointing:
        yield True, parts
    if not stage.objective.whole_batch and splits_without_change(network_on_meta(recipe)):
        while parts <= MOST_PARTS and stage.batch % (2 * parts) == 0:
            parts *= 2
            yield True, parts


def splits_without_change(network: nn.Module) -> bool:
    """Return whether every example is computed alone: no normalisation over the batch, and no dropout."""
    return not any(
        isinstance(each, BatchNorm | _BatchNorm) or (isinstance(each, nn.Dropout) and each.p > 0)
        for each in network.modules()
    )


def _gigabytes(
    recipe: Recipe, stage: Stage, again: bool, parts: int, length: int | None, padded: bool
) -> float:
    """Return what a step takes, traced with at most two micro-batches: further ones take no more."""
    some = min(parts, 2)
    batch = stage.batch // parts * some
    traced = replace(stage, batch=batch, grad_accumulation=some, activation_checkpointing=again)
    peak = trace_step(replace(recipe, stages=(traced,)), length, padded).peak_bytes
    return FRAGMENTED * peak / GB + CONTEXT
