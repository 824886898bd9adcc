"""What is the heart rate, the breathing rate or the oxygen saturation: 32 seconds of two signals at 125 Hz.

Patients in intensive care: the photoplethysmogram of a finger and an electrocardiogram. 53 recordings of
eight minutes, from 46 patients, are cut into windows that start every three seconds, so neighbouring windows
share nine tenths of their samples.

The usual protocol (``split="paper"``) shuffles these windows into train and test. Then nearly every test
window overlaps a training window, and copying that window's target is as good as the best published network.
By default whole patients are held out instead: scores are much lower, but measure generalisation.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
from jaxtyping import Float32, Float64

from ..config import Seed, spec
from ..data.download import Download
from ..data.spec import Reals, SequenceSpec
from ..data.splits import split_rows
from ..data.store import DatasetWriter
from ..errors import DataError
from ..system.events import report_progress
from .base import Card
from .common.augmentations import NoisySignals
from .common.stored import Moments, Prepared, read_columns, require_files

COLUMNS = {"HR": ("hr", "HR"), "RR": ("rr", "RESP"), "SpO2": ("spo2", "SpO2")}
"""Column of each target in the Parquet file and in PhysioNet's CSV files."""
ARCHIVE = "bidmc-ppg-and-respiration-dataset-1.0.0"
PLACES = (f"{ARCHIVE}/bidmc_csv", "bidmc/bidmc_csv", "bidmc_csv", "bidmc/bidmc.parquet")


@dataclass(frozen=True)
class Recording:
    """A recording of some minutes from one patient."""

    patient: str
    signals: Float32[np.ndarray, "T 2"]  # photoplethysmogram and lead II of the electrocardiogram
    numbers: Float64[np.ndarray, "seconds"]  # the target once per second, NaN if missing


@dataclass(frozen=True)
class Windowing:
    """Length, stride and number of the windows of a recording."""

    length: int = 4000  # samples: 32 seconds
    stride: int = 375
    number: int = 150
    rate: int = 125  # samples per second

    def starts(self) -> np.ndarray:
        """Return the (number,) first sample of every window."""
        return self.stride * np.arange(self.number)

    def windows(self, recording: Recording) -> Float32[np.ndarray, "number length 2"]:
        """Return the samples of every window, as a view without a copy."""
        views = np.lib.stride_tricks.sliding_window_view(recording.signals, self.length, axis=0)
        return views[self.starts()].transpose(0, 2, 1)

    def means(self, recording: Recording) -> Float64[np.ndarray, "number"]:
        """Return the mean of the target over the seconds of every window, NaN if any second is missing."""
        views = np.lib.stride_tricks.sliding_window_view(recording.numbers, self.length // self.rate)
        return views[self.starts() // self.rate].mean(1)


SYNTHETIC = Windowing(length=64, stride=16, number=8, rate=8)  # windows of the synthetic recordings


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
    augmentation = NoisySignals(scale=0.0)  # the amplitude of a pulse may be part of the answer

    target: Literal["HR", "RR", "SpO2"] = "HR"
    split: Literal["patient", "paper"] = "patient"  # paper: windows shuffled 70/15/15, which leaks
    split_seed: Seed = 0  # seed of the choice of patients (or windows)

    def write(self, out: DatasetWriter) -> SequenceSpec:
        """Write two channels; the windows of a recording share its stored samples."""
        if self.made_up:
            return self._write_recordings(out, make_synthetic(SYNTHETIC), SYNTHETIC)
        path = require_files(self, *PLACES, f"BIDMC32{self.target}_TRAIN.ts")
        if path.suffix == ".ts":
            return self._write_archive(out, path)
        read = read_parquet if path.suffix == ".parquet" else read_physionet
        return self._write_recordings(out, read(path, self.target), Windowing())

    def _write_recordings(
        self, out: DatasetWriter, recordings: Iterator[Recording], windowing: Windowing
    ) -> SequenceSpec:
        moments = Moments()
        starts = []
        y = []
        patients = []
        seconds = (windowing.starts()[-1] + windowing.length) // windowing.rate
        for recording in recordings:
            used = recording.signals[: seconds * windowing.rate]
            whole = len(used) == seconds * windowing.rate and len(recording.numbers) >= seconds
            if not whole or not np.isfinite(used).all():
                raise DataError(
                    f"the recording of patient {recording.patient} has not all samples of {seconds} seconds; "
                    f"get it again"
                )
            starts.append(out.append(recording.signals) + windowing.starts())
            y.append(windowing.means(recording))
            patients += [recording.patient] * windowing.number
            moments.add(windowing.windows(recording))
            report_progress("recordings", len(starts))
        targets = np.concatenate(y)
        groups = np.unique(patients, return_inverse=True)[1]
        known = np.isfinite(targets)
        # The split of a patient does not depend on which targets are missing; of windows it does.
        if self.split == "patient":
            split = split_rows(np.zeros(len(known), int), groups, self.split_seed)
        else:
            split = np.zeros(len(known), dtype=np.int64)
            split[known] = split_rows(np.zeros(known.sum(), int), None, self.split_seed)
        # With split=paper a patient is in several splits, so patients cannot be groups.
        kept_groups = groups[known] if self.split == "patient" else None
        lengths = np.full(known.sum(), windowing.length)
        out.add_examples(np.concatenate(starts)[known], lengths, targets[known], split[known], kept_groups)
        return self._spec(moments, windowing.length, targets, known & (split == 0))

    def _write_archive(self, out: DatasetWriter, train: Path) -> SequenceSpec:
        if self.split != "paper":
            raise DataError(
                f"{train.name} does not say which patient a window is from; get PhysioNet's recordings "
                f"(`selfpretrain data get bidmc`), or set split=paper and read what its card says of it"
            )
        moments = Moments()
        starts = []
        y = []
        for file in (train, train.with_name(train.name.replace("TRAIN", "TEST"))):
            for window, value in read_archive(file):
                starts.append(out.append(window))
                y.append(value)
                moments.add(window[None])
                report_progress("windows", len(y))
        targets = np.array(y)
        split = split_rows(np.zeros(len(y), int), None, self.split_seed)
        out.add_examples(np.array(starts), np.full(len(y), Windowing().length), targets, split)
        return self._spec(moments, Windowing().length, targets, split == 0)

    def _spec(self, moments: Moments, length: int, targets: np.ndarray, train: np.ndarray) -> SequenceSpec:
        y = targets[train]
        target = Reals(self.target, float(y.mean()), float(y.std()))
        return SequenceSpec(moments.values(train), length, target)


def read_parquet(file: Path, target: str) -> Iterator[Recording]:
    """Yield all recordings of a Parquet file, one per row: mimic_id, pleth, ecg_ii, and lists of the targets.

    Raises:
        DataError: if the file does not have these columns.
    """
    number = COLUMNS[target][0]
    rows = read_columns(file, "mimic_id", "pleth", "ecg_ii", number)
    for i, patient in enumerate(rows["mimic_id"].to_pylist()):
        signals = np.stack([rows[name][i].values.to_numpy() for name in ("pleth", "ecg_ii")], axis=1)
        numbers = rows[number][i].values.to_numpy(zero_copy_only=False)
        yield Recording(patient, signals.astype(np.float32), numbers.astype(np.float64))


def read_physionet(folder: Path, target: str) -> Iterator[Recording]:
    """Yield all recordings of PhysioNet's folder ``bidmc_csv``, in the order of their numbers.

    Raises:
        DataError: if a file is missing or damaged.
    """
    files = sorted(folder.glob("bidmc_*_Signals.csv"))
    if not files:
        raise DataError(f"{folder} holds no file bidmc_01_Signals.csv; unpack the whole archive there")
    for file in files:
        prefix = file.name.replace("Signals.csv", "")
        signals = _read_csv(file, ("PLETH", "II"))
        numbers = _read_csv(folder / f"{prefix}Numerics.csv", (COLUMNS[target][1],))[:, 0]
        notes = folder / f"{prefix}Fix.txt"
        try:
            match = re.search(r"matched wdb ID: *(\S+)", notes.read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError) as error:
            raise DataError(
                f"{notes}, which says who the patient is, cannot be read; get it again"
            ) from error
        if not match:
            raise DataError(f"{notes} does not say who the patient is; get it again")
        yield Recording(match[1], signals.astype(np.float32), numbers)


def _read_csv(file: Path, names: tuple[str, ...]) -> Float64[np.ndarray, "T C"]:
    """Return columns of a CSV file by name; an empty field is NaN."""
    import pyarrow as pa
    from pyarrow import csv

    convert = csv.ConvertOptions(null_values=["", "NaN"])
    try:
        table = csv.read_csv(file, convert_options=convert)
        table = table.rename_columns([name.strip() for name in table.column_names])
        columns = [table[name].to_numpy().astype(np.float64) for name in names]
    except (pa.ArrowException, KeyError, OSError, ValueError) as error:
        raise DataError(f"{file} is not as PhysioNet publishes it ({error}); get it again") from error
    return np.stack(columns, axis=1)


def read_archive(file: Path) -> Iterator[tuple[np.ndarray, float]]:
    """Yield windows (4000, 2) and targets of a file of the regression archive, fields separated by colons.

    Raises:
        DataError: if the file is missing, or a line cannot be read.
    """
    try:
        with file.open(encoding="utf-8") as lines:
            for number, line in enumerate(lines, start=1):
                if not line.strip() or line.startswith(("#", "@")):
                    continue
                *channels, target = line.split(":")
                try:
                    window = np.array([channel.split(",") for channel in channels], dtype=np.float32).T
                    known = np.isfinite([window.sum(), float(target)]).all()
                    if window.shape != (Windowing().length, 2) or not known:
                        raise ValueError(f"its shape is {window.shape}, or a number is missing")
                except ValueError as error:
                    raise DataError(f"line {number} of {file} is not a window of BIDMC: {error}") from error
                yield window, float(target)
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{file} cannot be read ({error}); place both files of the archive") from error


def make_synthetic(windowing: Windowing, patients: int = 10) -> Iterator[Recording]:
    """Yield synthetic recordings, one per patient: the rising heart rate is the frequency of a sine wave."""
    random = np.random.RandomState(0)
    seconds = (windowing.starts()[-1] + windowing.length) // windowing.rate
    for patient in range(patients):
        rate = 60 + 4 * (patient % 5) + np.linspace(0, 40, seconds) + random.standard_normal(seconds)
        phase = 2 * np.pi * np.cumsum(np.repeat(rate, windowing.rate)) / 60 / windowing.rate
        waves = np.stack([np.sin(phase), np.cos(phase)], axis=1)
        noise = 0.1 * random.standard_normal(waves.shape)
        yield Recording(f"s{patient:05d}", (waves + noise).astype(np.float32), rate)


task = Bidmc
