"""Trace of a training step on a GPU: FLOPs, kernels, bytes moved and the peak of memory, from shapes alone.

The step runs on the device ``meta``, whose tensors have shapes but no numbers: it takes no GPU, no data, and
no time that grows with the length of sequences. Not counted are fragmentation and the workspaces of cuFFT and
cuDNN; state matrices that are in float64 on CUDA count as float32.
"""

import csv
import hashlib
import json
import weakref
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ..config import to_dict
from ..data.dataset import SequenceDataset, generator
from ..data.spec import Tokens
from ..errors import first_line
from ..mixers.base import LayerContext
from ..objectives.base import ObjectiveBatch
from ..system.distributed import alone
from ..tasks.base import DatasetStub
from .cuda_kernels import as_on_cuda, prepare_pairs
from .flops import DispatchMode, flop_formulas
from .model import Network
from .recipe import Recipe, build_on_meta, digests_of
from .shortcuts import shortcut
from .step import step
from .transfer import freeze

MANY = 20_000
"""Operations of a step beyond which it is traced at short lengths, and extrapolated linearly."""
SHORTEST = 16
"""Positions of the first of these."""
GROWTH = 1.6
"""Increase of kernels from half a length from which their number grows with the length."""
TENSORS = 36
"""Weights that one kernel of the fused optimizer updates."""
PASSES = {"adam": 7, "clip": 3}
"""Times that weights, gradients and moments are read or written by the optimizer, and by clipping."""
CLIP_KERNELS = 8
"""Kernels of clipping beside those that pass over the gradients."""
SHIPPED_TRACES = Path(__file__).with_name("shipped_traces.tsv")
"""Traces of the papers' stages, for forecasts: made by tools/traces.py, and not again with every edit."""


class Untraceable(Exception):
    """A network fails on the device ``meta``, as it needs numbers; the message says why in one line."""


@dataclass(frozen=True)
class StepTrace:
    """What one step asks of a GPU."""

    flops: float
    kernels: int
    bytes_moved: float  # read and written by kernels
    peak_bytes: int  # weights, their average, the best, gradients, optimizer and activations at their peak
    independent: bool  # whether no example depends on others or on random numbers, as far as is seen

    @classmethod
    def line(cls, first: "StepTrace", second: "StepTrace", at: float | int) -> "StepTrace":
        """Return first + at (second - first), for steps of which everything grows linearly."""

        def on(a: float | int, b: float | int) -> float:
            return float(a + at * (b - a))

        return cls(
            on(first.flops, second.flops),
            round(on(first.kernels, second.kernels)),
            on(first.bytes_moved, second.bytes_moved),
            round(on(first.peak_bytes, second.peak_bytes)),
            first.independent,
        )


def trace_step(recipe: Recipe, length: int | None = None, padded: bool = False) -> StepTrace:
    """Trace one step of a recipe's last stage, with its batch, precision and ways to save memory.

    Args:
        length: padded length of the batch; None: the maximum of the task.
        padded: whether some sequences are shorter, so that there is a padding mask.

    Raises:
        Untraceable: if the network cannot be built or run without numbers, whatever it raises.
    """
    length = length or recipe.task_of(recipe.last).form.length
    key = trace_key(recipe, length, padded)
    if key not in TRACES:
        try:
            TRACES[key] = _trace_now(recipe, length, padded)
        except Exception as error:
            raise Untraceable(first_line(error)) from error
    return TRACES[key]


def known_trace(recipe: Recipe, length: int, padded: bool) -> StepTrace:
    """Return the trace of a training step that the package ships, for forecasts; else trace the step.

    Raises:
        Untraceable: see ``trace_step``.
    """
    shipped = shipped_traces().get(trace_key(recipe, length, padded))
    return shipped or trace_step(recipe, length, padded)


def longest_batch(recipe: Recipe, data: SequenceDataset) -> tuple[int, bool]:
    """Return the padded length of the longest batch of a stage's data, and whether sequences are padded.

    Stubs have one length, but sequences of symbols seldom do.
    """
    task = recipe.task_of(recipe.last)
    differ = bool(data.lengths.min() != data.lengths.max())
    return int(data.longest.max()), differ or (task.stub is not None and isinstance(task.form.signal, Tokens))


TRACES: dict[str, StepTrace] = {}
"""Traces of this process, by what they depend on."""


def trace_key(recipe: Recipe, length: int, padded: bool) -> str:
    """Return a hash of what the trace of a step depends on."""
    stage = recipe.last
    plain = to_dict([recipe.model, stage.objective])
    content = [
        *(*plain, *digests_of(plain).items()),
        *(repr(recipe.task_of(stage).form), stage.freeze, stage.batch, stage.precision),
        *(stage.grad_accumulation, stage.activation_checkpointing, bool(stage.optim.clip)),
        *(length, padded, True),  # True: in training
        *(("average",) if stage.average else ()),
    ]
    return hashlib.sha256(json.dumps(content).encode()).hexdigest()[:10]


@cache
def shipped_traces() -> dict[str, StepTrace]:
    """Return the traces of training steps of the papers' stages that the package ships, by ``trace_key``."""
    return {
        row["key"]: StepTrace(
            float(row["flops"]),
            int(row["kernels"]),
            float(row["bytes_moved"]),
            int(row["peak_bytes"]),
            row["independent"] == "yes",
        )
        for row in shipped_rows()
    }


@cache
def shipped_sizes() -> dict[str, int]:
    """Return the parameters below the head of the networks of these stages, see ``cost.network_key``."""
    return {row["network"]: int(row["parameters"]) for row in shipped_rows()}


def shipped_rows() -> list[dict[str, str]]:
    """Return the lines of the file that ships."""
    with SHIPPED_TRACES.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file, delimiter="\t"))


def _trace_now(recipe: Recipe, length: int, padded: bool) -> StepTrace:
    stage = recipe.last
    parts = stage.grad_accumulation
    if parts > 2:  # all micro-batches after the first cost the same, and memory is freed after each
        first = [replace(stage, batch=stage.batch // parts * n, grad_accumulation=n) for n in (1, 2)]
        one, two = (_trace_now(recipe.with_last(each), length, padded) for each in first)
        return replace(StepTrace.line(one, two, parts - 1), peak_bytes=two.peak_bytes)
    network = network_on_meta(recipe)

    def trace(positions: int, most: int | None = None) -> StepTrace:
        return _trace(network, recipe, positions, padded, most)

    try:
        return trace(length, MANY)
    except _TooMany:
        network.zero_grad(set_to_none=True)
    shorter = trace(SHORTEST)
    short = trace(2 * SHORTEST)
    at = 2 * SHORTEST
    while short.kernels < GROWTH * shorter.kernels and 2 * at < length:
        at *= 2
        shorter = short
        short = trace(at)
    return StepTrace.line(shorter, short, (length - at // 2) / (at // 2))


def network_on_meta(recipe: Recipe) -> Network:
    """Return the network of a recipe's last stage without memory for its weights, frozen as in training."""
    network = build_on_meta(recipe).to("meta")  # some matrices are computed, and kept, in main memory
    freeze(network, recipe.last.freeze)
    if not recipe.last.objective.masks_inputs:
        freeze(network, ("*embed.mask_token",))
    for each in network.networks():
        each.joint_kernels = True  # as on a GPU
    model = recipe.model
    length = recipe.task_of(recipe.last).form.length
    rotary = model.encoding == "rotary"
    prepare_pairs(
        network,
        model.mixer,
        lambda i: LayerContext(model.width, length, model.causal, rotary, i, model.depth),
    )
    return network


def _trace(network: Network, recipe: Recipe, length: int, padded: bool, most: int | None) -> StepTrace:
    stage = recipe.last
    form = recipe.task_of(stage).form
    targets = _targets(recipe, length, padded)
    network.train()
    for each in network.networks():
        each.recompute_activations(stage.activation_checkpointing)
    tracer = _Tracer(most)
    tracer.hold(network.state_dict().values())
    tracer.hold([targets.batch.inputs, targets.batch.padding_mask, targets.labels])
    trained = [p for p in network.parameters() if p.requires_grad]
    size = sum(p.numel() * p.element_size() for p in trained)
    weights = sum(x.numel() * x.element_size() for x in network.state_dict().values())
    tracer.independent = recipe.model.norm != "batch"
    tracer.allocate(2 * size)  # by the optimizer
    tracer.allocate(weights * (2 if stage.average else 1))  # the best weights, and their average
    unclipped = replace(stage, optim=replace(stage.optim, clip=0.0))
    with alone(), as_on_cuda() as kernels, torch.enable_grad(), tracer:
        step(network, _NoOptimizer(), unclipped, form, targets)
    network.zero_grad(set_to_none=True)
    tracer.add_optimizer(len(trained), size, bool(stage.optim.clip))
    return tracer.found(kernels.of_cudnn)


def _targets(recipe: Recipe, length: int, padded: bool) -> ObjectiveBatch:
    """Return the batch of a step on ``meta``: masks are drawn for two examples, and repeated."""
    stage = recipe.last
    form = recipe.task_of(stage).form
    pair = DatasetStub(replace(form, length=length), 2, 2, 2).examples("train")
    if padded:
        lengths = pair.lengths.clone()
        lengths[:, 0] = -(-length * 3 // 4)
        pair = replace(pair, lengths=lengths)
    made = stage.objective.make_targets(pair.batch(torch.arange(2)), form, generator("trace"))
    batch = made.batch

    def rows(x: Tensor) -> int:
        return len(x) // 2 * stage.batch + len(x) % 2 * (stage.batch // 2)

    def empty(x: Any) -> Any:
        return None if x is None else x.new_empty(rows(x), *x.shape[1:], device="meta")

    def repeated(x: Any) -> Any:
        return None if x is None else x.repeat(-(-rows(x) // len(x)), *[1] * (x.ndim - 1))[: rows(x)]

    batch = replace(
        batch,
        inputs=empty(batch.inputs),
        padding_mask=empty(batch.padding_mask),
        targets=empty(batch.targets),
        weights=empty(batch.weights),
        lengths=repeated(batch.lengths),
    )
    masks = {name: repeated(getattr(made, name)) for name in ("masked", "loss_mask", "position_weights")}
    return replace(made, batch=batch, labels=empty(made.labels), **masks)


class _NoOptimizer(torch.optim.Optimizer):
    """Does nothing: on ``meta`` its kernels are not fused, so ``_Tracer.add_optimizer`` counts them."""

    def __init__(self) -> None:
        pass

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Do nothing."""

    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        """Do nothing."""


class _TooMany(Exception):
    """There are more operations than are worth tracing."""


class _Tracer(DispatchMode):
    """Counts what every operation on ``meta`` costs, and follows the storages that live."""

    def __init__(self, most: int | None) -> None:
        super().__init__()
        self.formulas = flop_formulas()
        self.most = most
        self.flops = 0.0
        self.kernels = 0
        self.moved = 0.0
        self.independent = True  # whether no operation was of those of ``_is_shared``
        self.operations = 0
        self.bytes = 0  # allocated now
        self.peak = 0
        self.live: dict[int, tuple[Any, int]] = {}  # storages: reference, bytes

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        out = shortcut(func, args, kwargs)
        out = func(*args, **kwargs) if out is None else out
        self.operations += 1
        if self.most and self.operations > self.most:
            raise _TooMany
        self.independent = self.independent and not _is_shared(func, args)
        made = [x for x in _tensors(out) if x.is_meta]
        if not made:
            return out
        for x in made:
            self._note(x)
        if not _is_free(func):
            self.kernels += 1
            self.moved += sum(x.numel() * x.itemsize for x in (*_tensors(args), *made))
        formula = self.formulas.get(func.overloadpacket)
        if formula is not None:
            self.flops += formula(*args, **kwargs, out_val=out)
        return out

    def hold(self, tensors: Any) -> None:
        """Note tensors that are there before the step and after it."""
        for x in tensors:
            if x is not None and x.is_meta:
                self._note(x)

    def allocate(self, size: int) -> None:
        """Count bytes that are allocated or, if negative, released."""
        self.bytes += size
        self.peak = max(self.peak, self.bytes)

    def add_optimizer(self, tensors: int, size: int, clips: bool) -> None:
        """Count clipping and a step of fused AdamW."""
        passes = -(-tensors // TENSORS)
        self.kernels += passes + (2 * passes + CLIP_KERNELS) * clips
        self.moved += size * (PASSES["adam"] + PASSES["clip"] * clips)

    def found(self, more_kernels: int) -> StepTrace:
        """Return everything that was counted."""
        kernels = self.kernels + more_kernels
        return StepTrace(self.flops, kernels, self.moved, self.peak, self.independent)

    def _note(self, x: Tensor) -> None:
        storage = x.untyped_storage()
        key = storage._cdata
        if key in self.live:
            return
        size = storage.nbytes()
        self.live[key] = weakref.ref(storage, lambda _: self._release(key)), size
        self.allocate(size)

    def _release(self, key: int) -> None:
        _, size = self.live.pop(key)
        self.allocate(-size)


def _tensors(values: Any) -> list[Tensor]:
    """Return the tensors among the arguments or results of an operation."""
    if isinstance(values, Tensor):
        return [values]
    if not isinstance(values, (list, tuple)):
        return []
    return [x for each in values for x in _tensors(each)]


EMPTY = ("empty", "detach", "alias", "lift_fresh", "resize_", "_unsafe_view", "_local_scalar_dense", "set_")


@cache
def _is_free(func: Any) -> bool:
    """Return whether an operation launches no kernel: it returns a view, or memory as it is."""
    name = func.overloadpacket.__name__
    results = func._schema.returns
    views = any(each.alias_info is not None and not each.alias_info.is_write for each in results)
    return views or name.startswith(EMPTY) or name.startswith("new_empty")


def _is_shared(func: Any, args: Any) -> bool:
    """Return whether an operation draws random numbers, or normalises over the batch."""
    rates = [i for i, each in enumerate(func._schema.arguments) if each.name == "dropout_p"]
    if rates:  # attention, whose arguments end before those that are as usual
        return len(args) > rates[0] and bool(args[rates[0]])
    return torch.Tag.nondeterministic_seeded in func.tags or "batch_norm" in func.overloadpacket.__name__
