"""Precomputed tables of the Pathfinder generator: every dash at every angle, and what may follow it.

Dashes and disks are drawn on small canvases, at twice the size, and reduced to 8 bits with a Lanczos filter.
The pixels equal those of Pillow's ``ImageDraw.line`` and ``Image.resize``; reimplemented so that the images
do not depend on the version of a drawing library.
"""

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

ANGLES = 360  # directions of first dashes, -180..179 degrees
CROSSED = 459  # two masks must not sum to this, 1.8 times 255, at any pixel
FREE = 76  # a pixel is free up to this value of a mask, 0.3 times 255
HEAD = 0  # first of two columns of ``steps``: from a first dash to its end
BACK = 2  # from there to its pivot, the middle of the gap before a dash
AHEAD = 4  # from any pivot to the next one
APART = 6  # from the start of contour 1 to that of contour 2
ONE_END = 1  # pixels, down or right, within which the ends of both contours cannot be distinguished
NEAR, CORE, WINDOW, INSIDE, FIRST, OTHERS, FITS = range(7)
"""Rows of ``boxes``. From the start of a dash: the area that it may affect, and its core. From its pivot: the
pixels where the next dash may start. In the image: the pixels far enough from the border, those where contour
1 and where distractors may start, and those where a later dash fits."""
FINE = 2  # supersampling: drawn pixels per final pixel and axis


@dataclass(frozen=True)
class Rules:
    """Parameters of the images of one resolution; lengths in pixels."""

    size: int  # of the image
    margins: tuple[int, ...]  # half the gap between two dashes; one of them is drawn per image
    padding: int  # blocked frame
    dash: int  # length of a dash
    thickness: float
    marker: float  # radius
    apart: int  # distance between the first dashes of both contours
    continuity: float  # larger values give straighter contours
    distractors: int  # dashes of all distractors together
    contrast: tuple[float, float, float]  # contours, distractors, markers


class Tables(NamedTuple):
    """Precomputed arrays for one margin and contour length: A directions, R dashes that may follow one.

    Directions below 360 are those of first dashes, from their start. A later dash starts at its far end, at a
    pixel of the ring around its pivot; its direction is the index of that pixel.
    """

    size: int
    margin: int
    padding: int
    length: int  # dashes of a contour
    short: int  # dashes of a distractor
    distractors: int
    least: int  # minimum pixels, down or right, between the ends of both contours
    contrast: tuple[float, float, float]
    steps: np.ndarray  # (A, 8) down and right: see HEAD, BACK, AHEAD, APART
    turns: np.ndarray  # (A, R, 4) next dashes: row and column from the pivot, direction, weight
    boxes: np.ndarray  # (7, A, 4) first and last row and column: see NEAR to FITS
    masks: np.ndarray  # (A, s, s) what a dash occupies, margin included; it starts in the centre
    reach: np.ndarray  # (A, s, s) maximum of the mask within the margin
    seats: np.ndarray  # (360, most, 2) pixels that must be free for a first dash, from its start
    cores: np.ndarray  # (A, most, 3) pixels of the core, and the least mask value that collides
    ink: np.ndarray  # (A, most, 3) pixels of a dash, brightest first: row and column from its start, light
    markers: np.ndarray  # (m, m, m, m) the marker at every pixel of a small image


def tables(rules: Rules, margin: int, length: int, quirks: bool) -> Tables:
    """Compute the tables for contours of ``length`` dashes.

    Args:
        quirks: start dashes as the published generator does, see ``_seats`` and ``_start_boxes``, and
            let contours end anywhere, even on the same pixel.
    """
    reach = rules.dash + margin
    # Distinct pixels (R, 2) of a circle around a pixel's upper left corner, in steps of one.
    around = np.arange(0, 360, 360 / (2 * reach * math.pi)).tolist()
    ring = np.unique(np.floor(_steps(reach, [_radians(1) * i for i in around])).astype(np.int64), axis=0)
    first = [_radians(degrees) for degrees in range(-180, 180)]
    later = [math.atan2(dy, dx) for dy, dx in ring.tolist()]
    dashes = np.stack([_dash(rules, margin, a) for a in [*first, *map(_opposite, later)]])
    size = dashes.shape[1] // FINE + 1
    mask = reduce(dilate(dashes, margin * FINE), size)
    wide = np.pad(mask, ((0, 0), (margin, margin), (margin, margin)))
    seats = _seats(mask == 255, reach, quirks)
    core = mask >= CROSSED - 255
    near = dilate(wide, margin)
    rooms = (
        _start_boxes(seats, rules.size, 2 * rules.apart, quirks),
        _start_boxes(seats, rules.size, rules.padding, quirks),
        _start_boxes(core, rules.size, rules.padding, quirks=False),
    )
    turns = _turns([*first, *later], ring, rules.continuity)
    steps = np.zeros((len(turns), 8))  # zero where a direction does not need one
    steps[:ANGLES, HEAD : HEAD + 2] = _steps(rules.dash, first)
    steps[:ANGLES, BACK : BACK + 2] = _steps(rules.dash + margin, [_opposite(a) for a in first])
    steps[:ANGLES, APART : APART + 2] = _steps(rules.apart, [_radians(degrees) for degrees in range(360)])
    steps[:, AHEAD : AHEAD + 2] = _steps(rules.dash + 2 * margin, [*first, *later])
    far = rules.padding + margin  # pixels from the border
    inside = np.tile([far, rules.size - 1 - far] * 2, (len(turns), 1))
    larger = np.array([-1, 1, -1, 1])
    windows = [np.concatenate([[(0, 0)], some[some[:, 3] > 0, :2]]) for some in turns]
    return Tables(
        size=rules.size,
        margin=margin,
        padding=rules.padding,
        length=length,
        short=length // 3,
        distractors=rules.distractors // (length // 3),
        least=0 if quirks else ONE_END + 1,
        contrast=rules.contrast,
        steps=steps,
        turns=turns,
        boxes=np.stack(
            [_boxes(_drawn(near)) + larger, _boxes(_drawn(core)) + larger, _boxes(windows), inside, *rooms]
        ),
        masks=wide,
        reach=near,
        seats=_pixels(seats[:ANGLES])[:, :, :2],
        cores=_pixels(np.where(core, CROSSED - mask.astype(np.int64), 0), blank=256),
        ink=_pixels(reduce(dashes, size)),
        markers=_markers(rules),
    )


def _radians(degrees: int) -> float:
    return degrees * math.pi / 180


def _opposite(angle: float) -> float:
    return angle + math.pi if angle < 0 else angle - math.pi


def _steps(length: int, angles: list[float]) -> np.ndarray:
    """Return (n, 2) steps down and right; not rounded, since the sum of position and step is rounded up."""
    return np.array([(length * math.sin(a), length * math.cos(a)) for a in angles])


def _dash(rules: Rules, margin: int, angle: float) -> np.ndarray:
    """Draw a dash from the centre of its canvas, in supersampled pixels."""
    centre = (rules.dash + math.ceil(rules.thickness) + margin) * FINE
    down, right = _steps(rules.dash * FINE, [angle])[0]
    width = round(rules.thickness * FINE)
    end = math.ceil(centre + down), math.ceil(centre + right)
    return line(2 * centre + 1, end, width)


def _seats(solid: np.ndarray, most: int, quirks: bool) -> np.ndarray:
    """Return the pixels that must be free for a first dash: those that its mask fills.

    The published generator checks them shifted by one pixel down and right, and no further than ``most``.
    """
    if not quirks:
        return solid
    seats = np.zeros_like(solid)
    centre = solid.shape[1] // 2
    window = slice(centre - most, centre + most + 1)
    seats[:, window, window] = np.roll(solid, (1, 1), axis=(1, 2))[:, window, window]
    return seats


def _start_boxes(pixels: np.ndarray, size: int, border: int, quirks: bool) -> np.ndarray:
    """Return the (n, 4) first and last row and column at which all given pixels stay inside a border.

    The published generator fails if, at some position in the image, a seat is completely outside: its
    dilation (OpenCV's) then returns the smallest number of the type. So only directions whose seat has a
    pixel in each of the four quadrants succeed.
    """
    last = size - 1 - border
    drawn = _drawn(pixels)
    out = np.array([border, last, border, last]) - _boxes(drawn)
    for i, (down, right) in enumerate(some.T for some in drawn):
        sides = [np.any((a * down >= 0) & (b * right >= 0)) for a in (-1, 1) for b in (-1, 1)]
        if quirks and not all(sides):
            out[i] = (0, -1, 0, -1)
    return out


def _turns(angles: list[float], ring: np.ndarray, continuity: float) -> np.ndarray:
    """Return what may follow each direction: (A, R, 4) row, column, direction, weight in 2^-16, zeros last.

    w = cos(min(continuity |turn|, pi / 2))^2
    """
    apart = np.abs(np.arctan2(ring[:, 0], ring[:, 1])[None] - np.array(angles)[:, None])
    turn = np.minimum(continuity * np.minimum(apart, 2 * math.pi - apart), math.pi / 2)
    weight = np.round(2**16 * np.cos(turn) ** 2).astype(np.int64)
    order = np.argsort(weight == 0, axis=1, kind="stable")[:, : (weight > 0).sum(1).max()]
    pixels = np.column_stack([ring, ANGLES + np.arange(len(ring))])
    return np.concatenate([pixels[order], np.take_along_axis(weight, order, axis=1)[:, :, None]], axis=2)


def _drawn(images: np.ndarray) -> list[np.ndarray]:
    """Return the (k, 2) rows and columns of the nonzero pixels of every image, from its centre."""
    return [np.argwhere(image) - images.shape[1] // 2 for image in images]


def _boxes(pixels: list[np.ndarray]) -> np.ndarray:
    """Return the (n, 4) first and last row and column of pixels (k, 2)."""
    return np.stack([np.stack([some.min(0), some.max(0)], axis=1).ravel() for some in pixels])


def _pixels(images: np.ndarray, blank: int = 0) -> np.ndarray:
    """Return (n, most, 3) row, column and value of the nonzero pixels, largest value first.

    Shorter lists are padded with their last pixel, of value ``blank``.
    """
    flat = images.reshape(len(images), -1).astype(np.int64)
    centre = images.shape[1] // 2
    count = (flat > 0).sum(1, keepdims=True)
    order = np.argsort(-flat, axis=1, kind="stable")
    index = np.arange(count.max())[None]
    order = np.take_along_axis(order, np.minimum(index, count - 1), axis=1)
    value = np.where(index < count, np.take_along_axis(flat, order, axis=1), blank)
    return np.stack([order // images.shape[1] - centre, order % images.shape[1] - centre, value], axis=2)


def _markers(rules: Rules) -> np.ndarray:
    """Return (m, m, m, m): the marker at every pixel of the smallest image that has an interior pixel.

    Near the border, the Lanczos filter is truncated, so the marker looks different there.
    """
    m = 2 * (math.ceil(rules.marker) + 6) + 1
    fine = np.arange(FINE * m)
    square = (fine[None] - FINE * np.arange(m)[:, None]) ** 2
    disks = square[:, None, :, None] + square[None, :, None, :] <= (FINE * rules.marker) ** 2
    return reduce(disks.reshape(m * m, FINE * m, FINE * m), m).reshape(m, m, m, m)


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
