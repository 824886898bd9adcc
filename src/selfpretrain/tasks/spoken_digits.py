"""Which digit is said: the Free Spoken Digit Dataset, six speakers at 8 kHz, raw or as MFCC.

Smaller and easier than Speech Commands; a result on it must not be reported under that name.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import numpy as np

from ..config import Count, Seed, spec
from ..data.download import Download
from ..data.spec import SequenceSpec
from ..data.splits import split_rows
from ..data.store import DatasetWriter
from ..errors import DataError
from .base import Card
from .common import recording_sets
from .common.augmentations import NoisySignals
from .common.stored import Prepared, read_columns, require_files

RATE = 8_000
NAMES = tuple("0123456789")
TAKES_PER_SPLIT = 5
"""Takes 0-4 of every digit and speaker are the official test part; 5-9 are the validation split."""
ARCHIVE = "free-spoken-digit-dataset-1.0.10"


@dataclass(frozen=True)
class Take:
    """One recording: the digit, its speaker and the number of the take."""

    digit: int
    speaker: str
    number: int
    samples: np.ndarray  # (length,) int16


@spec
class SpokenDigits(Prepared):
    """Which digit is said?"""

    card = Card(
        source="Jackson et al., Free Spoken Digit Dataset, github.com/Jakobovski/free-spoken-digit-dataset",
        licence="CC BY-SA 4.0",
        counts="split=takes: 2,400 / 300 / 300; split=speakers: 2,000 / 500 / 500",
        baselines="logistic regression on mean, sd, min and max of MFCC 97 % (takes) and 64 % (speakers), of "
        "raw samples 23 % and 18 %; chance 10 %",
        leaks="split=takes, the official one, has all six speakers in train and test; split=speakers keeps "
        "them apart, and then one speaker is all of validation, and one all of test",
        get="also fsdd/fsdd.parquet: columns label, speaker, take, audio (16-bit samples)",
    )
    downloads = (
        Download(
            "https://github.com/Jakobovski/free-spoken-digit-dataset/archive/refs/tags/v1.0.10.tar.gz",
            into=ARCHIVE,
        ),
    )
    places = (f"{ARCHIVE}/recordings", "fsdd/recordings", "fsdd/fsdd.parquet")
    augmentation = NoisySignals()  # noise, other loudness and shifts in time

    features: recording_sets.Features = "raw"
    longest: Count = 8000  # maximum length in samples; longer recordings (0.7 %) are truncated
    split: Literal["takes", "speakers"] = "takes"  # speakers: four in train, one each in val and test
    split_seed: Seed = 0  # seed of the choice of speakers

    def write(self, out: DatasetWriter) -> SequenceSpec:
        """Write 16-bit samples, or 20 coefficients (MFCC) for every 100 samples."""
        clips = recording_sets.make_synthetic(10, RATE) if self.made_up else self._clips()
        if self.split == "takes":
            clips = replace(clips, speakers=None)
        return recording_sets.write(out, clips, self.features, RATE, NAMES)

    def _clips(self) -> recording_sets.Clips:
        path = require_files(self, *self.places)
        if path.is_file():
            table = read_columns(path, "label", "speaker", "take", "audio")
            columns = (table[name].to_pylist() for name in ("label", "speaker", "take"))
            samples = (audio.values.to_numpy() for audio in table["audio"])
            found: Iterable[Take] = map(Take, *columns, samples)
        else:
            found = _read_folder(path)
        takes = sorted(found, key=lambda take: (take.digit, take.speaker, take.number))
        labels, numbers = (np.array([getattr(t, name) for t in takes]) for name in ("digit", "number"))
        speakers = np.array([t.speaker for t in takes])
        if self.split == "takes":
            split = np.select([numbers < TAKES_PER_SPLIT, numbers < 2 * TAKES_PER_SPLIT], [2, 1], 0)
        else:
            split = split_rows(labels, speakers, self.split_seed)
        return recording_sets.Clips([t.samples[: self.longest] for t in takes], labels, split, speakers)


def _read_folder(folder: Path) -> Iterator[Take]:
    """Yield the recordings of a folder of files named ``digit_speaker_take.wav``."""
    files = {file: re.fullmatch(r"(\d)_(\w+)_(\d+)", file.stem) for file in folder.glob("*.wav")}
    if not files or not all(files.values()):
        raise DataError(f"{folder} must hold files such as 7_jackson_32.wav, and no others; get it again")
    for file, match in files.items():
        if match:
            yield Take(int(match[1]), match[2], int(match[3]), recording_sets.read_wav(file, RATE))


task = SpokenDigits
