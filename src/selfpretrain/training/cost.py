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

from ..data.examples import Examples, generator
from ..data.sampler import BatchSampler
from ..data.schema import Form
from ..errors import SelfPretrainError, SpecError, StageFailed, nearest
from ..registry import name_of
from ..spec import describe
from ..tasks._outline import Outline
from .build import build_network, training_data
from .flops import count
from .recipe import Budget, Recipe, fingerprint

GPUS = {"t4": 65e12, "v100": 125e12, "l4": 121e12, "rtx4090": 165e12, "a100": 312e12, "h100": 989e12}
"""Peak FLOP/s of dense half-precision products, as their maker prints them; an H200 counts as an H100."""
SPEED = 2.5e10
"""FLOP/s that a small network is taken to reach on one core: a guess, for those who do not measure."""
USED = 0.05
"""Share of a GPU's peak that is taken to be reached."""
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


def _flops_per_step(recipe: Recipe, network: nn.Module, data: Examples, order: BatchSampler) -> float:
    """Mean FLOPs of a training step over the batches of the first epoch.

    They are counted for one and for two examples at up to four lengths; batch size enters linearly
    (kernels of state space models do not grow with it), length by interpolation.
    """
    padded = order.padded().numpy()
    way, _ = _draft.get()
    if way == "rough":
        positions = order.size * data.views * float(padded.mean())
        return 6.0 * positions * sum(p.numel() for p in network.parameters())
    if way == "fitted" and padded.max() > FITTED[-1]:
        with contextlib.suppress(Exception):  # a mixer may refuse short sequences in any way
            return _fitted(recipe, padded, order.size)
    lengths = np.unique(np.quantile(padded, [0, 1 / 3, 2 / 3, 1], method="nearest"))
    flops = []
    for length in lengths.tolist():
        row = (data.longest - length).abs().argmin()
        one, two = (_count(recipe, network, data, row.repeat(n)) for n in (1, 2))
        flops.append(one + (two - one) * (order.size - 1))
    return float(np.interp(padded, lengths, flops).mean())


def _fitted(recipe: Recipe, padded: np.ndarray, batch: int) -> float:
    """The same, told from shorter sequences: FFTs grow as L log L, all else as a polynomial of degree two."""
    task = recipe.task_of(recipe.last)
    parts = []
    for length in FITTED:
        form = replace(task.form, length=length)
        data = Outline(form, 2, 2, 2).examples("train")
        network = build_network(recipe, form)
        one, two = (np.array(_parts(recipe, network, data, form, n)) for n in (1, 2))
        parts.append(one + (two - one) * (batch - 1))
    rest, ffts = np.array(parts).T
    at = np.array(FITTED, dtype=float)
    slope, start = np.polyfit(at * np.log2(at), ffts, 1)
    told = np.polyval(np.polyfit(at, rest, 2), padded) + slope * padded * np.log2(padded) + start
    return float(told.mean())


def _parts(
    recipe: Recipe, network: nn.Module, data: Examples, form: Form, examples: int
) -> tuple[float, float]:
    """FLOPs of so many examples besides FFTs, and of these."""
    key = json.dumps(describe([recipe.model, recipe.last.objective])), form, examples
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


def _count(recipe: Recipe, network: nn.Module, data: Examples, rows: torch.Tensor) -> float:
    """What equal networks do with questions of equal sizes is counted once."""
    objective, form = recipe.last.objective, recipe.task_of(recipe.last).form
    targets = objective.make_targets(data.batch(rows), form, generator("cost"))
    outputs = None if targets.counts is None else int(targets.counts.sum())
    sizes = (targets.batch.inputs.shape, targets.batch.valid is None, targets.hidden is None, outputs)
    key = json.dumps(describe([recipe.model, objective])), form, sizes
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
