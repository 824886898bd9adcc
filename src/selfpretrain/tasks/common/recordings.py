"""Read the recordings of BIDMC as published, and the windows that the regression archive cut from them."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from jaxtyping import Float32, Float64

from ...errors import DataError

COLUMNS = {"HR": ("hr", "HR"), "RR": ("rr", "RESP"), "SpO2": ("spo2", "SpO2")}
"""Column of each target in the Parquet file and in PhysioNet's CSV files."""


@dataclass(frozen=True)
class Recording:
    """A recording of some minutes from one patient."""

    patient: str
    signals: Float32[np.ndarray, "T 2"]  # photoplethysmogram and lead II of the electrocardiogram
    numbers: Float64[np.ndarray, "seconds"]  # the target once per second, NaN if missing


@dataclass(frozen=True)
class Cut:
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


def read_parquet(file: Path, target: str) -> Iterator[Recording]:
    """Yield all recordings of a Parquet file, one per row: mimic_id, pleth, ecg_ii, and lists of the targets.

    Raises:
        DataError: if the file does not have these columns.
    """
    import pyarrow as pa
    from pyarrow import parquet as pq

    number = COLUMNS[target][0]
    try:
        rows = pq.read_table(file, columns=["mimic_id", "pleth", "ecg_ii", number])
    except (pa.ArrowException, OSError) as error:
        raise DataError(f"{file} does not hold the recordings of BIDMC: {error}") from error
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
        yield Recording(_read_patient(folder / f"{prefix}Fix.txt"), signals.astype(np.float32), numbers)


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


def _read_patient(file: Path) -> str:
    try:
        match = re.search(r"matched wdb ID: *(\S+)", file.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{file}, which says who the patient is, cannot be read; get it again") from error
    if not match:
        raise DataError(f"{file} does not say who the patient is; get it again")
    return match[1]


def read_archive(file: Path) -> Iterator[tuple[np.ndarray, float]]:
    """Yield windows (4000, 2) and targets of a file of the regression archive, fields separated by colons.

    Raises:
        DataError: if the file is missing, or a line cannot be read.
    """
    try:
        with file.open(encoding="utf-8") as lines:
            for number, line in enumerate(lines, start=1):
                if line.strip() and not line.startswith(("#", "@")):
                    yield _parse_window(line, f"line {number} of {file}")
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{file} cannot be read ({error}); place both files of the archive") from error


def _parse_window(line: str, place: str) -> tuple[np.ndarray, float]:
    *channels, target = line.split(":")
    try:
        window = np.array([channel.split(",") for channel in channels], dtype=np.float32).T
        if (
            window.shape != (Cut().length, 2)
            or not np.isfinite(window).all()
            or not np.isfinite(float(target))
        ):
            raise ValueError(f"its shape is {window.shape}, or a number is missing")
        return window, float(target)
    except ValueError as error:
        raise DataError(f"{place} is not a window of BIDMC: {error}") from error


def make_synthetic(cut: Cut, patients: int = 10) -> Iterator[Recording]:
    """Yield synthetic recordings, one per patient: the rising heart rate is the frequency of a sine wave."""
    random = np.random.RandomState(0)
    seconds = (cut.starts()[-1] + cut.length) // cut.rate
    for patient in range(patients):
        rate = 60 + 4 * (patient % 5) + np.linspace(0, 40, seconds) + random.standard_normal(seconds)
        phase = 2 * np.pi * np.cumsum(np.repeat(rate, cut.rate)) / 60 / cut.rate
        waves = np.stack([np.sin(phase), np.cos(phase)], axis=1)
        noise = 0.1 * random.standard_normal(waves.shape)
        yield Recording(f"s{patient:05d}", (waves + noise).astype(np.float32), rate)
