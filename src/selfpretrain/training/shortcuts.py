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


def shortcut(function: Any, args: Any, kwargs: Any) -> Any:
    """Return an empty result of an operation; None if it is not known."""
    find = SHORTCUTS.get(function)
    return None if find is None else find(*args, **kwargs)


def _unary(x: Tensor, *rest: Any, **how: Any) -> Tensor | None:
    return torch.empty_like(x) if x.is_meta and x.is_floating_point() else None


def _binary(x: Tensor, y: Any, *rest: Any, **how: Any) -> Tensor | None:
    if not isinstance(y, Tensor):
        return _unary(x) if isinstance(y, (int, float)) else None
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


def _quotient(x: Tensor, y: Any, **how: Any) -> Tensor | None:
    return _binary(x, y) if x.is_floating_point() or x.is_complex() else None


def _in_place(x: Tensor, *rest: Any, **how: Any) -> Tensor | None:
    return x if x.is_meta else None


def _complex(real: Tensor, imaginary: Tensor) -> Tensor | None:
    if real.shape != imaginary.shape or real.dtype != torch.float32:
        return None
    return torch.empty_like(real, dtype=torch.complex64)


def _arange(*limits: Any, dtype: Any = None, device: Any = None, **how: Any) -> Tensor | None:
    if device is None or torch.device(device).type != "meta":
        return None
    start, end, step = {1: (0, *limits, 1), 2: (*limits, 1)}.get(len(limits), limits)
    usual = torch.int64 if all(isinstance(x, int) for x in (start, end, step)) else torch.float32
    return torch.empty(math.ceil((end - start) / step), dtype=dtype or usual, device="meta")


def _product(x: Tensor, y: Tensor) -> Tensor:
    return x.new_empty(*x.shape[:-1], y.shape[-1])


def _sum(x: Tensor, dim: Any, keepdim: bool = False, **how: Any) -> Tensor | None:
    if not (x.is_meta and x.is_floating_point()) or how.get("dtype") not in (None, x.dtype):
        return None
    gone = {d % x.ndim for d in dim} if dim else set(range(x.ndim))
    kept = ((i, n) for i, n in enumerate(x.shape) if keepdim or i not in gone)
    return x.new_empty([1 if i in gone else n for i, n in kept])


def _layer_norm(x: Tensor, shape: Any, *rest: Any) -> tuple[Tensor, Tensor, Tensor]:
    moments = (*x.shape[: -len(shape)], *[1] * len(shape))
    mean, rstd = (x.new_empty(moments, dtype=torch.float32) for _ in range(2))
    return x.new_empty(x.shape), mean, rstd


def _layer_norm_backward(
    grad: Tensor, x: Tensor, shape: Any, mean: Tensor, rstd: Tensor, weight: Any, bias: Any, wanted: Any
) -> tuple[Tensor | None, ...]:
    made = zip((x, weight, bias), wanted, strict=True)
    return tuple(torch.empty_like(each) if want and each is not None else None for each, want in made)


SHORTCUTS: dict[Any, Callable[..., Any]] = {
    **dict.fromkeys((aten.add.Tensor, aten.sub.Tensor, aten.mul.Tensor), _binary),
    aten.div.Tensor: _quotient,
    **dict.fromkeys(
        (
            *(aten.neg.default, aten.exp.default, aten.sin.default, aten.cos.default, aten.sigmoid.default),
            *(aten.tanh.default, aten.gelu.default, aten.silu.default, aten.relu.default, aten.sqrt.default),
            *(aten.rsqrt.default, aten.log.default, aten.log1p.default, aten.expm1.default),
            *(aten.pow.Tensor_Scalar, aten.gelu_backward.default, aten.silu_backward.default),
            *(aten.sigmoid_backward.default, aten.tanh_backward.default, aten.mul.Scalar, aten.add.Scalar),
        ),
        _unary,
    ),
    **dict.fromkeys(
        (
            *(aten.add_.Tensor, aten.sub_.Tensor, aten.mul_.Tensor, aten.div_.Tensor, aten.add_.Scalar),
            *(aten.mul_.Scalar, aten.addcmul_.default, aten.neg_.default, aten.exp_.default),
            *(aten.zero_.default, aten.fill_.Scalar),
        ),
        _in_place,
    ),
    aten.complex.default: _complex,
    aten.mm.default: _product,
    aten.bmm.default: _product,
    aten.addmm.default: lambda bias, x, y, **how: _product(x, y),
    aten.baddbmm.default: lambda bias, x, y, **how: _product(x, y),
    aten.sum.dim_IntList: _sum,
    aten.native_layer_norm.default: _layer_norm,
    aten.native_layer_norm_backward.default: _layer_norm_backward,
    **dict.fromkeys((aten.arange.default, aten.arange.start, aten.arange.start_step), _arange),
}
