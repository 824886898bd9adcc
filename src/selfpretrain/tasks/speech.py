"""Which word is said: Speech Commands, recordings of up to one second at 16 kHz, raw or as MFCC.

Recordings keep their true length, and padding up to a second is masked; the usual code pads with zeros
instead. Raw samples are standardised with one mean and standard deviation; each MFCC has its own.
"""

from dataclasses import replace
from pathlib import Path
from typing import Literal

import numpy as np

from ..config import Seed, spec
from ..data.download import Download
from ..data.spec import SequenceSpec
from ..data.splits import split_rows
from ..data.store import DatasetWriter
from ..errors import DataError
from .base import Card
from .common import recording_sets
from .common.augmentations import NoisySignals
from .common.stored import Prepared, require_files

RATE = 16_000
TEN = ("yes", "no", "up", "down", "left", "right", "on", "off", "stop", "go")
ALL = (
    *("bed", "cat", "down", "five", "forward", "go", "house", "left", "marvin", "no", "on", "right"),
    *("sheila", "tree", "up", "visual", "yes", "backward", "bird", "dog", "eight", "follow", "four", "happy"),
    *("learn", "nine", "off", "one", "seven", "six", "stop", "three", "two", "wow", "zero"),
)
"""The words in the class order of the usual code."""


@spec
class Speech(Prepared):
    """Which of 35 (or ten) words is said?"""

    card = Card(
        source="Warden (2018), Speech Commands: A Dataset for Limited-Vocabulary Speech Recognition; v0.02",
        licence="CC BY 4.0",
        counts="35 words: 84,843 / 9,981 / 11,005; split=papers with ten words: about 70/15/15 of 34,975",
        baselines="chance 2.9 % (35 words) and 10 % (ten)",
        leaks="split=papers, usual with ten words, has the same speakers in all splits, and leaves out what "
        "is shorter than a second; split=official keeps speakers apart",
        get="a folder speech_commands_v0.02 with one folder per word and the two lists",
    )
    downloads = (
        Download(
            "http://download.tensorflow.org/data/speech_commands_v0.02.tar.gz",
            into="speech_commands_v0.02",
            size=2_428_923_189,
            sha256="af14739ee7dc311471de98f5f9d2c9191b18aedfe957f4a6ff791c709868ff58",
        ),
    )
    places = ("speech_commands_v0.02",)
    augmentation = NoisySignals()  # noise, other loudness and shifts in time

    words: Literal[35, 10] = 35
    features: recording_sets.Features = "raw"
    rate: Literal[16_000, 8_000] = 16_000  # samples per second; 8,000: resampled to half the length
    split: Literal["official", "papers"] = "official"  # papers: 70/15/15 of recordings of exactly 1 s
    split_seed: Seed = 0  # seed of the random split with split=papers

    def write(self, out: DatasetWriter) -> SequenceSpec:
        """Write 16-bit samples, or 20 coefficients (MFCC) for every 100 samples."""
        names = ALL if self.words == 35 else TEN
        if self.made_up:
            clips = recording_sets.make_synthetic(self.words, self.rate)
        else:
            clips = self._clips(require_files(self, *self.places), names)
        if self.split == "papers":
            clips = replace(clips, speakers=None)
        return recording_sets.write(out, clips, self.features, self.rate, names)

    def _clips(self, folder: Path, names: tuple[str, ...]) -> recording_sets.Clips:
        files = [file for name in names for file in sorted((folder / name).glob("*.wav"))]
        if self.split == "papers":
            files = [file for file in files if recording_sets.count_frames(file) == RATE]
        labels = np.array([names.index(file.parent.name) for file in files], dtype=np.int64)
        missing = sorted(set(names) - {names[label] for label in labels})
        if missing:
            raise DataError(f"{folder} has no recordings of {missing[0]!r}; unpack the whole archive there")
        if self.split == "papers":
            split = split_rows(labels, None, self.split_seed)
        else:
            listed = [folder / name for name in ("validation_list.txt", "testing_list.txt")]
            try:
                lists = [set(file.read_text(encoding="utf-8").split()) for file in listed]
            except (OSError, UnicodeDecodeError) as error:
                both = "the lists of validation and test cannot be read"
                raise DataError(f"{folder}: {both} ({error}); unpack the whole archive") from error
            relative = [f"{file.parent.name}/{file.name}" for file in files]
            split = np.array([1 if name in lists[0] else 2 if name in lists[1] else 0 for name in relative])
        speakers = np.array([file.name.partition("_nohash_")[0] for file in files])
        return recording_sets.Clips(map(self._samples, files), labels, split, speakers)

    def _samples(self, file: Path) -> np.ndarray:
        from scipy.signal import resample_poly

        samples = recording_sets.read_wav(file, RATE)
        if self.rate == RATE:
            return samples
        resampled = resample_poly(samples.astype(np.float64), 1, 2)
        loudest = recording_sets.LOUDEST
        return resampled.round().clip(-loudest, loudest - 1).astype(np.int16)


task = Speech
