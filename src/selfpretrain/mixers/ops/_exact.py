"""Where arithmetic must keep single precision, whatever speed the surroundings ask for."""

import contextlib
from collections.abc import Iterator

import torch
from torch import Tensor


@contextlib.contextmanager
def exact(device: torch.device) -> Iterator[None]:
    """No autocast, no shortened products: bfloat16 costs a kernel 2 %, TF32 0.4 %, without a word."""
    products = torch.backends.cuda.matmul if device.type == "cuda" else torch.backends.mkldnn.matmul  # type: ignore[attr-defined]
    before = products.fp32_precision
    with torch.autocast(device.type, enabled=False):
        products.fp32_precision = "ieee"
        try:
            yield
        finally:
            products.fp32_precision = before


def chain_dtype(x: Tensor) -> torch.dtype:
    """The precision for long chains of products: double on GPUs, where TF32 then never comes in."""
    return torch.float64 if x.is_cuda else x.dtype
