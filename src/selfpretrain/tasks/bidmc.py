"""What is the heart rate, the breathing rate or the oxygen saturation: 32 seconds of two signals at 125 Hz.

Patients in intensive care: the photoplethysmogram of a finger and an electrocardiogram. 53 recordings of
eight minutes, from 46 patients, are cut into windows that start every three seconds, so neighbouring windows
share nine tenths of their samples.

The usual protocol (``split="paper"``) shuffles these windows into train and test. Then nearly every test
window overlaps a training window, and copying that window's target is as good as the best published network.
By default whole patients are held out instead: scores are much lower, but measure generalisation.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import numpy as np

from ..config import Seed, spec
from ..data.dataset import Augmentation
from ..data.download import Download
from ..data.spec import Reals, SequenceSpec
from ..data.splits import split_rows
from ..data.store import DatasetWriter
from ..errors import DataError
from ..system.events import report_progress
from .base import Card
from .common import recordings
from .common.augmentations import NoisySignals
from .common.moments import Moments
from .common.raw import require_files
from .common.recordings import Cut, Recording
from .common.stored import Prepared

ARCHIVE = "bidmc-ppg-and-respiration-dataset-1.0.0"
PLACES = (f"{ARCHIVE}/bidmc_csv", "bidmc/bidmc_csv", "bidmc_csv", "bidmc/bidmc.parquet")
SMALL = Cut(length=64, stride=16, number=8, rate=8)
"""Windows of the synthetic recordings."""


@spec
class Bidmc(Prepared):
    """What is the mean heart rate (HR), breathing rate (RR) or oxygen saturation (SpO2) of a window?"""

    card = Card(
        source="Pimentel et al. (2016), BIDMC PPG and Respiration Dataset 1.0.0, PhysioNet; windows as in "
        "the time series regression archive of Tan et al. (2020)",
        licence="ODC-By 1.0",
        counts="7,950 windows; 7,938 (HR), 7,797 (RR), 7,822 (SpO2) without those in which a second is "
        "missing. split=patient: 30, 8 and 8 patients; HR 5,538 / 1,200 / 1,200",
        baselines="R2, split=paper: copying the nearest training window 0.999, 0.995, 0.999 (HR, RR, SpO2); "
        "split=patient: nothing to copy; the training mean gives -0.09, -0.21 and -0.08; for HR, the "
        "strongest frequency (0.7 to 3 Hz) of the first signal, which needs no training, 0.96",
        leaks="split=paper shuffles windows that overlap by nine tenths; the default keeps patients apart",
        get="PhysioNet's folder bidmc_csv; or BIDMC32HR_TRAIN.ts and so on, which know no patients",
    )
    downloads = (
        Download(f"https://physionet.org/static/published-projects/bidmc/{ARCHIVE}.zip", into=ARCHIVE),
    )
    places = (*PLACES, *(f"BIDMC32{name}_TRAIN.ts" for name in ("HR", "RR", "SpO2")))

    target: Literal["HR", "RR", "SpO2"] = "HR"
    split: Literal["patient", "paper"] = "patient"  # paper: windows shuffled 70/15/15, which leaks
    split_seed: Seed = 0  # seed of the choice of patients (or windows)

    def augmentation(self) -> Augmentation:
        """Return noise and shifts in time; the loudness of a pulse may be part of the answer."""
        return NoisySignals(scale=0.0)

    def write(self, out: DatasetWriter) -> SequenceSpec:
        """Write two channels; the windows of a recording share its stored samples."""
        if self.made_up:
            return self._write_recordings(out, recordings.make_synthetic(SMALL), SMALL)
        path = require_files(self, *PLACES, f"BIDMC32{self.target}_TRAIN.ts")
        if path.suffix == ".ts":
            return self._write_archive(out, path)
        read = recordings.read_parquet if path.suffix == ".parquet" else recordings.read_physionet
        return self._write_recordings(out, read(path, self.target), Cut())

    def _write_recordings(
        self, out: DatasetWriter, recordings: Iterator[Recording], cut: Cut
    ) -> SequenceSpec:
        moments = Moments()
        starts = []
        y = []
        patients = []
        for recording in recordings:
            starts.append(out.append(recording.signals) + cut.starts())
            y.append(cut.means(recording))
            patients += [recording.patient] * cut.number
            moments.add(cut.windows(recording))
            report_progress("recordings", len(starts))
        targets = np.concatenate(y)
        groups = np.unique(patients, return_inverse=True)[1]
        known = np.isfinite(targets)
        split = self._assign_splits(groups, known)
        # With split=paper a patient is in several splits, so patients cannot be groups.
        kept_groups = groups[known] if self.split == "patient" else None
        lengths = np.full(known.sum(), cut.length)
        out.add_examples(np.concatenate(starts)[known], lengths, targets[known], split[known], kept_groups)
        return self._spec(moments, cut.length, targets, split == 0)

    def _assign_splits(self, patients: np.ndarray, known: np.ndarray) -> np.ndarray:
        """Return the (n,) split of every window, -1 where the target is missing.

        The split of a patient does not depend on which targets are missing.
        """
        if self.split == "patient":
            return np.where(known, split_rows(np.zeros(len(known), int), patients, self.split_seed), -1)
        split = np.full(len(known), -1)
        split[known] = split_rows(np.zeros(known.sum(), int), None, self.split_seed)
        return split

    def _write_archive(self, out: DatasetWriter, train: Path) -> SequenceSpec:
        if self.split != "paper":
            raise DataError(
                f"{train.name} does not say which patient a window is from; get PhysioNet's recordings "
                f"(`spt data get bidmc`), or set split=paper and read what its card says of it"
            )
        moments = Moments()
        starts = []
        y = []
        for file in (train, train.with_name(train.name.replace("TRAIN", "TEST"))):
            for window, value in recordings.read_archive(file):
                starts.append(out.append(window))
                y.append(value)
                moments.add(window[None])
                report_progress("windows", len(y))
        targets = np.array(y)
        split = split_rows(np.zeros(len(y), int), None, self.split_seed)
        out.add_examples(np.array(starts), np.full(len(y), Cut().length), targets, split)
        return self._spec(moments, Cut().length, targets, split == 0)

    def _spec(self, moments: Moments, length: int, targets: np.ndarray, train: np.ndarray) -> SequenceSpec:
        y = targets[train]
        return SequenceSpec(
            moments.values(train), length, Reals(self.target, float(y.mean()), float(y.std()))
        )


task = Bidmc
