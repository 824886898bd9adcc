"""Cost of a stage: parameters, FLOPs per training step, and from them the number of steps of a budget.

A multiply-add counts as two FLOPs, causal attention is not halved, and an FFT of N complex points counts
5 N log2 N (half for real ones). Softmax, norms and AdamW are left out; the matrix products of Muon count.
Gradients count for all weights, unless the head alone is trained. Torch's own counter misses attention on
CPUs, LSTMs and FFTs, and counts the gradient of a depthwise kernel as that of a full one, hence the formulas
in ``flops``.
"""

import bisect
import contextlib
import functools
import hashlib
import json
import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from torch import nn

from ..config import is_ours, to_dict
from ..data.dataloader import BatchSampler
from ..data.dataset import SequenceDataset, generator
from ..errors import DoesNotFit, SelfPretrainError, StageFailed, first_line
from ..objectives.base import ObjectiveBatch, check_drawn, check_hidden, check_targets, loss_of
from ..registry import name_of
from ..system.distributed import alone
from ..system.time_limit import TimeIsUp, check_time, seconds_left
from ..tasks.base import Task
from .flops import count_flops, count_step
from .memory import LESS_MEMORY
from .model import Model, Network, count_parameters, real_size
from .optim import Optim
from .recipe import (
    Budget,
    Recipe,
    build_network,
    build_on_meta,
    digests_of,
    fingerprint,
    training_data,
)
from .step import precision_context
from .trace import shipped_sizes
from .train import seconds_on_gpu
from .transfer import freeze

TOLERANCE = 0.005
"""Relative tolerance of the linear interpolation of FLOPs between two lengths."""
MIN_DEPTH = 2
MAX_DEPTH = 7
"""Range of bisections of the lengths: FLOPs of unequal batches are counted at 9 to 129 lengths, or at all."""
SAMPLED = 16
"""Number of batches that are drawn at a time to estimate the mean number of predicted positions."""
ROUNDS = 500
"""Maximum number of draws."""
ERROR = 0.003
"""Relative standard error of the FLOPs of a step at which enough are drawn."""
MANY_BATCHES = 100
"""Number of batches per epoch from which one epoch stands for all."""
BATCHES = 4000
"""Number of batches that stand for all where an epoch has fewer than ``MANY_BATCHES``."""
SHIPPED_COUNTS = Path(__file__).with_name("shipped_counts.tsv")
"""FLOPs per step of stages of results that ship, see ``_of_shipped_results``."""
BACKWARD = 2.0
"""Duration of a backward pass, in forward passes."""
ENOUGH = 1.0
"""Seconds of passes after which no further one is measured."""


@dataclass(frozen=True)
class Cost:
    """The cost of a stage and the length of its budget in steps."""

    steps: int | None  # None: the budget is in seconds
    flops_per_step: float
    per_epoch: int  # steps
    padding: float  # share of positions
    parameters: int

    @property
    def flops(self) -> float:
        """FLOPs of the whole stage; 0 if the budget is in seconds."""
        return self.flops_per_step * (self.steps or 0)


class Planner:
    """Counts the costs of stages, each distinct step once.

    Args:
        rough_above: length above which no pass is run, for forecasts: a step takes 6 FLOPs per parameter and
            position, without attention scores, and the steps of a budget in FLOPs are estimates, too.
            None: everything is counted.
        stubs: plan tasks whose data are not prepared by a stub, so that nothing is prepared.
    """

    def __init__(self, rough_above: int | None = None, stubs: bool = False) -> None:
        self.rough_above = math.inf if rough_above is None else rough_above
        self.stubs = stubs
        self.exact = True  # whether stages can be run as they were planned
        self._steps: dict[str, Cost] = {}  # costs of one step by all that they depend on

    def task(self, task: Task) -> Task:
        """Return the task to plan with.

        Raises:
            DataError: if its data are not prepared, and there is no stub of them.
        """
        planned = task.stubbed() if self.stubs else task
        self.exact = self.exact and not planned.stub
        return planned

    def plan(self, recipe: Recipe) -> Cost:
        """Return the cost of a recipe's last stage without running it.

        Raises:
            SpecError: if the budget is less than one step.
            StageFailed: if the network cannot be built, or its passes fail.
        """
        alone = _one_step(recipe)
        key = _key(alone)
        if key not in self._steps:
            self._steps[key] = COUNTED._steps.get(key) or self._count_step(alone)
        step = self._steps[key]
        return replace(step, steps=recipe.last.budget.in_steps(step.per_epoch, step.flops_per_step))

    def total(self, recipe: Recipe) -> float:
        """Return the FLOPs of all stages of a recipe."""
        return sum(self.plan(prefix).flops for prefix in recipe.prefixes())

    @property
    def note(self) -> str:
        """Return how FLOPs are estimated, for a forecast; "" if they are counted."""
        if self.exact:
            return ""
        return (
            ", at 6 per parameter and position; data that are not prepared are taken to be as in the papers"
        )

    def _count_step(self, recipe: Recipe) -> Cost:
        """Return the cost of one step of a recipe's last stage."""
        data = training_data(recipe)
        order = BatchSampler(data.longest, recipe.last.batch, recipe.seed)
        with as_stage_failure(recipe):
            if not is_ours(type(recipe.last.objective).__module__):
                targets, again = (_targets(recipe, data, order.rows(0)) for _ in range(2))
                check_targets(recipe.last.objective, targets)
                check_drawn(recipe.last.objective, targets, again)
                check_hidden(recipe.last.objective, targets, recipe.task_of(recipe.last).form)
            if int(data.longest.max()) > self.rough_above:
                self.exact = False
                parameters = _parameters(recipe)
                positions = order.size * data.views * float(order.padded_lengths().double().mean())
                per_step = 6.0 * positions * parameters
            else:
                network = _network(recipe)
                parameters = count_parameters(network)
                per_step = _of_shipped_results().get(_key(replace(recipe, seed=0)), 0.0)
                per_step = per_step or _flops_per_step(recipe, network, data, order)
                per_step += recipe.last.optim.flops(network, recipe.model.mixer.slow())
        padding = order.padding_share(data.lengths.double().mean(0))
        return Cost(1, per_step, order.per_epoch, padding, parameters)


def _one_step(recipe: Recipe) -> Recipe:
    """Return a recipe of one step of the last stage, whatever its budget and the stages before."""
    optim = Optim(optimizer=recipe.last.optim.optimizer)
    step = replace(recipe.last, budget=Budget(steps=1), optim=optim, evals=1, average=0.0)
    return replace(recipe, stages=(step,))


COUNTED = Planner()
"""The exact planner, whose plans all others share."""


def plan(recipe: Recipe) -> Cost:
    """Return the exact cost of a recipe's last stage, see ``Planner.plan``."""
    return COUNTED.plan(recipe)


@functools.cache
def _of_shipped_results() -> dict[str, float]:
    """Return the FLOPs per step with which results that ship were measured, by the key of the step.

    At that time masks of one and of two rows were counted in place of the mean mask. These counts are kept,
    so that recipes stay the same: steps are up to 2.2 % off, arms less than 1 %
    (tests/studies/test_golden.py). How little exact counts change is in docs/log.md (26 November 2026). Lines
    go when results are measured again; none is added.
    """
    _, *lines = SHIPPED_COUNTS.read_text(encoding="utf-8").splitlines()
    return {key: float(flops) for key, flops, *_ in map(str.split, lines)}


def _key(step: Recipe) -> str:
    """Return a hash of what the cost of one step depends on; specs of other packages need not be hashable."""
    plain = to_dict(step)
    content = json.dumps([plain, step.task_of(step.last).version(), *digests_of(plain).items()])
    return hashlib.sha256(content.encode()).hexdigest()[:10]


@contextlib.contextmanager
def as_stage_failure(recipe: Recipe) -> Iterator[None]:
    """Convert any unexpected exception of a network into a one-line StageFailed."""
    name = f"a network with {name_of(recipe.model.mixer)}"
    if not is_ours(type(recipe.last.objective).__module__):
        name += f" and the objective {name_of(recipe.last.objective)}"
    try:
        yield
    except SelfPretrainError:
        raise
    except torch.OutOfMemoryError as error:
        raise DoesNotFit(f"{name}: the GPU ran out of memory; {LESS_MEMORY}") from error
    except Exception as error:
        raise StageFailed(f"{name} fails: {first_line(error)} (SELFPRETRAIN_DEBUG=1 shows where)") from error


def seconds_per_step(recipe: Recipe, device: str = "cpu") -> float:
    """Return the seconds of a step of a stage on a device, measured once: on a CPU, those of its passes.

    Within ``time_limit.until`` it ends on a CPU at the limit, and what it returns is a lower bound.

    Raises:
        StageFailed: if the network cannot be built, or its passes fail.
        DoesNotFit: if a step needs more memory than the GPU has.
    """
    alone = _one_step(recipe)
    key = fingerprint(alone) + device
    if torch.device(device).type == "cuda" and key not in _measured:
        with as_stage_failure(recipe):
            _measured[key] = seconds_on_gpu(alone, device), True
        torch.cuda.empty_cache()  # for the processes that will train there
    if key in _measured:
        seconds, whole = _measured[key]
        if whole or seconds_left() <= seconds:
            return seconds
    _measured[key] = _measure_step(alone)
    return _measured[key][0]


_measured: dict[str, tuple[float, bool]] = {}
"""Seconds of a step by its recipe and device, and whether all of it was measured."""


def seconds_to_count(recipe: Recipe) -> float:
    """Return about how long it takes to plan a stage: passes over three rows of every length it counts."""
    order = BatchSampler(training_data(recipe).longest, recipe.last.batch, recipe.seed)
    lengths = min(len(order.padded_lengths().unique()), 2**MAX_DEPTH + 1)
    return 3 * lengths * seconds_per_step(recipe) / recipe.last.batch


def _measure_step(recipe: Recipe) -> tuple[float, bool]:
    """Return the seconds of a step, and True; or what it takes at least, and False if the time is up."""
    stage = recipe.last
    data = training_data(recipe)
    order = BatchSampler(data.longest, stage.batch, recipe.seed)
    took: list[float] = []
    hook = nn.modules.module.register_module_forward_hook(lambda *call: check_time())
    precision = precision_context(stage.precision, torch.device("cpu"))
    with as_stage_failure(recipe), alone(), hook, precision:  # the time limit is checked after every module
        network = _network(recipe)
        for member in network.networks():
            member.recompute_activations(stage.activation_checkpointing)
        while len(took) < 2 or (len(took) < 3 and sum(took[1:]) < ENOUGH):
            if took and took[0] > seconds_left():
                return took[0], False
            start = time.perf_counter()
            try:
                targets = _targets(recipe, data, order.rows(len(took)))
                outputs = network(*targets.network_inputs())
                forward = time.perf_counter() - start
                if BACKWARD * forward > seconds_left():
                    return (1 + BACKWARD) * forward, False
                loss_of(stage.objective, outputs, targets, recipe.task_of(stage).form).backward()
            except TimeIsUp:
                return time.perf_counter() - start, False
            took.append(time.perf_counter() - start)
    return sum(took[1:]) / len(took[1:]), True  # the first pass warms up


def fitting(size: Callable[[int], float], goal: float, step: int) -> int:
    """Return the multiple of ``step`` at which an increasing function comes nearest to a goal."""
    above = 1
    while size(above * step) < goal:
        above *= 2
    first = bisect.bisect_left(range(above), goal, lo=max(1, above // 2), key=lambda n: size(n * step))
    return step * min((n for n in (first - 1, first) if n), key=lambda n: abs(size(n * step) - goal))


def _flops_per_step(recipe: Recipe, network: Network, data: SequenceDataset, order: BatchSampler) -> float:
    """Return the mean FLOPs of a training step over its batches.

    They are counted for one and for two examples of a length, and extrapolated linearly to the batch size
    (kernels of state space models do not grow with it). FLOPs of the head at predicted positions are counted
    separately, by their mean number in real batches: the mask of these examples is one of many.
    """
    padded = order.padded_lengths(_epochs(data, order)).numpy()
    each = 0.0
    if _targets(recipe, data, order.rows(0)[:1]).loss_mask is not None:
        heads = [member.get_submodule("head") for member in network.networks()]
        each = sum(_per_answer(head, data.views, recipe.model.width) for head in heads)

    def without_answers(length: int) -> float:
        nearest = (data.longest - length).abs().argmin()
        batches = [_targets(recipe, data, nearest.repeat(times)) for times in (1, 2)]
        one, two = (_count(recipe, network, batch) - each * _answers(batch) for batch in batches)
        return one + (two - one) * (order.size - 1)

    bare = mean_over(padded, without_answers)
    return bare + each * _answers_per_step(recipe, data, order, bare / each) if each else bare


def _epochs(data: SequenceDataset, order: BatchSampler) -> int:
    """Return the number of epochs that stand for all.

    One, unless lengths differ and a few batches leave many examples out.
    """
    equal = bool(data.lengths.min() == data.lengths.max())
    return 1 if equal or order.per_epoch >= MANY_BATCHES else -(-BATCHES // order.per_epoch)


def mean_over(lengths: np.ndarray, at: Callable[[int], float]) -> float:
    """Return the mean of a positive function over lengths (n,).

    It is evaluated at the shortest and longest length, and by bisection wherever it deviates from linear
    interpolation, so that steps (blocks, sizes of FFTs) and curves are both followed.
    """
    distinct = np.unique(lengths)
    last = len(distinct) - 1
    known = {i: at(int(distinct[i])) for i in {0, last}}
    between = [(0, last, 0)]
    while between:
        low, high, depth = between.pop()
        middle = (low + high) // 2
        if middle == low or depth == MAX_DEPTH:
            continue
        known[middle] = at(int(distinct[middle]))
        interpolated = np.interp(distinct[middle], distinct[[low, high]], [known[low], known[high]])
        if depth < MIN_DEPTH or abs(interpolated / known[middle] - 1) > TOLERANCE:
            between += [(low, middle, depth + 1), (middle, high, depth + 1)]
    found = sorted(known)
    return float(np.interp(lengths, distinct[found], [known[i] for i in found]).mean())


def _targets(recipe: Recipe, data: SequenceDataset, rows: torch.Tensor, *key: int) -> ObjectiveBatch:
    """Return a batch with the labels and the masks that are drawn from this key."""
    form = recipe.task_of(recipe.last).form
    return recipe.last.objective.make_targets(data.batch(rows), form, generator("cost", *key))


def _answers(targets: ObjectiveBatch) -> int:
    """Return the number of predicted positions in a batch; 0 without predictions per position."""
    return 0 if targets.loss_mask is None else int(targets.loss_mask.sum())


def _answers_per_step(recipe: Recipe, data: SequenceDataset, order: BatchSampler, bare: float) -> float:
    """Return the mean number of predicted positions per batch.

    Batches of training are drawn until the standard error of the FLOPs of a step is below ``ERROR``.

    Args:
        bare: FLOPs of everything else in a step, divided by those of a predicted position.
    """
    share = _predicted_share(recipe, data, order, bare)
    if _epochs(data, order) > 1:  # in the long run, every example is in as many batches as any other
        return share * float(data.lengths.double().mean(1).sum()) * order.size
    rows = torch.cat([order.rows(step) for step in range(order.per_epoch)])
    return share * float(data.lengths[:, rows].sum()) / order.per_epoch


def _predicted_share(recipe: Recipe, data: SequenceDataset, order: BatchSampler, bare: float) -> float:
    """Return the share of positions that are predicted, see ``_answers_per_step``."""
    if not recipe.last.objective.masks_inputs and data.lengths.min() == data.lengths.max():
        one = order.rows(0)[:1]  # stands for all, and is quick
        return _answers(_targets(recipe, data, one)) / int(data.lengths[:, one].sum())
    span = max(order.per_epoch, SAMPLED)
    spread = np.linspace(0, span - 1, SAMPLED).astype(int).tolist()
    predicted = np.zeros(0)
    real = np.zeros(0)
    share = 0.0
    for start in range(0, ROUNDS * span, span):
        batches = {start + step: order.rows(start + step) for step in spread}
        found = [_answers(_targets(recipe, data, rows, step)) for step, rows in batches.items()]
        predicted = np.append(predicted, found)
        real = np.append(real, [int(data.lengths[:, rows].sum()) for rows in batches.values()])
        share = float(predicted.sum() / real.sum())
        error = np.std(predicted - share * real) / len(real) ** 0.5
        if error <= ERROR * (bare + predicted.mean()):
            break
    return share


def _per_answer(head: nn.Module, views: int, width: int) -> float:
    """Return the FLOPs of a head per predicted position."""
    x = torch.zeros(views, 2, width, requires_grad=True)

    def of(positions: int) -> float:
        return count_flops(head, lambda: head(x, None, torch.arange(positions)).sum())

    return of(2) - of(1)


def _network(recipe: Recipe) -> Network:
    """Return the network to count; without gradients of its features if the head alone is trained.

    A network that is frozen in part counts as if all of it were trained.
    """
    network = build_network(recipe)
    named = [pair for member in network.networks() for pair in member.named_parameters()]
    body = [parameter for name, parameter in named if not name.startswith("head.")]
    freeze(network, recipe.last.freeze)
    if any(parameter.requires_grad for parameter in body):
        network.requires_grad_(True)
    return network


def _parameters(recipe: Recipe) -> int:
    """Return the number of parameters, without memory for them; those below the head are counted once."""
    stage = recipe.last
    key = network_key(recipe)
    if key not in _sizes:
        _sizes[key] = shipped_sizes().get(key) or size_below_head(recipe)
    head = stage.objective.head(recipe.task_of(stage).form, recipe.model.width, recipe.model.pooling)
    return _sizes[key] + count_parameters(head)


_sizes: dict[str, int] = {}


def network_key(recipe: Recipe) -> str:
    """Return a hash of what the number of parameters below the head depends on."""
    model = replace(recipe.model, dropout=0.0, pooling=Model.pooling)
    plain = to_dict(model)
    content = json.dumps([plain, repr(recipe.task_of(recipe.last).form), *digests_of(plain).items()])
    return hashlib.sha256(content.encode()).hexdigest()[:10]


def size_below_head(recipe: Recipe) -> int:
    """Return the number of parameters below the head; blocks after the second are as large as the second."""
    depth = recipe.model.depth
    network = build_on_meta(replace(recipe, model=replace(recipe.model, depth=min(2, depth))))
    sizes = {name: real_size(p) for name, p in network.named_parameters() if "head." not in name}
    further = sum(size for name, size in sizes.items() if ".blocks.1." in f".{name}")
    return sum(sizes.values()) + max(0, depth - 2) * further


def _count(recipe: Recipe, network: nn.Module, targets: ObjectiveBatch) -> float:
    """Return the FLOPs of a pass over a batch; cached by model, objective and sizes."""
    stage = recipe.last
    form = recipe.task_of(stage).form
    inputs = targets.batch.inputs.shape
    sizes = (inputs, targets.batch.padding_mask is None, targets.masked is None, _answers(targets))
    plain = to_dict([recipe.model, stage.objective, stage.freeze])
    key = json.dumps([plain, digests_of(plain)]), form, sizes
    if key not in _counts:
        _counts[key] = count_step(network, stage.objective, form, targets)
    return _counts[key]


_counts: dict[tuple[object, ...], float] = {}
