"""A recipe says everything about a run before it starts, and nothing else decides its outcome."""

import dataclasses
import hashlib
import json
from typing import Annotated, Any, Literal

from pydantic import Field

from ..config import Count, Positive, Share, is_ours, spec, to_dict
from ..errors import SpecError
from ..objectives.base import Denoise, Objective
from ..registry import name_of
from ..tasks.base import Task
from . import code_hash
from .model import Model
from .optim import Optim
from .transfer import EVERYTHING_BUT_THE_HEAD, Transfer

RESULTS = 3
"""Goes up whenever the same recipe would give other numbers than before; old results are then not reused."""


Precision = Literal["fp32", "tf32", "bf16"]
"""Of products: single; single with shortened products (GPUs); bfloat16. Weights and kernels are single."""


@spec
class Budget:
    """How long a stage trains, in exactly one unit, and perhaps a limit in hours."""

    steps: Count | None = None
    epochs: Positive | None = None
    flops: Positive | None = None  # of forward and backward passes, as ``cost`` counts them
    seconds: Positive | None = None  # of training on the machine at hand; not reproducible
    hours: Positive | None = None  # of training at most: what comes first, these or the unit above, ends it

    def __post_init__(self) -> None:
        if sum(value is not None for value in (self.steps, self.epochs, self.flops, self.seconds)) != 1:
            raise SpecError("a budget is given in exactly one of steps, epochs, flops and seconds")


@spec
class Stage:
    """One training: an objective on a task's training sequences, within a budget."""

    objective: Objective
    budget: Budget
    optim: Optim = Optim()
    batch: Count = 32
    fraction: Share = 1.0  # of the training examples; smaller fractions are subsets of larger ones
    source: Task | None = None  # another task to take the sequences from
    transfer: Transfer = EVERYTHING_BUT_THE_HEAD  # what is taken over from the stage before
    freeze: tuple[str, ...] = ()  # name patterns of parameters that are not trained
    evals: Count = 16  # validations, evenly spaced
    select: Literal["best", "last"] = (
        "best"  # which weights the stage leaves: of the best validation score, or last
    )
    early_stopping_patience: Annotated[int, Field(ge=0)] = (
        0  # stop after so many validations without a better score; 0: never
    )
    criterion: Literal["score", "accuracy", "r2"] = "score"  # what tells the best validation
    precision: Precision = "fp32"
    compile: bool = False  # blocks, by torch.compile
    grad_accumulation: Count = 1  # parts of a batch that are taken one after the other, to save memory
    activation_checkpointing: bool = (
        False  # work activations of a block out again on the way back, to save memory
    )


@spec
class Recipe:
    """A network taken through stages, in order; the last one is what is reported."""

    task: Task
    model: Model
    stages: tuple[Stage, ...]
    seed: Annotated[int, Field(ge=0)] = 0

    def __post_init__(self) -> None:
        if not self.stages:
            raise SpecError("a recipe has at least one stage")
        for stage in self.stages:
            if isinstance(stage.objective, Denoise) and not self.model.mixer.denoises:
                raise SpecError(
                    f"{name_of(self.model.mixer)} answers once per sequence, not at its positions: leave out "
                    f"the {name_of(stage.objective)} stage and train it from scratch"
                )
            if stage.grad_accumulation > 1 and self.model.norm == "batch":
                raise SpecError("batch normalisation sees the whole batch: leave out accumulate")
            if stage.objective.needs_causal and not self.model.causal:
                kind = type(stage.objective).__name__
                raise SpecError(f"{kind} needs Model(causal=True): a model that sees the future would cheat")

    def upto(self, i: int) -> "Recipe":
        """The recipe that stops after stage ``i``; equal prefixes are run once."""
        return dataclasses.replace(self, stages=self.stages[: i + 1])

    def prefixes(self) -> list["Recipe"]:
        """One recipe per stage, each ending with it."""
        return [self.upto(i) for i in range(len(self.stages))]

    @property
    def last(self) -> Stage:
        """The stage that is reported."""
        return self.stages[-1]

    def task_of(self, stage: Stage) -> Task:
        """Where a stage's sequences come from."""
        return stage.source or self.task


def fingerprint(recipe: Recipe) -> str:
    """Ten hex digits that change when anything that decides the outcome changes."""
    return hashlib.sha256(json.dumps(identity(recipe), sort_keys=True).encode()).hexdigest()[:10]


def identity(recipe: Recipe) -> dict[str, Any]:
    """Everything that decides the outcome.

    That is: every field, the version of the data, the source of classes from outside this package and of what
    they import of their own, and the version of our own numerics.
    """
    return {
        "results": RESULTS,
        "recipe": to_dict(recipe),
        "data": [recipe.task.version(), *(recipe.task_of(s).version() for s in recipe.stages)],
        "source": {name: code_hash.digest(name) for name in foreign_modules(recipe)},
    }


def foreign_modules(recipe: Recipe) -> list[str]:
    """Modules of classes from outside this package, and what they import, see ``source.own_modules``."""
    found: list[dict[str, Any]] = []
    json.loads(json.dumps(to_dict(recipe)), object_hook=found.append)  # all objects, inner ones first
    names = {str(each.get("is", "")).partition(":")[0] for each in found} - {""}
    return sorted({each for name in names if not is_ours(name) for each in code_hash.own_modules(name)})
