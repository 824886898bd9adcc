"""Memory that a stage takes on a GPU, and ways to take less of it that change no number."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from ..config import to_dict
from ..errors import DoesNotFit
from ..registry import ships
from .recipe import Recipe, Stage, foreign_modules
from .trace import StepTrace, trace_step

GB = 1 << 30
"""Bytes of a gigabyte of a GPU's memory."""
CONTEXT = 0.9
"""Gigabytes of CUDA itself and of the workspaces of its libraries."""
FRAGMENTED = 1.08
"""Memory that PyTorch reserves as a multiple of what tensors take."""
MOST_PARTS = 64
"""Most micro-batches of a batch that are tried."""
LESS_MEMORY = (
    "recompute activations (-s stage.activation_checkpointing=true), lower stage.batch, "
    "or use a GPU with more memory"
)
"""What to do about a stage that needs more memory than there is."""
Trace = Callable[[Recipe, int, bool], StepTrace]
"""How to trace a step of a recipe, given the padded length, and whether sequences differ in length."""


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
    recipe: Recipe,
    gigabytes: float,
    length: int | None = None,
    padded: bool = False,
    processes: int = 1,
    trace: Trace = trace_step,
) -> Fit:
    """Return the first way to run a recipe's last stage in so much memory: as it is, else what saves memory.

    Recomputed activations give the same bits. Micro-batches give the same sums of gradients up to rounding,
    as two runs on a GPU do; they are tried only where no example depends on others or on random numbers.
    Tests show both for the mixers and objectives that this package ships. Nobody has for those of others,
    which may draw random numbers or keep a state where it cannot be seen: they are run as they are.

    Args:
        gigabytes: memory of the GPU.
        length: padded length of the longest batch; None: the maximum of the task.
        padded: whether sequences differ in length.
        processes: GPUs that share a batch.
        trace: traces the step; a forecast may know traces that ship.

    Raises:
        DoesNotFit: if no way takes so little; the message says how much it takes.
        Untraceable: if the network cannot be traced.
    """
    length = length or recipe.task_of(recipe.last).form.length
    stage = replace(recipe.last, batch=max(1, recipe.last.batch // processes))
    tried: list[Fit] = []
    for again, parts in _ways(recipe, stage, length, padded, trace):
        fit = Fit(again, parts, _gigabytes(recipe, stage, again, parts, length, padded, trace))
        if fit.gigabytes <= gigabytes:
            return fit
        tried.append(fit)
    least = min(tried, key=lambda each: each.gigabytes)
    how = saved_memory(stage, least.applied_to(stage))
    saved = f", {least.gigabytes:.1f} GB with {how}" if how else ""
    recomputes = tried[-1].activation_checkpointing
    advice = "use a larger GPU, several with torchrun, or a smaller batch" if recomputes else LESS_MEMORY
    raise DoesNotFit(
        f"{recipe.title}: a step takes {tried[0].gigabytes:.1f} GB{saved}, the GPU has {gigabytes:.1f} GB; "
        + advice
    )


def _ways(
    recipe: Recipe, stage: Stage, length: int, padded: bool, trace: Trace
) -> Iterator[tuple[bool, int]]:
    """Yield whether to recompute activations, and the number of micro-batches, what is fastest first."""
    parts = stage.grad_accumulation
    yield stage.activation_checkpointing, parts
    if not is_shipped(recipe):
        return
    if not stage.activation_checkpointing:
        yield True, parts
    as_given = _as_run(recipe, stage, stage.activation_checkpointing, parts)
    if not stage.objective.whole_batch and trace(as_given, length, padded).independent:
        while 2 * parts <= MOST_PARTS and stage.batch % (2 * parts) == 0:
            parts *= 2
            yield True, parts


def is_shipped(recipe: Recipe) -> bool:
    """Return whether all code of a recipe's network and last objective is of this package, and tested."""
    objective = to_dict(recipe.last.objective)
    objective.pop("augmentation", None)  # changes data alone, before a batch is split
    code = {"model": to_dict(recipe.model), "objective": objective}
    return ships("mixers", recipe.model.mixer) and not foreign_modules(code)


def _gigabytes(
    recipe: Recipe, stage: Stage, again: bool, parts: int, length: int, padded: bool, trace: Trace
) -> float:
    """Return the gigabytes that a step takes."""
    return reserved(trace(_as_run(recipe, stage, again, parts), length, padded).peak_bytes)


def _as_run(recipe: Recipe, stage: Stage, again: bool, parts: int) -> Recipe:
    """Return a recipe to trace with at most two micro-batches: further ones take no more."""
    some = min(parts, 2)
    batch = stage.batch // parts * some
    traced = replace(stage, batch=batch, grad_accumulation=some, activation_checkpointing=again)
    return replace(recipe, stages=(traced,))


def reserved(peak_bytes: int) -> float:
    """Return the gigabytes that a step with this peak of tensors takes on a GPU."""
    return FRAGMENTED * peak_bytes / GB + CONTEXT
