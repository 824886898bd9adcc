"""Recipes: task, model, training stages and seed, which alone determine the result of a run.

A stage starts from its training data and a freshly initialised network.
"""

import hashlib
import json
import re
from dataclasses import replace
from typing import Any, Literal

import torch
from torch.overrides import TorchFunctionMode

from ..config import CODE, Count, Natural, Positive, Rate, Share, added, is_ours, spec, to_dict
from ..data.agreement import check_examples, check_repeats
from ..data.dataset import SequenceDataset, generator
from ..data.spec import Split
from ..errors import DataError, SpecError
from ..objectives.base import Denoise, Objective
from ..registry import file_name_of, name_of
from ..tasks.base import Task
from . import code_hash
from .model import Model, Network
from .optim import Optim
from .transfer import EVERYTHING_BUT_THE_HEAD, Transfer

RESULTS = 3
"""Version of the numerics: increased when a recipe would give other numbers; old results are not reused."""


Precision = Literal["fp32", "tf32", "bf16"]
"""Precision of matrix products: fp32, TF32 (GPUs only) or bf16 autocast. Weights and kernels are fp32."""


@spec
class Budget:
    """The length of a stage in exactly one unit, and an optional time limit in hours."""

    steps: Count | None = None
    epochs: Positive | None = None
    flops: Positive | None = None  # of forward and backward passes, as counted by ``cost``
    seconds: Positive | None = None  # training time on this machine; not reproducible
    hours: Positive | None = None  # time limit: training ends here or at the unit above, whichever is first

    def __post_init__(self) -> None:
        if sum(value is not None for value in (self.steps, self.epochs, self.flops, self.seconds)) != 1:
            raise SpecError("a budget is given in exactly one of steps, epochs, flops and seconds")

    def in_steps(self, per_epoch: int, flops_per_step: float = 0.0) -> int | None:
        """Return the number of steps; None if the budget is in seconds.

        Args:
            per_epoch: steps of an epoch.
            flops_per_step: needed for a budget in FLOPs.

        Raises:
            SpecError: if it is less than one step, or in FLOPs without those of a step.
        """
        if self.seconds is not None:
            return None
        if self.flops and not flops_per_step:
            raise SpecError(f"{self} needs the FLOPs of a step; give steps or epochs")
        flops = self.flops / flops_per_step if self.flops else 0.0
        steps = self.steps or round((self.epochs or 0) * per_epoch + flops)
        if steps < 1:
            raise SpecError(
                f"{self} is less than one step (one epoch is {per_epoch} steps, "
                f"{flops_per_step:.3g} FLOPs each)"
            )
        return steps

    def as_steps(self, steps: int | None) -> "Budget":
        """Return the budget in steps, with the same time limit; itself if None."""
        return self if steps is None else Budget(steps=steps, hours=self.hours)


@spec
class Stage:
    """One training run: an objective on a task's training sequences, with a budget."""

    objective: Objective
    budget: Budget
    optim: Optim = Optim()
    batch: Count = 32
    fraction: Share = 1.0  # of the training examples; smaller fractions are subsets of larger ones
    source: Task | None = None  # task of the sequences; None: the recipe's
    transfer: Transfer = EVERYTHING_BUT_THE_HEAD  # weights to copy from the previous stage
    freeze: tuple[str, ...] = ()  # name patterns of frozen parameters
    evals: Count = 16  # number of validations, evenly spaced
    select: Literal["best", "last"] = "best"  # weights to keep: of the best validation score, or the last
    early_stopping_patience: Natural = 0  # validations without improvement; 0: never stop
    criterion: Literal["score", "accuracy", "r2"] = "score"  # metric that selects the best validation
    precision: Precision = "fp32"
    compile: bool = False  # compile blocks with torch.compile
    grad_accumulation: Count = 1  # micro-batches per batch, to save memory
    activation_checkpointing: bool = False  # recompute activations of blocks backward, to save memory
    average: Rate = added(0.0)  # decay per step of a mean of weights, which is evaluated and kept; 0: none


@spec
class Recipe:
    """A task, a model, its training stages in order, and a seed; results are those of the last stage."""

    task: Task
    model: Model
    stages: tuple[Stage, ...]
    seed: Natural = 0

    def __post_init__(self) -> None:
        if not self.stages:
            raise SpecError("a recipe has at least one stage")
        mixer = name_of(self.model.mixer)
        for stage in self.stages:
            kind = name_of(stage.objective)
            if isinstance(stage.objective, Denoise) and not self.model.mixer.denoises:
                raise SpecError(
                    f"{mixer} answers once per sequence, not at its positions: leave out the {kind} stage "
                    f"and train it from scratch"
                )
            at_positions = stage.objective.labelled and not stage.objective.pools
            if at_positions and not self.model.mixer.denoises:
                raise SpecError(f"{mixer} answers once per sequence, and {kind} asks at every position")
            if stage.compile and not self.model.mixer.compiles:
                raise SpecError(f"{mixer} gets wrong gradients when it is compiled: leave out compile")
            parts = stage.grad_accumulation
            if stage.batch % parts:
                raise SpecError(f"a batch of {stage.batch} is not a multiple of grad_accumulation={parts}")
            if parts > 1 and self.model.norm == "batch":
                raise SpecError("batch normalisation sees the whole batch: leave out grad_accumulation")
            if parts > 1 and stage.objective.whole_batch:
                raise SpecError(f"{kind} sees the whole batch: leave out grad_accumulation")
            if stage.objective.needs_causal and not self.model.causal:
                raise SpecError(f"{kind} needs Model(causal=True): a model that sees the future would cheat")

    def upto(self, i: int) -> "Recipe":
        """Return the recipe that ends with stage ``i``; recipes share the runs of equal prefixes.

        Recipes that differ in pooling alone share the stages before the first whose head pools.
        """
        part = replace(self, stages=self.stages[: i + 1])
        if part == self or any(stage.objective.pools for stage in part.stages):
            return part
        return replace(part, model=replace(self.model, pooling=Model.pooling))

    def with_last(self, stage: Stage) -> "Recipe":
        """Return the recipe with another last stage."""
        return replace(self, stages=(*self.stages[:-1], stage))

    def prefixes(self) -> list["Recipe"]:
        """Return one recipe per stage, each ending with that stage."""
        return [self.upto(i) for i in range(len(self.stages))]

    @property
    def last(self) -> Stage:
        """Last stage, whose results are reported."""
        return self.stages[-1]

    @property
    def title(self) -> str:
        """Readable name: task, mixer, objectives and seed."""
        stages = " > ".join(name_of(stage.objective) for stage in self.stages)
        return f"{name_of(self.task_of(self.last))}, {name_of(self.model.mixer)}, {stages}, seed {self.seed}"

    def task_of(self, stage: Stage) -> Task:
        """Return the task that a stage takes its sequences from."""
        return stage.source or self.task


def fingerprint(recipe: Recipe) -> str:
    """Return ten hex digits that change with anything that determines the result, see ``identity``."""
    return hashlib.sha256(json.dumps(identity(recipe), sort_keys=True).encode()).hexdigest()[:10]


def stage_id(recipe: Recipe) -> str:
    """Return the name of a recipe's last stage, and of its folder."""
    parts = (recipe.task_of(recipe.last), recipe.model.mixer, recipe.last.objective)
    return "-".join([*map(file_name_of, parts), fingerprint(recipe)])


def identity(recipe: Recipe) -> dict[str, Any]:
    """Return everything that determines the result of a recipe.

    That is: every field, the version of the data, the source of classes from outside this package and of the
    modules they import (libraries excepted), the checkpoint that a mixer starts from, and the version of this
    package's numerics.
    """
    plain = to_dict(recipe)
    checkpoint = recipe.model.mixer.version()
    return {
        "results": RESULTS,
        "recipe": plain,
        "data": [recipe.task.version(), *(recipe.task_of(s).version() for s in recipe.stages)],
        "source": digests_of(plain),
        **({"checkpoint": checkpoint} if checkpoint else {}),
    }


def digests_of(plain: Any) -> dict[str, str]:
    """Return the hashes of the sources of ``foreign_modules``; {} if all is of this package."""
    return {name: code_hash.digest(name) for name in foreign_modules(plain)}


def foreign_modules(plain: Any) -> list[str]:
    """Return the modules outside this package that a recipe names, and those that they import.

    Args:
        plain: a recipe, or parts of one, as plain values, see ``to_dict``.
    """
    found: list[dict[str, Any]] = []
    json.loads(json.dumps(plain), object_hook=found.append)  # all objects, inner ones first
    names = {str(each[key]).partition(":")[0] for each in found for key in CODE if key in each}
    return sorted({each for name in names if not is_ours(name) for each in code_hash.own_modules(name)})


def training_data(recipe: Recipe) -> SequenceDataset:
    """Return the training data of a recipe's last stage: labelled examples only, if it needs labels.

    Raises:
        SpecError: if no example is left.
    """
    stage = recipe.last
    data = load_split(recipe, "train")
    if stage.fraction < 1:
        order = torch.randperm(len(data), generator=generator(recipe.seed, "fraction"))
        data = data.take(order[: max(1, round(len(data) * stage.fraction))].sort().values)
    if not len(data):
        raise SpecError("no training examples are left; check labels and fraction")
    return data


def measured(recipe: Recipe, train: SequenceDataset) -> Recipe:
    """Return the recipe whose last objective holds its statistics of the training data, if it has any."""
    return recipe.with_last(replace(recipe.last, objective=recipe.last.objective.measured(train)))


def load_split(recipe: Recipe, split: Split) -> SequenceDataset:
    """Return a split for the last stage: labelled examples only and fixed-length padding, where needed.

    Raises:
        DataError: if a task from outside this package loads something else than it describes, or nothing
            is left to validate or test with.
    """
    task = recipe.task_of(recipe.last)
    data = task.load(split)
    labelled = recipe.last.objective.labelled
    if not is_ours(type(task).__module__):
        check_examples(name_of(task), split, task.form, data, labelled)
        key = (type(task), type(task).load, json.dumps(to_dict(task)), task.version())
        check_repeats(name_of(task), split, key, data)
    if labelled and not data.labelled.all():
        data = data.take(data.labelled.nonzero()[:, 0])
    if not len(data) and split != "train":
        raise DataError(f"{name_of(task)}, {split}: no example has a label")
    fixed = recipe.model.mixer.fixed_length
    return replace(data, padded=task.form.length) if fixed else data


def build_network(recipe: Recipe) -> Network:
    """Return the network of the last stage, initialised from the recipe's seed.

    Torch's global random state is not changed.
    """
    stage = recipe.last
    form = recipe.task_of(stage).form
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(generator(recipe.seed, "initialise").initial_seed())
        head = stage.objective.head(form, recipe.model.width, recipe.model.pooling)
        symbols = recipe.task_of(stage).symbols()
        return recipe.model.build(form, head, symbols, stage.objective.masks_inputs)


def build_on_meta(recipe: Recipe) -> Network:
    """Return the network of the last stage on ``meta``: no memory, no random draws.

    If that fails, since some initialisations compute with their weights, it is in main memory.
    """
    try:
        with torch.device("meta"), _Undrawn():
            return build_network(recipe)
    except Exception:
        return build_network(recipe)


class _Undrawn(TorchFunctionMode):
    """Skips initialisation on ``meta``, which fills nothing but takes most of the time."""

    DRAWS = frozenset(
        getattr(place, name)
        for place in (torch.Tensor, torch.nn.init)
        for name in dir(place)
        if re.fullmatch(r"(kaiming_|xavier_|trunc_)?(normal|uniform)_|(zeros?|ones|fill|constant)_", name)
    )

    def __torch_function__(
        self, function: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Return the tensor that a draw is to fill, and the result of any other function."""
        kwargs = kwargs or {}
        if function in self.DRAWS:
            drawn = args[0] if args else kwargs["tensor"]
            if drawn.is_meta:
                return drawn
        return function(*args, **kwargs)
