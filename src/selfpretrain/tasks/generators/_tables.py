"""All that can be known before the first image: every dash at every angle, and what may follow it."""

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from . import _draw
from ._draw import FINE

ANGLES = 360
"""Directions of first dashes, -180..179 degrees."""
CROSSED, FREE = 459, 76
"""Two masks may not add up to 1.8 of 255 anywhere; a pixel is free up to 0.3 of 255."""
HEAD, BACK, AHEAD, APART = 0, 2, 4, 6
"""Steps: from a first dash to its end, from there to its pivot, from any pivot to the next one, and from the
start of contour 1 to that of contour 2. The pivot of a dash is the middle of the gap before it."""
ONE_END = 1
"""Pixels, down or right, within which the ends of both contours are one to whoever looks."""
NEAR, CORE, WINDOW, INSIDE, FIRST, OTHERS, FITS = range(7)
"""Boxes: what a dash may affect and what it crosses others with, from its start; the pixels where the next
dash may be, from its pivot; and in the image, the pixels far enough from the border, those where contour 1
and where distractors may start, and those where a later dash fits."""


@dataclass(frozen=True)
class Rules:
    """What the images of one resolution are like; lengths in pixels."""

    size: int  # of the image
    margins: tuple[int, ...]  # half the gap between two dashes; one is drawn per image
    padding: int  # blocked frame
    dash: int  # length of a dash
    thickness: float
    marker: float  # radius
    apart: int  # distance between the first dashes of both contours
    continuity: float  # the larger, the straighter
    distractors: int  # dashes of all distractors together
    contrast: tuple[float, float, float]  # contours, distractors, markers


class Tables(NamedTuple):
    """The rules at one margin, for contours of one length: A directions, R dashes that may follow one.

    A direction below 360 is that of a first dash, from its start. A later dash starts at its far end, at a
    pixel of the ring around its pivot; its direction stands for that pixel.
    """

    size: int
    margin: int
    padding: int
    length: int  # dashes of a contour
    short: int  # dashes of a distractor
    distractors: int
    least: int  # pixels, down or right, between the ends of both contours
    contrast: tuple[float, float, float]
    steps: np.ndarray  # (A, 8) down and right: see HEAD, BACK, AHEAD, APART
    turns: np.ndarray  # (A, R, 4) what may follow: row and column from its pivot, its direction, weight
    boxes: np.ndarray  # (7, A, 4) first and last row and column: see NEAR to FITS
    masks: np.ndarray  # (A, s, s) what a dash occupies, its margin included; it starts in the middle
    reach: np.ndarray  # (A, s, s) the greatest of that within the margin
    seats: np.ndarray  # (360, most, 2) pixels that a first dash wants to be free, from its start
    cores: np.ndarray  # (A, most, 3) pixels that a dash crosses another one with, and from how much mask on
    ink: np.ndarray  # (A, most, 3) pixels of a dash, brightest first: row and column from its start, light
    markers: np.ndarray  # (m, m, m, m) the marker at every place of a small image


def tables(rules: Rules, margin: int, length: int, quirks: bool) -> Tables:
    """Everything for contours of ``length`` dashes.

    Args:
        quirks: start dashes as the published generator does, see ``_seats`` and ``_room``, and let contours
            end where they like, even on the same pixel.
    """
    reach, ring = rules.dash + margin, _ring(rules.dash + margin)
    first = [_radians(degrees) for degrees in range(-180, 180)]
    later = [math.atan2(dy, dx) for dy, dx in ring.tolist()]
    dashes = np.stack([_dash(rules, margin, a) for a in [*first, *map(_opposite, later)]])
    size = dashes.shape[1] // FINE + 1
    mask = _draw.reduce(_draw.dilate(dashes, margin * FINE), size)
    wide = np.pad(mask, ((0, 0), (margin, margin), (margin, margin)))
    seats = _seats(mask == 255, reach, quirks)
    core = mask >= CROSSED - 255
    near = _draw.dilate(wide, margin)
    rooms = (
        _room(seats, rules.size, 2 * rules.apart, quirks),
        _room(seats, rules.size, rules.padding, quirks),
        _room(core, rules.size, rules.padding, quirks=False),
    )
    turns = _turns([*first, *later], ring, rules.continuity)
    return Tables(
        size=rules.size,
        margin=margin,
        padding=rules.padding,
        length=length,
        short=length // 3,
        distractors=rules.distractors // (length // 3),
        least=0 if quirks else ONE_END + 1,
        contrast=rules.contrast,
        steps=_all_steps(rules, margin, first, later),
        turns=turns,
        boxes=np.stack([_box(near), _box(core), _window(turns), _inside(rules, margin, len(turns)), *rooms]),
        masks=wide,
        reach=near,
        seats=_pixels(seats[:ANGLES])[:, :, :2],
        cores=_pixels(np.where(core, CROSSED - mask.astype(np.int64), 0), blank=256),
        ink=_pixels(_draw.reduce(dashes, size)),
        markers=_markers(rules),
    )


def _radians(degrees: int) -> float:
    return degrees * math.pi / 180


def _opposite(angle: float) -> float:
    return angle + math.pi if angle < 0 else angle - math.pi


def _steps(length: int, angles: list[float]) -> np.ndarray:
    """(n, 2) steps down and right; not rounded, since the sum with a place is rounded up, not the step."""
    return np.array([(length * math.sin(a), length * math.cos(a)) for a in angles])


def _all_steps(rules: Rules, margin: int, first: list[float], later: list[float]) -> np.ndarray:
    """(A, 8) with zeros where a direction does not need a step."""
    steps = np.zeros((len(first) + len(later), 8))
    steps[:ANGLES, HEAD : HEAD + 2] = _steps(rules.dash, first)
    steps[:ANGLES, BACK : BACK + 2] = _steps(rules.dash + margin, [_opposite(a) for a in first])
    steps[:ANGLES, APART : APART + 2] = _steps(rules.apart, [_radians(degrees) for degrees in range(360)])
    steps[:, AHEAD : AHEAD + 2] = _steps(rules.dash + 2 * margin, [*first, *later])
    return steps


def _ring(radius: int) -> np.ndarray:
    """(R, 2) distinct pixels hit by a circle around a pixel's upper left corner, walked in steps of one."""
    angles = [_radians(1) * at for at in np.arange(0, 360, 360 / (2 * radius * math.pi)).tolist()]
    return np.unique(np.floor(_steps(radius, angles)).astype(np.int64), axis=0)


def _dash(rules: Rules, margin: int, angle: float) -> np.ndarray:
    """A dash from the centre of its canvas, in fine pixels."""
    centre = (rules.dash + math.ceil(rules.thickness) + margin) * FINE
    (down, right), width = _steps(rules.dash * FINE, [angle])[0], round(rules.thickness * FINE)
    end = math.ceil(centre + down), math.ceil(centre + right)
    return _draw.line(2 * centre + 1, end, width)


def _seats(solid: np.ndarray, most: int, quirks: bool) -> np.ndarray:
    """Which pixels must be free for a first dash: those that its mask fills.

    The published generator looks one pixel too far down and right, and no further than ``most``.
    """
    if not quirks:
        return solid
    seats, centre = np.zeros_like(solid), solid.shape[1] // 2
    window = slice(centre - most, centre + most + 1)
    seats[:, window, window] = np.roll(solid, (1, 1), axis=(1, 2))[:, window, window]
    return seats


def _room(pixels: np.ndarray, size: int, border: int, quirks: bool) -> np.ndarray:
    """(n, 4) first and last row and column from which certain pixels keep off a border.

    The published generator gives up where, at some place of the image, a seat lies outside as a whole: its
    dilation (OpenCV's) then returns the least number there is. So all directions fail but those whose seat
    has a pixel in each of the four quadrants.
    """
    last, centre, out = size - 1 - border, pixels.shape[1] // 2, np.empty((len(pixels), 4), dtype=np.int64)
    for i, some in enumerate(pixels):
        down, right = (at - centre for at in np.nonzero(some))
        sides = [np.any((a * down >= 0) & (b * right >= 0)) for a in (-1, 1) for b in (-1, 1)]
        box = border - down.min(), last - down.max(), border - right.min(), last - right.max()
        out[i] = box if all(sides) or not quirks else (0, -1, 0, -1)
    return out


def _turns(angles: list[float], ring: np.ndarray, continuity: float) -> np.ndarray:
    """What may follow each direction, (A, R, 4) row, column, direction and weight in 2^-16, zeros last.

    w = cos(min(continuity |turn|, pi / 2))^2
    """
    apart = np.abs(np.arctan2(ring[:, 0], ring[:, 1])[None] - np.array(angles)[:, None])
    turn = np.minimum(continuity * np.minimum(apart, 2 * math.pi - apart), math.pi / 2)
    weight = np.round(2**16 * np.cos(turn) ** 2).astype(np.int64)
    order = np.argsort(weight == 0, axis=1, kind="stable")[:, : (weight > 0).sum(1).max()]
    pixels = np.column_stack([ring, ANGLES + np.arange(len(ring))])
    return np.concatenate([pixels[order], np.take_along_axis(weight, order, axis=1)[:, :, None]], axis=2)


def _box(images: np.ndarray) -> np.ndarray:
    """(n, 4) first and last row and column, from the middle, of what is not zero, and a pixel more."""
    centre, out = images.shape[1] // 2, np.empty((len(images), 4), dtype=np.int64)
    for i, image in enumerate(images):
        down, right = (at - centre for at in np.nonzero(image))
        out[i] = down.min() - 1, down.max() + 1, right.min() - 1, right.max() + 1
    return out


def _inside(rules: Rules, margin: int, number: int) -> np.ndarray:
    """(n, 4), the same for all directions."""
    first = rules.padding + margin
    return np.tile([first, rules.size - 1 - first] * 2, (number, 1))


def _window(turns: np.ndarray) -> np.ndarray:
    """(A, 4) first and last row and column, from the pivot, of it and the pixels that may be drawn."""
    out = np.empty((len(turns), 4), dtype=np.int64)
    for i, pixels in enumerate(turns):
        some = np.concatenate([[(0, 0)], pixels[pixels[:, 3] > 0, :2]])
        out[i] = some[:, 0].min(), some[:, 0].max(), some[:, 1].min(), some[:, 1].max()
    return out


def _pixels(images: np.ndarray, blank: int = 0) -> np.ndarray:
    """(n, most, 3) row, column and value of the pixels that are not zero, greatest first.

    Shorter lists are filled with their last pixel, of value ``blank``.
    """
    flat, centre = images.reshape(len(images), -1).astype(np.int64), images.shape[1] // 2
    count = (flat > 0).sum(1, keepdims=True)
    order = np.argsort(-flat, axis=1, kind="stable")
    at = np.arange(count.max())[None]
    order = np.take_along_axis(order, np.minimum(at, count - 1), axis=1)
    value = np.where(at < count, np.take_along_axis(flat, order, axis=1), blank)
    return np.stack([order // images.shape[1] - centre, order % images.shape[1] - centre, value], axis=2)


def _markers(rules: Rules) -> np.ndarray:
    """(m, m, m, m) the marker at every pixel of an image so small that only its middle is like any other.

    Near the border, Lanczos' filter is cut.
    """
    m = 2 * (math.ceil(rules.marker) + 6) + 1
    fine = np.arange(FINE * m)
    square = (fine[None] - FINE * np.arange(m)[:, None]) ** 2
    disks = square[:, None, :, None] + square[None, :, None, :] <= (FINE * rules.marker) ** 2
    return _draw.reduce(disks.reshape(m * m, FINE * m, FINE * m), m).reshape(m, m, m, m)
