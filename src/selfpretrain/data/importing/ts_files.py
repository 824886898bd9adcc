"""Time series files (.ts) of the UEA and TSER archives: a header of @ lines, then one case per line.

A case is ``channel:channel:...:label``; the values of a channel are separated by commas, ``?`` is missing.

Source: the format of sktime and of timeseriesclassification.com.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa

from ...errors import DataError
from . import TargetKind
from .numerals import NUMBER
from .options import ImportOptions
from .source import MISSING, Part, Source, check_memory, joined, lines, words

Case = tuple[int, np.ndarray, str]
"""Line number, series (length, C) and label."""


@dataclass
class TsSource(Source):
    """A reader of one file, or of a train and a test file."""

    files: list[tuple[Path, str]] = field(kw_only=True)  # path and split; "" for a single file
    places: list[tuple[str, int]] = field(default_factory=list)  # file name and line of every case so far

    def read(self) -> Part:
        """Read the cases of all files."""
        self.places.clear()
        series: list[np.ndarray] = []
        labels: list[str] = []
        splits: list[str] = []
        size = 0
        for path, split in self.files:
            for number, values, label in _cases(path):
                size += values.nbytes
                check_memory(size, path.name)
                self.places.append((path.name, number))
                series.append(values)
                labels.append(label)
                splits.append(split)
        if not series:
            return joined([], self.name)
        if len(wide := {values.shape[1] for values in series}) > 1:
            names = " and ".join(path.name for path, _ in self.files)
            raise DataError(f"{names} have {min(wide)} and {max(wide)} dimensions; they must have as many")
        columns = {"label": words(pa.array(labels, pa.large_string()), self.changed)}
        if self.files[0][1]:
            columns["split"] = pa.array(splits, pa.large_string())
        lengths = np.array([len(values) for values in series])
        return Part(np.concatenate(series), lengths, columns, np.arange(len(series)))

    def name(self, row: int) -> str:
        """Return file and line of a case."""
        name, number = self.places[row]
        return f"{name}, line {number}"

    def spot(self, position: int, channel: int) -> str:
        """Return dimension and position."""
        return f"dimension {channel}, position {position}"


def series_source(path: Path, options: ImportOptions) -> TsSource:
    """Return a reader of a file, or of the files ..._TRAIN.ts and ..._TEST.ts in a folder.

    Raises:
        DataError: if the header of a file says that it cannot be used.
    """
    files = [(path, "")] if path.is_file() else _pair(path)
    for file, _ in files:
        header, _ = _header(file)
        if header.get("timestamps") == "true":
            raise DataError(f"{file.name} has time stamps, which are not read; remove them")
        if header.get("classlabel", "false") == "false" and header.get("targetlabel", "false") == "false":
            raise DataError(
                f"{file.name} has neither @classLabel nor @targetLabel; there is nothing to predict"
            )
    if options.kind not in ("auto", "values"):
        raise DataError(f"{path.name} holds values; leave --kind {options.kind} out")
    facts = {"file": ", ".join(file.name for file, _ in files), "sequence": "series of real numbers"}
    return TsSource("values", facts=facts | {"split": "by file" if files[0][1] else "made"}, files=files)


def target_kind(path: Path) -> TargetKind:
    """Return "classes" or "reals", according to the header of the file."""
    file = path if path.is_file() else _pair(path)[0][0]
    return "reals" if _header(file)[0].get("targetlabel", "false") != "false" else "classes"


def _pair(folder: Path) -> list[tuple[Path, str]]:
    pairs: dict[str, dict[str, Path]] = {}
    for file in folder.glob("[!.]*.ts"):
        name, _, split = file.stem.rpartition("_")
        pairs.setdefault(name, {})[split.lower()] = file
    whole = {name: files for name, files in pairs.items() if set(files) == {"train", "test"}}
    chosen = whole.get(folder.resolve().name) or (next(iter(whole.values())) if len(whole) == 1 else None)
    if chosen is None:
        raise DataError(
            f"{folder} must hold one ..._TRAIN.ts and one ..._TEST.ts; name them: A_TRAIN.ts --test A_TEST.ts"
        )
    return [(chosen[split], split) for split in ("train", "test")]


def _header(path: Path) -> tuple[dict[str, str], int]:
    """Return the fields of the @ lines in lower case, and the number of the @data line."""
    fields: dict[str, str] = {}
    with path.open(encoding="utf-8", errors="replace") as file:
        for number, line in lines(file, path.name):
            word, _, rest = line.strip().lower().partition(" ")
            if word == "@data":
                return fields, number
            if word.startswith("@"):
                fields[word[1:]] = rest.strip().partition(" ")[0]
    raise DataError(f"{path.name} has no @data line; is it a .ts file?")


def _cases(path: Path) -> Iterator[Case]:
    """Yield all cases of a file."""
    start = _header(path)[1]
    channels = 0
    with path.open(encoding="utf-8", errors="replace") as file:
        for number, line in lines(file, path.name):
            if number <= start or not line.strip() or line.startswith("#"):
                continue
            where = f"{path.name}, line {number}"
            *dimensions, label = line.strip().split(":")
            channels = channels or len(dimensions)
            if len(dimensions) != channels or not dimensions:
                raise DataError(f"{where}: {len(dimensions)} dimensions, lines before have {channels}")
            lengths = [text.count(",") + 1 if text.strip() else 0 for text in dimensions]
            if min(lengths) < max(lengths):
                raise DataError(
                    f"{where}: dimensions of {min(lengths)} to {max(lengths)} positions; make them equal"
                )
            yield number, _numbers(dimensions, where).reshape(channels, lengths[0]).T, label


def _numbers(dimensions: list[str], where: str) -> np.ndarray:
    """Return the numbers of all dimensions, end to end; missing ones are NaN."""
    words = [word.strip() for text in dimensions if text.strip() for word in text.split(",")]
    cells = pa.array([None if word in MISSING else word for word in words], pa.large_string())
    try:
        return cells.cast(pa.float64()).to_numpy(zero_copy_only=False)
    except pa.ArrowInvalid as error:
        is_number = re.compile(NUMBER).fullmatch
        wrong = next((i for i, word in enumerate(words) if word not in MISSING and not is_number(word)), 0)
        dimension = wrong * len(dimensions) // len(words)
        raise DataError(f"{where}, dimension {dimension}: {words[wrong][:40]!r} is not a number") from error
