"""What a stage costs: parameters, floating-point operations, and from them the length of a budget.

A multiplication with its addition counts as two operations, causal attention is not halved, softmax,
norms and the optimizer are left out, and an FFT of N complex points counts 5 N log2 N (half for real
ones). Torch's own counter sees nothing of attention on CPUs, of LSTMs and of FFTs, and counts the gradient of
a depthwise kernel as that of a full one, hence the formulas here.
"""

import bisect
import contextlib
import functools
import json
import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.utils.flop_counter import (
    FlopCounterMode,
    sdpa_backward_flop_count,
    sdpa_flop_count,
)

from .batch import Examples, Form, Order, generator
from .errors import SelfPretrainError, SpecError, StageFailed
from .objectives.base import Objective
from .prepare import fresh_network, training_data
from .recipe import Budget, Recipe, describe, fingerprint
from .shelf import name_of, nearest

aten = torch.ops.aten

GPUS = {"t4": 65e12, "v100": 125e12, "l4": 121e12, "rtx4090": 165e12, "a100": 312e12, "h100": 989e12}
"""Peak FLOP/s of dense half-precision products, as their maker prints them; an H200 counts as an H100."""
USED = 0.05
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
    if key not in known:
        known[key] = _plan(recipe)
    return known[key]


known: dict[str, Plan] = {}
"""By fingerprint."""


def _plan(recipe: Recipe) -> Plan:
    stage = recipe.last
    data = training_data(recipe)
    order = Order(data.longest, stage.batch, recipe.seed)
    with _blaming(recipe):
        network = fresh_network(recipe)
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
        said = (str(error).splitlines() or [""])[0]
        name = f"a network with {name_of(recipe.model.mixer)}"
        raise StageFailed(
            f"{name} fails: {type(error).__name__}: {said} (SPT_DEBUG=1 shows where)"
        ) from error


def total(recipe: Recipe) -> float:
    """FLOPs of all stages of a recipe."""
    return sum(plan(prefix).flops for prefix in recipe.prefixes())


def seconds_per_step(recipe: Recipe) -> float:
    """Wall-clock seconds of one forward and backward pass over a batch, measured on the CPU right now."""
    stage, form, data = recipe.last, recipe.task_of(recipe.last).form, training_data(recipe)
    order, network = Order(data.longest, stage.batch, recipe.seed), fresh_network(recipe)
    start = time.perf_counter()
    for step in (0, 1, 2):
        if step == 1:  # the first pass warms up
            start = time.perf_counter()
        question = stage.objective.ask(data.batch(order.rows(step)), form, generator("cost"))
        batch = question.batch
        answers = network(batch.inputs, batch.valid, question.hidden, question.counts)
        stage.objective.loss(answers, question, form).backward()
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


def count(network: nn.Module, objective: Objective, form: Form, data: Examples, rows: torch.Tensor) -> float:
    """FLOPs of one forward and backward pass over the examples at ``rows``."""
    question = objective.ask(data.batch(rows), form, generator("cost"))
    batch = question.batch

    def loss() -> torch.Tensor:
        answers = network(batch.inputs, batch.valid, question.hidden, question.counts)
        return objective.loss(answers, question, form)

    return counted(network, loss)


def counted(network: nn.Module, loss: Callable[[], torch.Tensor]) -> float:
    """FLOPs of working out a loss and its gradients, which are dropped."""
    with torch.enable_grad(), FlopCounterMode(display=False, custom_mapping=_formulas()) as counter:
        loss().backward()
    network.zero_grad(set_to_none=True)
    return float(counter.get_total_flops())


def fitting(size: Callable[[int], float], goal: float, step: int) -> int:
    """The multiple of ``step`` at which a size that grows comes nearest to a goal."""
    above = 1
    while size(above * step) < goal:
        above *= 2
    first = bisect.bisect_left(range(above), goal, lo=max(1, above // 2), key=lambda n: size(n * step))
    return step * min((n for n in (first - 1, first) if n), key=lambda n: abs(size(n * step) - goal))


def _flops_per_step(recipe: Recipe, network: nn.Module, data: Examples, order: Order) -> float:
    """Mean FLOPs of a training step over the batches of the first epoch.

    They are counted for one and for two examples at up to four lengths; batch size enters linearly
    (kernels of state space models do not grow with it), length by interpolation.
    """
    padded = order.padded().numpy()
    lengths = np.unique(np.quantile(padded, [0, 1 / 3, 2 / 3, 1], method="nearest"))
    found = []
    for length in lengths.tolist():
        row = (data.longest - length).abs().argmin()
        one, two = (_count(recipe, network, data, row.repeat(n)) for n in (1, 2))
        found.append(one + (two - one) * (order.size - 1))
    return float(np.interp(padded, lengths, found).mean())


def _count(recipe: Recipe, network: nn.Module, data: Examples, rows: torch.Tensor) -> float:
    """What equal networks do with questions of equal sizes is counted once."""
    objective, form = recipe.last.objective, recipe.task_of(recipe.last).form
    question = objective.ask(data.batch(rows), form, generator("cost"))
    answers = None if question.counts is None else int(question.counts.sum())
    sizes = (question.batch.inputs.shape, question.batch.valid is None, question.hidden is None, answers)
    key = json.dumps(describe([recipe.model, objective])), form, sizes
    if key not in _counts:
        _counts[key] = count(network, objective, form, data, rows)
    return _counts[key]


_counts: dict[tuple[object, ...], float] = {}


def _steps(budget: Budget, per_epoch: int, per_step: float) -> int | None:
    if budget.seconds is not None:
        return None
    steps = budget.steps or round((budget.epochs or 0) * per_epoch + (budget.flops or 0) / per_step)
    if steps < 1:
        raise SpecError(
            f"{budget} is less than one step (one epoch is {per_epoch} steps, {per_step:.3g} FLOPs each)"
        )
    return steps


@functools.cache
def _formulas() -> dict[Any, Callable[..., int]]:
    """What torch's own counter does not see, or counts wrongly; these come before its own."""
    return {
        aten._scaled_dot_product_flash_attention_for_cpu: _attention,
        aten._scaled_dot_product_flash_attention_for_cpu_backward: _attention_backward,
        aten._fft_r2c: _fft(2.5),
        aten._fft_c2r: _fft(2.5, back=True),
        aten._fft_c2c: _fft(5.0),
        aten.convolution_backward: _convolution_backward,
        aten.mkldnn_rnn_layer: _recurrent(2),
        aten.mkldnn_rnn_layer_backward: _recurrent(4),
        aten._cudnn_rnn: _stacked(2),
        aten._cudnn_rnn_backward: _stacked(4),
    }


def _attention(
    query: Any,
    key: Any,
    value: Any,
    *rest: Any,
    attn_mask: Any = None,
    scale: Any = None,
    out_shape: Any = None,
) -> int:
    return sdpa_flop_count(query, key, value)


def _attention_backward(
    grad: Any,
    query: Any,
    key: Any,
    value: Any,
    *rest: Any,
    attn_mask: Any = None,
    scale: Any = None,
    out_shape: Any = None,
) -> int:
    return sdpa_backward_flop_count(grad, query, key, value)


def _convolution_backward(grad: Any, x: Any, weight: Any, *rest: Any, out_shape: Any = None) -> int:
    """Every gradient that is wanted costs as much as the forward pass; torch forgets the groups in one."""
    _, _, _, _, transposed, _, _, wanted = rest
    places = math.prod((x if transposed else grad)[2:])
    return 2 * sum(wanted[:2]) * x[0] * places * math.prod(weight)


def _recurrent(factor: int) -> Callable[..., int]:
    """The formula of a recurrent layer: both of its matrices at every position."""

    def formula(shape: Any, enter: Any, again: Any, *rest: Any, out_shape: Any = None) -> int:
        return factor * math.prod(shape[:2]) * (math.prod(enter) + math.prod(again))

    return formula


def _stacked(factor: int) -> Callable[..., int]:
    """The formula of cuDNN's recurrent layers and directions: all their matrices at every position."""

    def formula(shape: Any, weights: Any, *rest: Any, out_shape: Any = None) -> int:
        matrices = sum(math.prod(weight) for weight in weights if len(weight) == 2)
        return factor * math.prod(shape[:2]) * matrices

    return formula


def _fft(factor: float, back: bool = False) -> Callable[..., int]:
    """The formula of an FFT over some dimensions; ``back``: its size is that of what comes out."""

    def formula(shape: Any, dim: Any, *rest: Any, out_shape: Any = None) -> int:
        whole = out_shape if back else shape
        points = math.prod(whole[d] for d in dim)
        return round(factor * points * math.log2(max(points, 2)) * (math.prod(whole) // points))

    return formula
