"""Shapes of the results of the most frequent operations on the device ``meta``.

PyTorch finds them in Python, by general rules that take up to a millisecond; most operations of a step are
element by element, of tensors of one type.
"""

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

aten = torch.ops.aten


SHORTCUTS: dict[Any, Callable[..., Any]] = {}
"""Functions from the arguments of operations to their empty results; these are None if PyTorch must say."""


def shortcut(function: Any, args: Any, kwargs: Any) -> Any:
    """Return an empty result of an operation; None if it is not known."""
    find = SHORTCUTS.get(function)
    return None if find is None else find(args, kwargs)


def _for(*operations: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Register a function as the shortcut of some operations."""

    def register(find: Callable[..., Any]) -> Callable[..., Any]:
        SHORTCUTS.update(dict.fromkeys(operations, find))
        return find

    return register


@_for(
    *(aten.neg.default, aten.exp.default, aten.sin.default, aten.cos.default, aten.sigmoid.default),
    *(aten.tanh.default, aten.gelu.default, aten.silu.default, aten.relu.default, aten.sqrt.default),
    *(aten.rsqrt.default, aten.log.default, aten.log1p.default, aten.expm1.default),
    *(aten.pow.Tensor_Scalar, aten.gelu_backward.default, aten.silu_backward.default),
    *(aten.sigmoid_backward.default, aten.tanh_backward.default, aten.mul.Scalar, aten.add.Scalar),
)
def _unary(args: Any, kwargs: Any) -> Tensor | None:
    x = args[0]
    return torch.empty_like(x) if x.is_meta and x.is_floating_point() else None


@_for(aten.add.Tensor, aten.sub.Tensor, aten.mul.Tensor)
def _binary(args: Any, kwargs: Any) -> Tensor | None:
    x, y, *_ = args
    if not isinstance(y, Tensor):
        return _unary(args, kwargs) if isinstance(y, (int, float)) else None
    if not (x.is_meta and y.is_meta):
        return None
    if x.dtype != y.dtype:
        kind = torch.result_type(x, y)
        return torch.empty_like(x, dtype=kind) if x.shape == y.shape else None
    if x.shape == y.shape:
        return torch.empty_like(x)
    shape = torch.broadcast_shapes(x.shape, y.shape)
    like = x if shape == x.shape else y if shape == y.shape else None
    return x.new_empty(shape) if like is None else torch.empty_like(like)


@_for(aten.div.Tensor)
def _quotient(args: Any, kwargs: Any) -> Tensor | None:
    x = args[0]
    return _binary(args, {}) if not kwargs and (x.is_floating_point() or x.is_complex()) else None


@_for(
    *(aten.add_.Tensor, aten.sub_.Tensor, aten.mul_.Tensor, aten.div_.Tensor, aten.add_.Scalar),
    *(aten.mul_.Scalar, aten.addcmul_.default, aten.neg_.default, aten.exp_.default),
    *(aten.zero_.default, aten.fill_.Scalar),
)
def _in_place(args: Any, kwargs: Any) -> Tensor | None:
    return args[0] if args[0].is_meta else None


@_for(aten.complex.default)
def _complex(args: Any, kwargs: Any) -> Tensor | None:
    real, imaginary = args
    if real.shape != imaginary.shape or real.dtype != torch.float32:
        return None
    return torch.empty_like(real, dtype=torch.complex64)


@_for(aten.arange.default, aten.arange.start, aten.arange.start_step)
def _arange(args: Any, kwargs: Any) -> Tensor | None:
    device = kwargs.get("device")
    if device is None or torch.device(device).type != "meta":
        return None
    start, end, step = {1: (0, *args, 1), 2: (*args, 1)}.get(len(args), args)
    usual = torch.int64 if all(isinstance(x, int) for x in (start, end, step)) else torch.float32
    return torch.empty(math.ceil((end - start) / step), dtype=kwargs.get("dtype") or usual, device="meta")


@_for(aten.mm.default, aten.bmm.default, aten.addmm.default, aten.baddbmm.default)
def _product(args: Any, kwargs: Any) -> Tensor:
    """Return the product of the last two, which may be added to another tensor."""
    x, y = args[-2:]
    return x.new_empty(*x.shape[:-1], y.shape[-1])


@_for(aten.sum.dim_IntList)
def _sum(args: Any, kwargs: Any) -> Tensor | None:
    x, dim, keepdim = (*args, False)[:3]
    if not (x.is_meta and x.is_floating_point()) or kwargs.get("dtype") not in (None, x.dtype):
        return None
    gone = {d % x.ndim for d in dim} if dim else set(range(x.ndim))
    kept = ((i, n) for i, n in enumerate(x.shape) if keepdim or i not in gone)
    return x.new_empty([1 if i in gone else n for i, n in kept])


@_for(aten.native_layer_norm.default)
def _layer_norm(args: Any, kwargs: Any) -> tuple[Tensor, Tensor, Tensor]:
    x, shape, *_ = args
    moments = (*x.shape[: -len(shape)], *[1] * len(shape))
    mean, rstd = (x.new_empty(moments, dtype=torch.float32) for _ in range(2))
    return x.new_empty(x.shape), mean, rstd


@_for(aten.native_layer_norm_backward.default)
def _layer_norm_backward(args: Any, kwargs: Any) -> tuple[Tensor | None, ...]:
    _, x, _, _, _, weight, bias, wanted = args
    made = zip((x, weight, bias), wanted, strict=True)
    return tuple(torch.empty_like(each) if want and each is not None else None for each, want in made)
