"""Where arithmetic must keep single precision, whatever speed the surroundings ask for."""

import contextlib
from collections.abc import Iterator
from typing import Any, Literal

import torch
from torch import Tensor


@contextlib.contextmanager
def exact(device: torch.device) -> Iterator[None]:
    """No autocast, no shortened products: bfloat16 costs a kernel 2 %, TF32 0.4 %, without a word."""
    with torch.autocast(device.type, enabled=False), products(device, "ieee"):
        yield


@contextlib.contextmanager
def products(device: torch.device, precision: Literal["ieee", "tf32"]) -> Iterator[None]:
    """Products of single precision, whole or shortened; what was asked for before comes back.

    Nothing where blocks are traced, so that graphs go through: compiled stages shorten no products.
    """
    if torch.compiler.is_compiling():
        yield
        return
    cuda: list[Any] = [torch.backends.cuda.matmul, torch.backends.cudnn.conv, torch.backends.cudnn.rnn]  # type: ignore[attr-defined]
    parts = cuda if device.type == "cuda" else [torch.backends.mkldnn.matmul]  # type: ignore[attr-defined]
    before = [part.fp32_precision for part in parts]
    try:
        for part in parts:
            part.fp32_precision = precision
        yield
    finally:
        for part, usual in zip(parts, before, strict=True):
            part.fp32_precision = usual


def chain_dtype(x: Tensor) -> torch.dtype:
    """The precision for long chains of products: double on GPUs, where TF32 then never comes in."""
    return torch.float64 if x.is_cuda else x.dtype
