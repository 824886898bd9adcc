"""The selective scan of Mamba on a CPU, a few sequences at a time.

h[t] = exp(dt[t] A) h[t-1] + x[t] B[t],  y[t] = C[t]^T h[t],  x[t] = dt[t] u[t]

With PyTorch's operators, a dozen passes each read and write B x L x D x N numbers. Here the states of few
sequences stay in the processor's cache, the backward pass computes them again, and none are kept for it.
"""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import NDArray
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.utils._python_dispatch import is_in_torch_dispatch_mode

from ...system.jit import jit

TOGETHER = 128
"""Positions whose states fit into the cache: short sequences are scanned together, up to as many."""
Channels = Float[Tensor, "B L D"]
Inputs = Float[Tensor, "B L N"]


def is_faster(u: Tensor) -> bool:
    """Return whether ``cpu_selective_scan`` can take sequences (B, L, D): it is faster than operators.

    It has none that a counter of FLOPs, a tracer or a compiler could see.
    """
    plain = type(u) is Tensor and not (is_in_torch_dispatch_mode() or torch.compiler.is_compiling())
    return plain and u.device.type == "cpu"


def cpu_selective_scan(x: Channels, dt: Channels, A: Float[Tensor, "D N"], B: Inputs, C: Inputs) -> Channels:
    """Return y[t] = C[t]^T h[t]; sequences are shared out to the threads of PyTorch."""
    return _SelectiveScan.apply(x, dt, A, B, C)


class _SelectiveScan(torch.autograd.Function):
    """``cpu_selective_scan``, which keeps its inputs for the backward pass."""

    @staticmethod
    def forward(ctx: Any, *inputs: Tensor) -> Channels:
        x, dt, A, B, C = inputs = tuple(each.contiguous() for each in inputs)
        ctx.save_for_backward(*inputs)
        y = torch.zeros_like(x)

        def scan(i: slice) -> None:
            _scan(_decay(dt[i], A), x[i].numpy(), B[i].numpy(), C[i].numpy(), y[i].numpy())

        _for_few(scan, x)
        return y

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, of_y: Channels) -> tuple[Tensor, ...]:
        x, dt, A, B, C = ctx.saved_tensors
        of_y = of_y.contiguous()
        of_x, of_dt, of_B, of_C = map(torch.zeros_like, (x, dt, B, C))
        of_A = A.new_zeros(len(x), *A.mT.shape)

        def scan_back(i: slice) -> None:
            decay = _decay(dt[i], A)
            sequences, length, states, channels = decay.shape
            h = np.empty((sequences, length + 1, states, channels), decay.dtype)
            given = (each[i].numpy() for each in (x, dt, B, C, of_y, of_x, of_dt, of_A))
            _scan_back(decay, h, A.mT.contiguous().numpy(), *given)
            # Rows times matrices: several times as fast on CPUs as matrices times columns.
            of_B[i] = (x[i][..., None, :] @ torch.from_numpy(decay).mT)[..., 0, :]
            of_C[i] = (of_y[i][..., None, :] @ torch.from_numpy(h[:, 1:]).mT)[..., 0, :]

        _for_few(scan_back, x)
        return of_x, of_dt, of_A.sum(0).mT, of_B, of_C


def _decay(dt: Float[Tensor, "B L D"], A: Float[Tensor, "D N"]) -> NDArray[Any]:
    """Return exp(dt[t] A), (B, L, N, D): the innermost loops are over channels, of which there are most."""
    return (dt[:, :, None] * A.mT.contiguous()).exp_().numpy()


def _for_few(work: Callable[[slice], None], x: Channels) -> None:
    """Do some work for a few sequences at a time, in as many threads as PyTorch uses."""
    size = max(1, TOGETHER // x.shape[1])
    parts = [slice(start, start + size) for start in range(0, len(x), size)]
    threads = min(torch.get_num_threads(), len(parts))
    if threads < 2:
        for part in parts:
            work(part)
        return
    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(torch.no_grad()(work), parts))  # a thread begins with gradients


@jit
def _scan(decay: NDArray[Any], x: NDArray[Any], B: NDArray[Any], C: NDArray[Any], y: NDArray[Any]) -> None:
    """Add C[t]^T h[t] to y (B, L, D)."""
    sequences, length, states, channels = decay.shape
    for i in range(sequences):
        h = np.zeros((states, channels), decay.dtype)
        for t in range(length):
            for n in range(states):
                b = B[i, t, n]
                c = C[i, t, n]
                for d in range(channels):
                    h[n, d] = decay[i, t, n, d] * h[n, d] + b * x[i, t, d]
                    y[i, t, d] += c * h[n, d]


@jit
def _scan_back(
    decay: NDArray[Any],
    h: NDArray[Any],
    A: NDArray[Any],
    x: NDArray[Any],
    dt: NDArray[Any],
    B: NDArray[Any],
    C: NDArray[Any],
    of_y: NDArray[Any],
    of_x: NDArray[Any],
    of_dt: NDArray[Any],
    of_A: NDArray[Any],
) -> None:
    """Write the states after every position, and add to the gradients of inputs.

    Args:
        decay: becomes the gradient of the states.
        h: (B, L + 1, N, D); becomes the states, from that before the first position on.
        A: its transpose, (N, D).
    """
    sequences, length, states, channels = decay.shape
    for i in range(sequences):
        h[i, 0] = 0
        for t in range(length):
            for n in range(states):
                b = B[i, t, n]
                for d in range(channels):
                    h[i, t + 1, n, d] = decay[i, t, n, d] * h[i, t, n, d] + b * x[i, t, d]
        of_state = np.zeros((states, channels), decay.dtype)
        for t in range(length - 1, -1, -1):
            for n in range(states):
                b = B[i, t, n]
                c = C[i, t, n]
                for d in range(channels):
                    of_h = of_state[n, d] + c * of_y[i, t, d]
                    of_x[i, t, d] += b * of_h
                    of_state[n, d] = decay[i, t, n, d] * of_h
                    of_exponent = of_state[n, d] * h[i, t, n, d]
                    of_dt[i, t, d] += A[n, d] * of_exponent
                    of_A[i, n, d] += dt[i, t, d] * of_exponent
                    decay[i, t, n, d] = of_h
