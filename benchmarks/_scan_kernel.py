"""The scan of convolutions.py in Triton: one pass over a channel, the state stays in the processor."""

# ruff: noqa: ANN001, PLR0913, PLR0917 - what a kernel is given are pointers and numbers, one by one
import triton
import triton.language as tl


def tile_of(batch: int) -> int:
    """Sequences that one program goes through: a power of two, of at least 16 and at most 64."""
    return min(64, max(16, triton.next_power_of_2(batch)))


@triton.jit
def scan(
    parts, near, gives, takes, turn, y, states, chunks, B,
    T: tl.constexpr, N: tl.constexpr, ROWS: tl.constexpr, TILE: tl.constexpr, BACK: tl.constexpr,
) -> None:  # fmt: skip
    """For every chunk c, from the first to the last or, backward, from the last:

    states[c] = z,  y[c] = near u[c] + gives z,  z = turn z + takes^T u[c]

    Args:
        parts, y: (H, T, C B).
        near: (H, T, T).
        gives, takes: (H, T, 2 N), real and imaginary parts next to each other.
        turn: (H, N, 2).
        states: (H, C B, 2 N).
        ROWS: N or more: matrices of fewer than 16 rows have no product here.
    """
    h, first = tl.program_id(0), tl.program_id(1) * TILE
    t, n, b = tl.arange(0, T), tl.arange(0, ROWS), first + tl.arange(0, TILE)
    inside, real = b[None, :] < B, n < N
    columns = chunks * B

    kernel = tl.load(near + h * T * T + t[:, None] * T + t[None, :])
    table = h * T * 2 * N + t[:, None] * 2 * N + 2 * n[None, :]
    give_re = tl.load(gives + table, mask=real[None, :], other=0.0)
    give_im = tl.load(gives + table + 1, mask=real[None, :], other=0.0)
    take_re = tl.load(takes + table, mask=real[None, :], other=0.0)
    take_im = tl.load(takes + table + 1, mask=real[None, :], other=0.0)
    turn_re = tl.load(turn + (h * N + n) * 2, mask=real, other=0.0)[:, None]
    turn_im = tl.load(turn + (h * N + n) * 2 + 1, mask=real, other=0.0)[:, None]

    re = tl.zeros((ROWS, TILE), tl.float32)
    im = tl.zeros((ROWS, TILE), tl.float32)
    for step in range(chunks):
        c = chunks - 1 - step if BACK else step
        at = h * T * columns + t[:, None] * columns + c * B + b[None, :]
        u = tl.load(parts + at, mask=inside, other=0.0)
        kept = (h * columns + c * B + b[None, :]) * 2 * N + 2 * n[:, None]
        tl.store(states + kept, re, mask=inside & real[:, None])
        tl.store(states + kept + 1, im, mask=inside & real[:, None])
        out = tl.dot(kernel, u, input_precision="ieee")
        out += tl.dot(give_re, re, input_precision="ieee") + tl.dot(give_im, im, input_precision="ieee")
        tl.store(y + at, out, mask=inside)
        turned = turn_re * re - turn_im * im
        im = turn_re * im + turn_im * re + tl.dot(tl.trans(take_im), u, input_precision="ieee")
        re = turned + tl.dot(tl.trans(take_re), u, input_precision="ieee")
