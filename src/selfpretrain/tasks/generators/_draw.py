"""Draw dashes and disks on small canvases, at twice the size and reduced to 8 bits with a Lanczos filter.

The pixels equal those of Pillow's ``ImageDraw.line`` and ``Image.resize``; reimplemented so that the images
do not depend on the version of a drawing library.
"""

import math

import numpy as np

FINE = 2
"""Supersampling: drawn pixels per final pixel and axis."""


def line(size: int, end: tuple[int, int], width: int) -> np.ndarray:
    """Return a (size, size) bool canvas with a line from its centre to ``end``, both included.

    For width 1 it is Bresenham's line; a wider one is a rectangle with integer corners, filled row by row.
    """
    out = np.zeros((size, size), dtype=bool)
    centre = size // 2
    rise = end[0] - centre
    run = end[1] - centre
    if width == 1:
        steps = max(abs(rise), abs(run))
        for i in range(steps + 1):
            out[centre + _round_away(rise * i / steps), centre + _round_away(run * i / steps)] = True
        return out
    inner = (width - 1) // 2 / math.hypot(rise, run)
    outer = width // 2 / math.hypot(rise, run)
    dx = (_round_toward(inner * rise), _round_toward(outer * rise))
    dy = (_round_toward(inner * run), _round_toward(outer * run))
    corners = [(centre + dy[1], centre - dx[0]), (end[0] + dy[1], end[1] - dx[0])]
    corners += [(end[0] - dy[0], end[1] + dx[1]), (centre - dy[0], centre + dx[1])]
    for y in range(min(corners)[0], max(corners)[0] + 1):
        crossed: list[float] = []
        for (y0, x0), (y1, x1) in zip(corners, corners[1:] + corners[:1], strict=True):
            if min(y0, y1) <= y <= max(y0, y1):
                crossed += [x0, x1] if y0 == y1 else [x0 + (y - y0) * (x1 - x0) / (y1 - y0)]
        out[y, _round_away(min(crossed)) : _round_toward(max(crossed)) + 1] = True
    return out


def disk(radius: float | int) -> list[tuple[int, int]]:
    """Return all (dy, dx) with dy^2 + dx^2 <= radius^2."""
    most = math.floor(radius)
    span = range(-most, most + 1)
    return [(dy, dx) for dy in span for dx in span if dy * dy + dx * dx <= radius * radius]


def dilate(images: np.ndarray, radius: int) -> np.ndarray:
    """Return the maximum within ``radius`` of every pixel of (n, h, w) images, padded with zeros."""
    height, width = images.shape[1:]
    padded = np.pad(images, ((0, 0), (radius, radius), (radius, radius)))
    out = np.zeros_like(images)
    for dy, dx in disk(radius):
        np.maximum(out, padded[:, radius + dy :, radius + dx :][:, :height, :width], out=out)
    return out


def reduce(images: np.ndarray, size: int) -> np.ndarray:
    """Resize (n, s, s) images of zeros and ones to (n, size, size) uint8, where 1 becomes 255.

    The filter is sinc(x) sinc(x / 3) for |x| < 3 in units of a final pixel, truncated and normalised at the
    border, in steps of 2^-22; each of the two passes rounds to 8 bits.
    """
    scale = images.shape[1] / size
    centre = (np.arange(size)[:, None] + 0.5) * scale
    position = np.arange(images.shape[1])[None]
    x = (position + 0.5 - centre) / scale
    first, last = (np.maximum(centre + side * 3 * scale + 0.5, 0).astype(int) for side in (-1, 1))
    weight = np.where((position >= first) & (position < last) & (abs(x) < 3), np.sinc(x) * np.sinc(x / 3), 0)
    weight = np.round(weight / weight.sum(1, keepdims=True) * 2.0**22)
    across = _to_bytes((images * 255.0) @ weight.T)
    return _to_bytes(weight @ across).astype(np.uint8)


def _to_bytes(sums: np.ndarray) -> np.ndarray:
    return np.floor(sums / 2.0**22 + 0.5).clip(0, 255)


def _round_away(x: float | int) -> int:
    """Round to the nearest integer, halves away from zero."""
    return math.floor(abs(x) + 0.5) * (1 if x > 0 else -1)


def _round_toward(x: float | int) -> int:
    """Round to the nearest integer, halves toward zero."""
    return math.ceil(abs(x) - 0.5) * (1 if x > 0 else -1)
