"""Memory that a stage takes on a GPU, and ways to take less of it that change no number."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from ..errors import DoesNotFit
from .recipe import Recipe, Stage
from .trace import trace_step

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
    """How a stage is run so that it fits: settings that save memory, and gigabytes."""

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


def fit_stage(recipe: Recipe, gigabytes: float, length: int | None = None, padded: bool = False) -> Fit:
    """Return the first way to run a recipe's last stage in so much memory: as it is, else what saves memory.

    Args:
        gigabytes: memory of the GPU.
        length: padded length of the longest batch; None: the maximum of the task.
        padded: whether sequences differ in length.

    Raises:
        DoesNotFit: if no way takes so little; the message says how much it takes.
    """
    least = None
    for stage in _ways(recipe):
        trace = trace_step(replace(recipe, stages=(*recipe.stages[:-1], stage)), length, padded)
        needed = FRAGMENTED * trace.peak_bytes / GB + CONTEXT
        if needed <= gigabytes:
            return Fit(stage.activation_checkpointing, stage.grad_accumulation, needed)
        least = min(least or needed, needed)
    raise DoesNotFit(f"{recipe.title}: a step takes {least:.1f} GB, the GPU has {gigabytes:.1f} GB")


def _ways(recipe: Recipe) -> Iterator[Stage]:
    """Yield the stage as it is, and in ways that save memory, what is fastest first."""
    stage = recipe.last
    yield stage
    parts = stage.grad_accumulation
    if not stage.activation_checkpointing:
        yield replace(stage, activation_checkpointing=True)
    while recipe.model.norm != "batch" and parts <= MOST_PARTS and stage.batch % (2 * parts) == 0:
        parts *= 2
        yield replace(stage, activation_checkpointing=True, grad_accumulation=parts)
