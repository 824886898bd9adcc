"""Read WAV files, compute MFCC, and write recordings as sequences of samples or coefficients."""

import wave
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
from jaxtyping import Float, Int16

from ...data import audio
from ...data.spec import Classes, SequenceSpec
from ...data.store import DatasetWriter
from ...errors import DataError
from ...system.events import report_progress
from .stored import Moments

Features = Literal["raw", "mfcc"]

WINDOW = 200  # window length of MFCC, in samples
HOP = 100  # hop length of MFCC, in samples
LOUDEST = 32768  # full scale of 16-bit samples


@dataclass(frozen=True)
class Clips:
    """Recordings of 16-bit samples with their labels, splits and speakers."""

    samples: Iterable[np.ndarray]  # (length,) int16 each, n of them
    labels: np.ndarray  # (n,)
    split: np.ndarray  # (n,) 0, 1, 2
    speakers: np.ndarray | None = None  # (n,) names; None: speakers may be in several splits


def write(
    out: DatasetWriter, clips: Clips, features: Features, rate: int, names: tuple[str, ...]
) -> SequenceSpec:
    """Write recordings at their true lengths: (length, 1) samples, or (frames, 20) coefficients."""
    moments = Moments()
    starts = []
    lengths = []
    for samples in clips.samples:
        sequence = samples[:, None] if features == "raw" else mfcc(samples, rate)
        starts.append(out.append(sequence))
        lengths.append(len(sequence))
        moments.add(sequence[None])
        if len(starts) % 1000 == 0:
            report_progress("recordings", len(starts), len(clips.labels))
    groups = None if clips.speakers is None else np.unique(clips.speakers, return_inverse=True)[1]
    out.add_examples(np.array(starts), np.array(lengths), clips.labels, clips.split, groups)
    span = (-float(LOUDEST), float(LOUDEST - 1)) if features == "raw" else None
    return SequenceSpec(moments.values(clips.split == 0, span=span), max(lengths), Classes(names))


def read_wav(path: Path, rate: int) -> Int16[np.ndarray, "length"]:
    """Return the samples of a WAV file: 16-bit PCM, one channel.

    Raises:
        DataError: if the format or the sample rate is different, or the file is empty.
    """
    try:
        with wave.open(str(path)) as file:
            channels = file.getnchannels()
            width = file.getsampwidth()
            found_rate = file.getframerate()
            samples = np.frombuffer(file.readframes(file.getnframes()), "<i2")
    except (wave.Error, EOFError, OSError, ValueError) as error:
        raise DataError(f"{path} is not a WAV file of 16-bit samples ({error})") from error
    if (channels, width, found_rate) != (1, 2, rate) or not len(samples):
        raise DataError(
            f"{path} has {len(samples)} samples, {channels} channels of {8 * width} bits at {found_rate} Hz; "
            f"it must be one channel of 16 bits at {rate} Hz"
        )
    return samples.astype(np.int16)


def count_frames(file: Path) -> int:
    """Return the number of samples of a WAV file."""
    try:
        with wave.open(str(file)) as clip:
            return clip.getnframes()
    except (wave.Error, EOFError, OSError) as error:
        raise DataError(f"{file} is not a WAV file ({error}); get it again") from error


def mfcc(samples: Int16[np.ndarray, "length"], rate: int) -> Float[np.ndarray, "frames 20"]:
    """Return the mel-frequency cepstral coefficients: DCT(log(|FFT(hann * x)|^2 @ bands + 1e-6)).

    Centred windows of 200 samples every 100, with reflection padding; 64 triangular filters on the HTK mel
    scale; samples in [-1, 1); orthonormal DCT-II. One second at 16 kHz gives 161 frames.
    Source: as in Gu et al. (2022), appendix D, and Amos et al. (2024); settings of torchaudio's MFCC.
    """
    return audio.mfcc(audio.log_mel(samples / LOUDEST, rate, WINDOW, HOP))


def make_synthetic(classes: int, rate: int) -> Clips:
    """Return synthetic recordings, one pitch per class in noise: 8 in train, 2 in val, 2 in test each."""
    random = np.random.RandomState(0)
    split = np.tile(np.repeat([0, 1, 2], [8, 2, 2]), classes)
    labels = np.repeat(np.arange(classes), 12)
    lengths = random.randint(220, 401, len(labels))
    pitch = rate / 2 * (0.05 + 0.9 * labels / classes)
    speakers = np.array([f"{s}-{i % 4}" for i, s in enumerate(split)])
    times = [np.arange(n) / rate for n in lengths]
    tones = (8000 * np.sin(2 * np.pi * p * t) for p, t in zip(pitch, times, strict=True))
    samples = [(tone + 1000 * random.standard_normal(len(tone))).astype(np.int16) for tone in tones]
    return Clips(samples, labels, split, speakers)
