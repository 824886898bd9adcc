"""A small example of one's own data: noisy waves of two shapes, two channels, unequal lengths."""

import numpy as np

SHORTEST, LONGEST = 24, 48


def waves(number: int, seed: int) -> tuple[list[np.ndarray], np.ndarray]:
    """Sequences (length, 2) float32, and which are "sine" and which are "square".

    The second channel is the first a quarter of a period later; both carry noise of a third of the amplitude.
    """
    random = np.random.RandomState(seed)
    shapes = np.resize(np.array(["sine", "square"]), number)
    return [_wave(shape, random) for shape in shapes], shapes


def _wave(shape: str, random: np.random.RandomState) -> np.ndarray:
    length = random.randint(SHORTEST, LONGEST + 1)
    angle = random.uniform(0, 2 * np.pi) + np.arange(length) * 2 * np.pi / random.uniform(8, 16)
    wave = np.sin(np.stack([angle, angle - np.pi / 2], axis=1))
    wave = wave if shape == "sine" else np.sign(wave) * np.sqrt(0.5)  # same power as a sine
    return (wave + 0.33 * random.standard_normal(wave.shape)).astype(np.float32)
