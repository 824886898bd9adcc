"""What a stage costs: parameters, floating-point operations, and from them the length of a budget.

A multiplication with its addition counts as two operations, causal attention is not halved, softmax,
norms and the optimizer are left out, and an FFT of N complex points counts 5 N log2 N (half for real
ones). Torch's own counter sees nothing of attention on CPUs, of LSTMs and of FFTs, and counts the gradient of
a depthwise kernel as that of a full one, hence the formulas here.
"""

import bisect
import contextlib
import json
import time
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import torch
from torch import nn

from ..config import to_dict
from ..data.dataloader import BatchSampler
from ..data.dataset import SequenceDataset, generator
from ..data.spec import SequenceSpec
from ..errors import SelfPretrainError, SpecError, StageFailed, nearest
from ..registry import name_of
from ..tasks.common.dataset_stub import DatasetStub
from .build import build_network, training_data
from .flops import count, counted
from .recipe import Budget, Recipe, fingerprint

GPUS = {"t4": 65e12, "v100": 125e12, "l4": 121e12, "rtx4090": 165e12, "a100": 312e12, "h100": 989e12}
"""Peak FLOP/s of dense half-precision products, as their maker prints them; an H200 counts as an H100."""
SPEED = 2.5e10
"""FLOP/s that a small network is taken to reach on one core: a guess, for those who do not measure."""
USED = 0.05
"""Share of a GPU's peak that is taken to be reached."""
CLOSE, SURELY, DEPTH = 0.005, 2, 7
"""How near a line between two lengths must come in the middle, relatively; halvings in any case, and at most.

FLOPs of unequal batches are counted at 5 to 129 lengths."""
SAMPLED = 16
"""Batches of which it is counted how many positions are asked for."""
FITTED = (128, 256, 512)
"""Positions at which FLOPs are counted for a draft; longer sequences are told from these."""
ASSUMED = "if 5 % of its peak is reached; Coser & Orvieto's times on an A100 correspond to 1 to 8 %"


@dataclass(frozen=True)
class Plan:
    """A stage's budget, worked out."""

    steps: int | None  # None: until the seconds are over
    flops_per_step: float
    per_epoch: int
    padding: float
    parameters: int

    @property
    def flops(self) -> float:
        """Of the whole stage; 0 where only seconds are known."""
        return self.flops_per_step * (self.steps or 0)


def plan(recipe: Recipe) -> Plan:
    """What the last stage of a recipe will cost, without running it; worked out once, and then ``known``.

    Raises:
        SpecError: if the budget is less than one step.
        StageFailed: if the network cannot be built, or its passes fail.
    """
    key = fingerprint(recipe)  # specs from outside need not be hashable
    way, made = _draft.get()
    if way == "fitted" and key in known:
        return known[key]
    plans = known if way == "counted" else made
    if key not in plans:
        plans[key] = _plan(recipe)
    return plans[key]


known: dict[str, Plan] = {}
"""By fingerprint."""
Way = Literal["counted", "fitted", "rough"]
_draft: ContextVar[tuple[Way, dict[str, Plan]]] = ContextVar("draft", default=("counted", {}))


@contextlib.contextmanager
def drafting(way: Way) -> Iterator[None]:
    """Let plans be made more quickly, and be forgotten afterwards.

    "fitted" counts short sequences, and tells long ones from them; "rough" runs no pass: 6 FLOPs per
    parameter and position, without what attention does between positions. Steps of stages whose budget is
    compute are as rough.
    """
    now = _draft.get()
    before = _draft.set(now if now[0] == way else (way, {}))
    try:
        yield
    finally:
        _draft.reset(before)


def how_counted() -> str:
    """What is to be said of FLOPs that are planned now."""
    rough = ", at 6 per parameter and position; data that are not prepared are taken to be as in the papers"
    return rough if _draft.get()[0] == "rough" else ""


def _plan(recipe: Recipe) -> Plan:
    stage = recipe.last
    data = training_data(recipe)
    order = BatchSampler(data.longest, stage.batch, recipe.seed)
    with _blaming(recipe):
        network = _weightless(recipe) if _draft.get()[0] == "rough" else build_network(recipe)
        per_step = _flops_per_step(recipe, network, data, order)
    steps = _steps(stage.budget, order.per_epoch, per_step)
    parameters = sum(p.numel() for p in network.parameters())
    padding = order.padding_share(data.lengths.amax(0))
    return Plan(steps, per_step, order.per_epoch, padding, parameters)


@contextlib.contextmanager
def _blaming(recipe: Recipe) -> Iterator[None]:
    """What a mixer raises when it is first tried becomes one line."""
    try:
        yield
    except SelfPretrainError:
        raise
    except Exception as error:
        first_line = (str(error).splitlines() or [""])[0]
        name = f"a network with {name_of(recipe.model.mixer)}"
        raise StageFailed(
            f"{name} fails: {type(error).__name__}: {first_line} (SPT_DEBUG=1 shows where)"
        ) from error


def total(recipe: Recipe) -> float:
    """FLOPs of all stages of a recipe."""
    return sum(plan(prefix).flops for prefix in recipe.prefixes())


def seconds_per_step(recipe: Recipe) -> float:
    """Wall-clock seconds of one forward and backward pass over a batch, measured on the CPU right now."""
    stage, form, data = recipe.last, recipe.task_of(recipe.last).form, training_data(recipe)
    order, network = BatchSampler(data.longest, stage.batch, recipe.seed), build_network(recipe)
    start = time.perf_counter()
    for step in (0, 1, 2):
        if step == 1:  # the first pass warms up
            start = time.perf_counter()
        targets = stage.objective.make_targets(data.batch(order.rows(step)), form, generator("cost"))
        outputs = network(*targets.question())
        stage.objective.loss(outputs, targets, form).backward()
    return (time.perf_counter() - start) / 2


def gpu_seconds(flops: float, gpu: str) -> float:
    """How long so many FLOPs may take on a GPU.

    Raises:
        SpecError: if its peak is not known.
    """
    name = gpu.lower().replace(" ", "").replace("h200", "h100")
    if name not in GPUS:
        raise SpecError(f"--gpu {gpu}: its peak is not known{nearest(name, GPUS)}")
    return flops / (USED * GPUS[name])


def fitting(size: Callable[[int], float], goal: float, step: int) -> int:
    """The multiple of ``step`` at which a size that grows comes nearest to a goal."""
    above = 1
    while size(above * step) < goal:
        above *= 2
    first = bisect.bisect_left(range(above), goal, lo=max(1, above // 2), key=lambda n: size(n * step))
    return step * min((n for n in (first - 1, first) if n), key=lambda n: abs(size(n * step) - goal))


def _flops_per_step(recipe: Recipe, network: nn.Module, data: SequenceDataset, order: BatchSampler) -> float:
    """Return the mean FLOPs of a training step over the batches of the first epoch.

    They are counted for one and for two examples of a length: batch size enters linearly (kernels of state
    space models do not grow with it). Where lengths differ, see ``_of_unequal``; a draft makes do with four
    of them.
    """
    padded = order.padded().numpy()
    way, _ = _draft.get()
    if way == "rough":
        positions = order.size * data.views * float(padded.mean())
        return 6.0 * positions * sum(p.numel() for p in network.parameters())
    if way == "fitted" and padded.max() > FITTED[-1]:
        with contextlib.suppress(Exception):  # a mixer may refuse short sequences in any way
            return _fitted(recipe, padded, order.size)
    if way == "counted" and padded.min() < padded.max():
        return _of_unequal(recipe, network, data, order)
    lengths = np.unique(np.quantile(padded, [0, 1 / 3, 2 / 3, 1], method="nearest"))
    flops = []
    for length in lengths.tolist():
        one, two = (_count(recipe, network, data, rows) for rows in _one_and_two(data, length))
        flops.append(one + (two - one) * (order.size - 1))
    return float(np.interp(padded, lengths, flops).mean())


def _of_unequal(recipe: Recipe, network: nn.Module, data: SequenceDataset, order: BatchSampler) -> float:
    """Return the same where batches are padded to several lengths.

    What the head spends on every position that is asked for is counted apart, by how many there are in real
    batches: a few short sequences may have none, or twice as many as on average.
    """
    objective, form = recipe.last.objective, recipe.task_of(recipe.last).form
    per_step = _answers_per_step(recipe, data, order)
    each = _per_answer(network.get_submodule("head"), data.views, recipe.model.width) if per_step else 0.0

    def at(length: int) -> float:
        bare = []
        for rows in _one_and_two(data, length):
            loss_mask = objective.make_targets(data.batch(rows), form, generator("cost")).loss_mask
            answers = 0 if loss_mask is None else int(loss_mask.sum())
            bare.append(_count(recipe, network, data, rows) - each * answers)
        one, two = bare
        return one + (two - one) * (order.size - 1)

    return mean_over(order.padded().numpy(), at) + each * per_step


def mean_over(lengths: np.ndarray, at: Callable[[int], float]) -> float:
    """Return the mean of a positive function over lengths (n,).

    It is asked for the shortest, the longest and, again and again, the middle one between two of which a
    straight line says something else, so that steps (blocks, sizes of FFTs) and curves are both followed.
    """
    distinct = np.unique(lengths)
    last = len(distinct) - 1
    known = {i: at(int(distinct[i])) for i in {0, last}}
    between = [(0, last, 0)]
    while between:
        low, high, depth = between.pop()
        middle = (low + high) // 2
        if middle == low or depth == DEPTH:
            continue
        known[middle] = at(int(distinct[middle]))
        told = np.interp(distinct[middle], distinct[[low, high]], [known[low], known[high]])
        if depth < SURELY or abs(told / known[middle] - 1) > CLOSE:
            between += [(low, middle, depth + 1), (middle, high, depth + 1)]
    found = sorted(known)
    return float(np.interp(lengths, distinct[found], [known[i] for i in found]).mean())


def _one_and_two(data: SequenceDataset, length: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the example whose length is nearest to one that is asked for, once and twice."""
    row = (data.longest - length).abs().argmin()
    return row.repeat(1), row.repeat(2)


def _answers_per_step(recipe: Recipe, data: SequenceDataset, order: BatchSampler) -> float:
    """Return at how many positions a batch is asked for on average; 0 where whole examples are."""
    objective, form = recipe.last.objective, recipe.task_of(recipe.last).form
    asked = real = 0
    for step in np.linspace(0, order.per_epoch - 1, SAMPLED).astype(int).tolist():
        batch = data.batch(order.rows(step))
        targets = objective.make_targets(batch, form, generator("cost", step))
        if targets.loss_mask is None:
            return 0.0
        asked += int(targets.loss_mask.sum())
        real += int(batch.real().sum())
    rows = torch.cat([order.rows(step) for step in range(order.per_epoch)])
    return asked / real * float(data.lengths[:, rows].sum()) / order.per_epoch


def _per_answer(head: nn.Module, views: int, width: int) -> float:
    """Return what a head spends on one more position."""
    x = torch.zeros(views, 2, width, requires_grad=True)

    def of(positions: int) -> float:
        return sum(counted(head, lambda: head(x, None, torch.arange(positions)).sum()))

    return of(2) - of(1)


def _fitted(recipe: Recipe, padded: np.ndarray, batch: int) -> float:
    """The same, told from shorter sequences: FFTs grow as L log L, all else as a polynomial of degree two."""
    task = recipe.task_of(recipe.last)
    parts = []
    for length in FITTED:
        form = replace(task.form, length=length)
        data = DatasetStub(form, 2, 2, 2).examples("train")
        network = build_network(recipe, form)
        one, two = (np.array(_parts(recipe, network, data, form, n)) for n in (1, 2))
        parts.append(one + (two - one) * (batch - 1))
    rest, ffts = np.array(parts).T
    at = np.array(FITTED, dtype=float)
    slope, start = np.polyfit(at * np.log2(at), ffts, 1)
    told = np.polyval(np.polyfit(at, rest, 2), padded) + slope * padded * np.log2(padded) + start
    return float(told.mean())


def _parts(
    recipe: Recipe, network: nn.Module, data: SequenceDataset, form: SequenceSpec, examples: int
) -> tuple[float, float]:
    """FLOPs of so many examples besides FFTs, and of these."""
    key = json.dumps(to_dict([recipe.model, recipe.last.objective])), form, examples
    if key not in _counts:
        _counts[key] = count(network, recipe.last.objective, form, data, torch.arange(examples))
    return _counts[key]


def _weightless(recipe: Recipe) -> nn.Module:
    """The network without memory for its weights, where it can be made so."""
    try:
        with torch.device("meta"):
            return build_network(recipe)
    except (RuntimeError, NotImplementedError, TypeError):  # some start from numbers that are worked out
        return build_network(recipe)


def _count(recipe: Recipe, network: nn.Module, data: SequenceDataset, rows: torch.Tensor) -> float:
    """What equal networks do with questions of equal sizes is counted once."""
    objective, form = recipe.last.objective, recipe.task_of(recipe.last).form
    targets = objective.make_targets(data.batch(rows), form, generator("cost"))
    outputs = None if targets.loss_mask is None else int(targets.loss_mask.sum())
    sizes = (targets.batch.inputs.shape, targets.batch.padding_mask is None, targets.masked is None, outputs)
    key = json.dumps(to_dict([recipe.model, objective])), form, sizes
    if key not in _counts:
        _counts[key] = count(network, objective, form, data, rows)
    return sum(_counts[key])


_counts: dict[tuple[object, ...], tuple[float, float]] = {}


def _steps(budget: Budget, per_epoch: int, per_step: float) -> int | None:
    if budget.seconds is not None:
        return None
    steps = budget.steps or round((budget.epochs or 0) * per_epoch + (budget.flops or 0) / per_step)
    if steps < 1:
        raise SpecError(
            f"{budget} is less than one step (one epoch is {per_epoch} steps, {per_step:.3g} FLOPs each)"
        )
    return steps
