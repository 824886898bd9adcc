"""Audio features: resampling, log-mel energies and cepstral coefficients (MFCC)."""

import functools
import math

import numpy as np
from jaxtyping import Float

BANDS = 64  # number of mel bands
COEFFICIENTS = 20  # number of cepstral coefficients
WINDOW = 0.025  # default length of a window, in seconds
HOP = 0.010  # default time from one window to the next, in seconds


def log_mel(samples: Float[np.ndarray, "length"], rate: int, window: int = 0, hop: int = 0) -> np.ndarray:
    """Return (frames, 64) log-mel energies log(|FFT(hann * x)|^2 @ bands + 1e-6) of samples in [-1, 1).

    Windows are centred and the ends mirrored; bands are triangles on the HTK mel scale.

    Args:
        window: samples per window, an even number; 0: 25 ms.
        hop: samples from one window to the next; 0: 10 ms.
    """
    window = window or 2 * max(1, round(WINDOW * rate / 2))
    hop = hop or max(1, round(HOP * rate))
    x = np.pad(samples, window // 2, mode="reflect")
    frames = np.lib.stride_tricks.sliding_window_view(x, window)[::hop]
    hann = np.sin(np.pi * np.arange(window) / window) ** 2
    power = np.square(np.abs(np.fft.rfft(frames * hann)))
    return np.log(power @ _mel_filters(rate, window) + 1e-6)


def mfcc(energies: np.ndarray) -> np.ndarray:
    """Return (frames, 20) mel-frequency cepstral coefficients: the first of the orthonormal DCT-II."""
    from scipy.fft import dct

    return dct(energies, norm="ortho")[:, :COEFFICIENTS].astype(np.float32)


def resample(samples: np.ndarray, rate: int, new_rate: int) -> np.ndarray:
    """Return (length, channels) float32 samples at another rate, by a polyphase filter against aliasing."""
    from scipy.signal import resample_poly

    divisor = math.gcd(rate, new_rate)
    return resample_poly(samples, new_rate // divisor, rate // divisor, axis=0).astype(np.float32)


@functools.cache
def _mel_filters(rate: int, window: int) -> Float[np.ndarray, "bins bands"]:
    """Return triangular filters between neighbouring points that are evenly spaced on the mel scale."""
    top = 2595 * np.log10(1 + rate / 2 / 700)
    points = 700 * (10 ** (np.linspace(0, top, BANDS + 2) / 2595) - 1)
    left = points[:-2]
    middle = points[1:-1]
    right = points[2:]
    hertz = np.linspace(0, rate / 2, window // 2 + 1)[:, None]
    return np.minimum((hertz - left) / (middle - left), (right - hertz) / (right - middle)).clip(min=0)
