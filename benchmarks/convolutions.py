"""Other ways to a long convolution than the FFT: is one worth a kernel of its own?

    python benchmarks/convolutions.py [--lengths 1024,4096] [--states 16,64] [--device cuda] [--out FILE]

y[t] = Re sum_n w_n sum_{j <= t} exp(r_n j) u[t - j] for every channel, what S4D, DLR, LRU and EMA compute,
forward and backward with the gradients of u, w and r:

fft       the package: the kernel by two small tables, then a convolution by FFT
direct    the kernel in the same way, then a convolution term by term; up to 1,024 positions
products  the kernel in the same way, then an FFT in two levels, each a product of matrices
chunks    chunks of T positions, products of matrices alone: what lies in the same chunk, and a state of all
          that came before, carried from chunk to chunk
compiled  ``chunks`` by torch.compile
triton    ``chunks`` with the state kept in the processor (one pass over u); where Triton is installed, on a
          GPU, or anywhere with TRITON_INTERPRET=1, which is for tests and tells nothing about time

Milliseconds of a pass, median of several, and the largest error of y and of the gradients relative to the
largest number, against double precision. A form is taken into the package where it is 1.3 times as fast as
the others on a GPU. GLA and Mamba-2, whose factors depend on the sequence, are products of matrices in chunks
already.
"""

import argparse
import functools
import importlib.util
import json
import statistics
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Complex, Float
from torch import Tensor

from selfpretrain.mixers.ops._modes import as_real, powers
from selfpretrain.mixers.ops.longconv import _direct, causal_conv
from selfpretrain.mixers.ops.vandermonde import modal_kernel

CHUNK, BATCH, WIDTH, WARM, PASSES = 64, 8, 256, 2, 9
Scan = Callable[[Tensor, Tensor, Tensor], Tensor]
"""u (B, L, H), weight (H, N) and rate (H, N) to y (B, L, H)."""


def fft(u: Tensor, weight: Tensor, rate: Tensor) -> Tensor:
    """As the package does it."""
    return causal_conv(u, modal_kernel(weight[None], rate, u.shape[1])[0])


def direct(u: Tensor, weight: Tensor, rate: Tensor) -> Tensor:
    """Term by term."""
    return _direct(u, modal_kernel(weight[None], rate, u.shape[1])[0], 0)


def products(u: Tensor, weight: Tensor, rate: Tensor) -> Tensor:
    """By transforms whose answers are in another order, which the way back undoes."""
    taps = modal_kernel(weight[None], rate, u.shape[1])[0]
    bits = (2 * u.shape[1] - 1).bit_length()
    first, second = 1 << bits // 2, 1 << bits - bits // 2
    a, b = torch.arange(first, device=u.device), torch.arange(second, device=u.device)
    outer, inner = (_turns(x[:, None] * x, len(x)).to(taps.dtype.to_complex()) for x in (a, b))
    between = _turns(a[:, None] * b, first * second).to(outer)

    def forth(x: Tensor) -> Tensor:
        parts = F.pad(x, (0, first * second - x.shape[-1])).unflatten(-1, (first, second))
        return ((outer @ parts.to(outer)) * between) @ inner

    spectrum = forth(u.mT) * forth(taps)
    back = outer.conj() @ ((spectrum @ inner.conj()) * between.conj()) / (first * second)
    return back.real.flatten(-2)[..., : u.shape[1]].mT


def _turns(product: Tensor, n: int) -> Tensor:
    """exp(-2 pi i product / n), in double precision."""
    angle = -2 * torch.pi * (product % n).double() / n
    return torch.complex(angle.cos(), angle.sin())


def tables(
    weight: Complex[Tensor, "H N"], rate: Complex[Tensor, "H N"]
) -> tuple[Float[Tensor, "H T T"], Float[Tensor, "H T 2N"], Float[Tensor, "H T 2N"], Complex[Tensor, "H N"]]:
    """A chunk's own kernel as a matrix, what a state gives, what it takes, and how it turns."""
    steps = powers(rate, 1, CHUNK + 1, weight.dtype)  # (H, T + 1, N)
    taps = (weight[:, None] * steps[:, :-1]).real.sum(-1)  # (H, T)
    lag = torch.arange(CHUNK, device=rate.device)[:, None] - torch.arange(CHUNK, device=rate.device)
    near = torch.where(lag >= 0, taps[:, lag.clamp(min=0)], 0)
    gives = as_real(torch.conj_physical(weight[:, None] * steps[:, 1:]))  # Re(w z), a product of real vectors
    takes = as_real(steps[:, :-1].flip(1))
    return near, gives, takes, steps[:, -1]


def chunks(u: Tensor, weight: Tensor, rate: Tensor) -> Tensor:
    """Products of matrices for all chunks at once, and one step per chunk."""
    near, gives, takes, turn = tables(weight, rate)
    parts = split(u)  # (H, T, C B)
    fresh = torch.view_as_complex((takes.mT @ parts).mT.unflatten(-1, (-1, 2)).contiguous())  # (H, C B, N)
    state = carried(fresh.unflatten(1, (-1, len(u))), turn)
    return joined(near @ parts + gives @ as_real(state).flatten(1, 2).mT, u)


def compiled(u: Tensor, weight: Tensor, rate: Tensor) -> Tensor:
    """``chunks``, compiled when it is first asked for."""
    return _compiler()(u, weight, rate)


@functools.cache
def _compiler() -> Scan:
    return torch.compile(chunks)


def carried(fresh: Complex[Tensor, "H C B N"], turn: Complex[Tensor, "H N"]) -> Complex[Tensor, "H C B N"]:
    """The state in front of every chunk."""
    state, found = torch.zeros_like(fresh[:, 0]), []
    for each in fresh.unbind(1):
        found.append(state)
        state = state * turn[:, None] + each
    return torch.stack(found, dim=1)


def split(u: Float[Tensor, "B L H"]) -> Float[Tensor, "H T CB"]:
    """Chunks side by side, the sequences of a chunk next to one another."""
    B, L, H = u.shape
    padded = F.pad(u, (0, 0, 0, -L % CHUNK)).view(B, -1, CHUNK, H)
    return padded.permute(3, 2, 1, 0).reshape(H, CHUNK, -1)


def joined(y: Float[Tensor, "H T CB"], u: Float[Tensor, "B L H"]) -> Float[Tensor, "B L H"]:
    """Undo ``split``."""
    B, L, H = u.shape
    return y.view(H, CHUNK, -1, B).permute(3, 2, 1, 0).reshape(B, -1, H)[:, :L]


def fused(u: Tensor, weight: Tensor, rate: Tensor) -> Tensor:
    """The same in one pass by Triton."""
    near, gives, takes, turn = tables(weight, rate)
    return joined(_Fused.apply(split(u), near, gives, takes, torch.view_as_real(turn), len(u)), u)


class _Fused(torch.autograd.Function):
    """Backward is the same pass from the other end: what a state gives and what it takes change places."""

    @staticmethod
    def forward(
        ctx: Any, parts: Tensor, near: Tensor, gives: Tensor, takes: Tensor, turn: Tensor, B: int
    ) -> Tensor:
        y, states = launched(parts, near, gives, takes, turn, B, back=False)
        ctx.save_for_backward(parts, near, gives, takes, turn, states)
        ctx.B = B
        return y

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        parts, near, gives, takes, turn, states = ctx.saved_tensors
        grad = grads[0].contiguous()
        mirrored = turn * turn.new_tensor([1.0, -1.0])
        of_parts, after = launched(grad, near.mT.contiguous(), takes, gives, mirrored, ctx.B, back=True)
        # after[c] is the gradient of the state behind chunk c: it reaches the parts and the state in front.
        z, g = (torch.view_as_complex(x.unflatten(-1, (-1, 2))) for x in (states, after))
        of_turn = torch.view_as_real((z.conj() * g).sum(1))
        return of_parts, grad @ parts.mT, grad @ states, parts @ after, of_turn, None


def launched(
    parts: Tensor, near: Tensor, gives: Tensor, takes: Tensor, turn: Tensor, B: int, back: bool
) -> tuple[Float[Tensor, "H T CB"], Float[Tensor, "H CB 2N"]]:
    """One program per channel and tile of sequences; the answer, and the state at every chunk."""
    from _scan_kernel import scan, tile_of

    H, _, columns = parts.shape
    y, states = parts.new_empty(parts.shape), parts.new_empty(H, columns, gives.shape[-1])
    tile = tile_of(B)
    scan[(H, -(-B // tile))](
        *(x.contiguous() for x in (parts, near, gives, takes, turn)),
        *(y, states, columns // B, B),
        T=CHUNK,
        N=turn.shape[1],
        ROWS=max(16, turn.shape[1]),
        TILE=tile,
        BACK=back,
    )
    return y, states


FORMS: dict[str, Scan] = {
    "fft": fft,
    "direct": direct,
    "products": products,
    "chunks": chunks,
    "compiled": compiled,
    "triton": fused,
}
DIRECT = 1024
"""Positions up to which the square of them is tried."""


def timed(device: str, length: int) -> list[str]:
    """The forms whose times say something here."""
    has_triton = device == "cuda" and importlib.util.find_spec("triton") is not None
    possible = {"triton": has_triton, "direct": length <= DIRECT}
    return [name for name in FORMS if possible.get(name, True)]


def drawn(length: int, states: int, width: int, batch: int, device: str) -> list[Tensor]:
    """u, weight and rate of S4D's start."""
    made = torch.Generator().manual_seed(0)
    u = torch.randn(batch, length, width, generator=made)
    weight = torch.randn(width, states // 2, dtype=torch.complex64, generator=made)
    dt = 1e-3 * 100 ** torch.rand(width, 1, dtype=torch.float64, generator=made)
    rate = dt * torch.complex(
        torch.full((states // 2,), -0.5).double(), torch.pi * torch.arange(states // 2).double()
    )
    return [x.to(device).requires_grad_() for x in (u, weight * (rate.exp() - 1).to(weight), rate)]


def answers(form: str, given: list[Tensor]) -> list[Tensor]:
    """y and the gradients of u, weight and rate for a loss that weighs every position."""
    y = FORMS[form](*given)
    weights = torch.linspace(-1, 1, y.numel(), device=y.device, dtype=y.dtype).view_as(y)
    return [y.detach(), *torch.autograd.grad((y * weights).sum(), given)]


def error(form: str, given: list[Tensor]) -> float:
    """The largest, relative to the largest number, against double precision."""
    exact = [x.detach().to(torch.promote_types(x.dtype, torch.float64)).requires_grad_() for x in given]
    pairs = zip(answers(form, given), answers("fft", exact), strict=True)
    return max(float((x - y).abs().max() / y.abs().max()) for x, y in pairs)


def milliseconds(form: str, given: list[Tensor]) -> float:
    """Of a pass forward and backward."""
    taken = []
    for _ in range(WARM + PASSES):
        start = clock(given[0].device)
        answers(form, given)
        taken.append(1e3 * (clock(given[0].device) - start))
    return statistics.median(taken[WARM:])


def clock(device: torch.device) -> float:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return time.perf_counter()


def compared(
    length: int, states: int, width: int, batch: int, device: str, only: Sequence[str] = ()
) -> dict[str, Any]:
    """Milliseconds and errors of forms, all unless told, at one size."""
    found: dict[str, Any] = {"length": length, "states": states, "width": width, "batch": batch}
    for form in only or timed(device, length):
        given = drawn(length, states, width, batch, device)
        small = drawn(length, states, 16, 2, device)
        found[form] = {"milliseconds": milliseconds(form, given), "error": error(form, small)}
    return found


def main() -> None:
    """One line per size, as JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--lengths", default="1024,4096,16384")
    parser.add_argument("--states", default="16,64")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    for length in map(int, given.lengths.split(",")):
        for states in map(int, given.states.split(",")):
            line = json.dumps(compared(length, states, WIDTH, BATCH, given.device))
            print(line, flush=True)
            if given.out:
                with given.out.open("a") as file:
                    file.write(line + "\n")


if __name__ == "__main__":
    main()
