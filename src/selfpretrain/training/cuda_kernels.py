"""Make a step on ``meta`` run the operations that CUDA would run, so that ``trace`` can count them.

``torch.autocast`` does not work on ``meta``, and PyTorch chooses kernels of attention and recurrent layers by
the device.
"""

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache, partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode
from torch.utils import checkpoint
from torch.utils._pytree import tree_map_only

from ..mixers.base import LayerContext, Mixer
from ..mixers.common.pairs import MIN_FLEX_LENGTH, MIN_FLEX_WIDTH, BlockNeighbours, Pairs

aten = torch.ops.aten
HALF = {
    *("linear", "matmul", "__matmul__", "__rmatmul__", "mm", "bmm", "mv", "addmm", "baddbmm", "einsum"),
    *("conv1d", "conv2d", "conv3d", "conv_transpose1d", "scaled_dot_product_attention", "prelu"),
}
"""Functions that autocast on CUDA runs in half precision."""
SINGLE = {
    *("softmax", "log_softmax", "softplus", "layer_norm", "group_norm", "norm", "cumsum", "cumprod", "prod"),
    *("sum", "exp", "expm1", "log", "log1p", "log2", "pow", "__pow__", "__rpow__", "rsqrt", "reciprocal"),
    *("cross_entropy", "nll_loss", "l1_loss", "mse_loss", "logsumexp", "cosh", "sinh", "tan", "acos", "asin"),
}
"""Functions that autocast on CUDA runs in single precision: those of PyTorch's list that mixers use."""


class CudaKernels(TorchFunctionMode):
    """Runs functions of tensors on ``meta`` as CUDA would, within bf16 autocast or without."""

    def __init__(self) -> None:
        super().__init__()
        self.half = False
        self.of_cudnn = 0  # kernels that cuDNN launches, for forward and backward passes
        self._casts: dict[int, Tensor] = {}  # weights in half precision, as autocast caches them

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run a function."""
        kwargs = kwargs or {}
        name = getattr(function, "__name__", "")
        if self.half and name in HALF:
            args, kwargs = tree_map_only(Tensor, self._halved, (args, kwargs))
        elif self.half and name in SINGLE:
            args, kwargs = tree_map_only(Tensor, _single, (args, kwargs))
        if name == "scaled_dot_product_attention" and args[0].is_meta:
            return _attend(*args, **kwargs)
        if name == "dropout" and args[0].is_meta:
            return _drop(*args, **kwargs)
        if name in ("lstm", "gru") and args[0].is_meta:
            return self._recur(name, *args)
        return function(*args, **kwargs)

    @contextlib.contextmanager
    def autocast(self, enabled: bool) -> Iterator[None]:
        """Compute in half precision, or not; casts of weights are kept within the outermost block."""
        before, self.half = self.half, enabled
        try:
            yield
        finally:
            self.half = before
            if not before:
                self._casts.clear()

    def _halved(self, x: Tensor) -> Tensor:
        if not x.is_meta or x.dtype not in (torch.float32, torch.float16):
            return x
        if not (x.is_leaf and x.requires_grad):
            return x.to(torch.bfloat16)
        if id(x) not in self._casts:
            self._casts[id(x)] = x.to(torch.bfloat16)
        return self._casts[id(x)]

    def _recur(self, kind: str, x: Tensor, state: Any, weights: list[Tensor], *rest: Any) -> Any:
        """Return outputs and states of one layer as cuDNN has them: a product and a kernel per position."""
        self.of_cudnn += 4 * x.shape[1]
        of_input, of_state, *biases = weights
        gates = F.linear(x, of_input, *biases[:1])
        y = gates.unflatten(-1, (-1, of_state.shape[1])).sum(-2)  # shapes alone matter
        y = y + F.linear(y, of_state, *biases[1:]).unflatten(-1, (-1, of_state.shape[1])).sum(-2)
        last = y[None, :, -1]
        return (y, last, last) if kind == "lstm" else (y, last)


@contextlib.contextmanager
def as_on_cuda() -> Iterator[CudaKernels]:
    """Run what is on ``meta`` as CUDA would, in this block."""
    kernels = CudaKernels()
    usual, usual_checkpoint = torch.autocast, checkpoint._checkpoint_without_reentrant_generator

    def autocast(
        device_type: str, dtype: Any = None, enabled: bool = True, cache_enabled: bool | None = None
    ) -> Any:
        if device_type != "meta":
            return usual(device_type, dtype, enabled, cache_enabled)
        return kernels.autocast(enabled)

    def recomputed(function: Callable[..., Any], *args: Any) -> Any:
        """Recompute activations in the precision that they had, as ``torch.autocast`` does."""

        def again(*inputs: Any, half: bool = kernels.half) -> Any:
            with kernels, kernels.autocast(half):  # not active within ``backward``, where it runs
                return function(*inputs)

        return usual_checkpoint(again, *args)

    torch.autocast = autocast  # type: ignore[assignment, misc]
    checkpoint._checkpoint_without_reentrant_generator = recomputed  # type: ignore[assignment]
    try:
        with kernels:
            yield kernels
    finally:
        torch.autocast = usual  # type: ignore[misc]
        checkpoint._checkpoint_without_reentrant_generator = usual_checkpoint


def prepare_pairs(network: nn.Module, mixer: Mixer, context: Callable[[int], LayerContext]) -> None:
    """Give layers of sparse attention their pattern, which cannot be computed without numbers."""
    layers = [module for module in network.modules() if isinstance(module, Pairs)]
    for number, layer in enumerate(layers):
        plan, keys = _pattern(mixer, context(number))
        masks = [None if near.mask is None else near.mask.to("meta") for near in plan]
        layer._plan = [
            replace(near, numbers=near.numbers.to("meta"), mask=mask)
            for near, mask in zip(plan, masks, strict=True)
        ]
        layer._cache_key = lambda q: ()  # type: ignore[method-assign]
        layer.mix = partial(_attend_pairs, keys, layer.mix)  # type: ignore[method-assign]


@cache
def _pattern(mixer: Mixer, context: LayerContext) -> tuple[list[BlockNeighbours], int]:
    """Return the pattern of a layer's first blocks, and the mean number of keys of a query."""
    cpu = torch.device("cpu")
    with cpu, torch.random.fork_rng(devices=[]):
        layer = next(module for module in mixer.build(context).modules() if isinstance(module, Pairs))
        count = -(-context.length // layer.block)
        first = min(count, MIN_FLEX_LENGTH // layer.block)
        plan = [layer._find_neighbours(i, first, cpu) for i in range(first)]
        if context.length < MIN_FLEX_LENGTH:
            return plan, layer.block * sum(len(near.blocks) for near in plan) // count
        step = layer.block if layer.blockwise else 1
        some = range(count // 16, count, max(1, count // 8))  # about eight, each in the middle of an eighth
        every = [layer._pairs(i, torch.arange(count), cpu, step).unflatten(-1, (count, -1)) for i in some]
        seen = sum(int(each.any(-1).flatten(0, 2).any(0).sum()) for each in every)
    return plan + plan[-1:] * (count - first), layer.block * seen // len(some)


def _attend_pairs(
    keys: int, mix: Callable[..., Tensor], q: Tensor, k: Tensor, v: Tensor, padding_mask: Tensor | None
) -> Tensor:
    """Return sparse attention; one kernel costs as attention to as many keys as are seen on average."""
    if q.shape[2] < MIN_FLEX_LENGTH or q.shape[3] < MIN_FLEX_WIDTH:
        return mix(q, k, v, padding_mask)
    return F.scaled_dot_product_attention(q, *(_FirstKeys.apply(x, keys) for x in (k, v)))


def _drop(x: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Return what the fused kernel returns, which keeps a mask of bytes."""
    return aten.native_dropout(x, p, True)[0] if training and p else x


class _FirstKeys(torch.autograd.Function):
    """Keys or values of the first positions; their gradient has the size of that of all."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, count: int) -> Tensor:
        ctx.shape = x.shape
        return x[:, :, :count].view_as(x[:, :, :count])

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        return grad.new_empty(ctx.shape), None


def _attend(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    attn_mask: Tensor | None = None,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor:
    """Return attention by CUDA's kernel: flash without a mask in half precision, else memory-efficient."""
    mask = attn_mask if mask is None else mask
    size = q.shape[-1]
    scale = scale or size**-0.5
    if enable_gqa:
        k, v = (x.repeat_interleave(q.shape[1] // k.shape[1], 1) for x in (k, v))
    q, k, v = (F.pad(x, (0, -size % 8)) if size % 8 else x for x in (q, k, v))
    if mask is None and q.dtype in (torch.bfloat16, torch.float16):
        y = aten._scaled_dot_product_flash_attention(q, k, v, dropout_p, is_causal, False, scale=scale)[0]
    else:
        bias = None if mask is None else _as_bias(mask, q, k)
        keeps = torch.is_grad_enabled()
        found = aten._scaled_dot_product_efficient_attention(
            q, k, v, bias, keeps, dropout_p, is_causal, scale=scale
        )
        y = found[0]
    return y[..., :size] if size % 8 else y


def _as_bias(mask: Tensor, q: Tensor, k: Tensor) -> Tensor:
    """Return a mask as numbers that are added to scores, aligned as the kernel needs them."""
    if mask.dtype == torch.bool:
        mask = torch.zeros_like(mask, dtype=q.dtype).masked_fill(~mask, -torch.inf)
    mask = mask.to(q.dtype)
    L = mask.shape[-1]
    mask = F.pad(mask, (0, -L % 16))[..., :L] if L % 16 else mask
    return mask.expand(q.shape[0], q.shape[1], q.shape[2], k.shape[2])


def _single(x: Tensor) -> Tensor:
    return x.float() if x.is_meta and x.dtype in (torch.bfloat16, torch.float16) else x
