"""Synthetic example of imported data: noisy waves of two shapes, two channels, unequal lengths."""

import numpy as np

SHORTEST = 24
LONGEST = 48


def make_waves(count: int, seed: int) -> tuple[list[np.ndarray], np.ndarray]:
    """Return sequences (length, 2) float32 and their labels, "sine" or "square".

    The second channel is the first one delayed by a quarter of a period. Noise has standard deviation 0.33.
    """
    random = np.random.RandomState(seed)
    shapes = np.resize(np.array(["sine", "square"]), count)
    return [_wave(shape, random) for shape in shapes], shapes


def _wave(shape: str, random: np.random.RandomState) -> np.ndarray:
    length = random.randint(SHORTEST, LONGEST + 1)
    angle = random.uniform(0, 2 * np.pi) + np.arange(length) * 2 * np.pi / random.uniform(8, 16)
    wave = np.sin(np.stack([angle, angle - np.pi / 2], axis=1))
    wave = wave if shape == "sine" else np.sign(wave) * np.sqrt(0.5)  # same power as a sine
    return (wave + 0.33 * random.standard_normal(wave.shape)).astype(np.float32)
