"""Time series files (.ts) of the UEA and TSER archives: a header of @ lines, then one case per line.

A case is ``channel:channel:...:label``; the values of a channel are separated by commas, ``?`` is missing.

Source: the format of sktime and of timeseriesclassification.com.
"""

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from ...errors import DataError
from ..sequences import Sequences
from .numerals import NUMBER
from .options import ImportOptions
from .plan import ImportPlan
from .source import MISSING, check_memory, lines, notes_on, words
from .text_rows import open_text

Case = tuple[str, np.ndarray, str]  # how messages name a case, its series (length, C), and its label


def read_series(path: Path, options: ImportOptions, labelled: bool = True) -> ImportPlan:
    """Read a file, or the files ..._TRAIN.ts and ..._TEST.ts in a folder.

    Args:
        labelled: whether there must be labels.

    Raises:
        DataError: if the header of a file says that it cannot be used, or naming the first case that cannot.
    """
    files = [(path, "")] if path.is_file() else _pair(path)
    headers = [_header(file)[0] for file, _ in files]
    for (file, _), header in zip(files, headers, strict=True):
        if header.get("timestamps") == "true":
            raise DataError(f"{file.name} has time stamps, which are not read; remove them")
        if labelled and not _has_labels(header):
            raise DataError(
                f"{file.name} has neither @classLabel nor @targetLabel; there is nothing to predict"
            )
    if options.target == "auto":
        real = headers[0].get("targetlabel", "false") != "false"
        options = replace(options, target="reals" if real else "classes")
    cases: list[Case] = []
    splits: list[str] = []
    for file, split in files:
        cases += _cases(file)
        splits += [split] * (len(cases) - len(splits))
    names, series, labels = zip(*cases, strict=True) if cases else ((), (), ())
    if len(wide := {values.shape[1] for values in series}) > 1:
        both = " and ".join(file.name for file, _ in files)
        raise DataError(f"{both} have {min(wide)} and {max(wide)} dimensions; they must have as many")
    changed: dict[str, str] = {}
    columns = {"label": words(pa.array(labels, pa.large_string()), changed)}
    if files[0][1]:
        columns["split"] = pa.array(splits, pa.large_string())
    lengths = np.array([len(values) for values in series], dtype=np.int64)
    flat = np.concatenate(series) if series else np.zeros((0, 1))
    found = Sequences("values", flat, lengths, np.arange(len(series)), columns=columns)
    facts = {"file": ", ".join(file.name for file, _ in files), "sequence": "series of real numbers"}
    facts["split"] = "by file" if files[0][1] else "made"
    kept: dict[str, list[Any]] = {"label": list(labels)} if all(map(_has_labels, headers)) else {}
    spot = "dimension {1}, position {0}".format
    layout = {"form": "series", "kind": "values"}
    notes = notes_on(changed)
    return ImportPlan(
        found, options, names.__getitem__, spot, layout=layout, found=facts, notes=notes, others=kept
    )


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


def _has_labels(header: dict[str, str]) -> bool:
    """Return whether cases end with a label."""
    return not header.get("classlabel", "false") == header.get("targetlabel", "false") == "false"


def _header(path: Path) -> tuple[dict[str, str], int]:
    """Return the fields of the @ lines in lower case, and the number of the @data line."""
    fields: dict[str, str] = {}
    with open_text(path) as file:
        for number, line in lines(file, path.name):
            word, _, rest = line.strip().lower().partition(" ")
            if word == "@data":
                return fields, number
            if word.startswith("@"):
                fields[word[1:]] = rest.strip().partition(" ")[0]
    raise DataError(f"{path.name} has no @data line; is it a .ts file?")


def _cases(path: Path) -> Iterator[Case]:
    """Yield all cases of a file."""
    header, start = _header(path)
    channels = size = 0
    with open_text(path) as file:
        for number, line in lines(file, path.name):
            if number <= start or not line.strip() or line.startswith("#"):
                continue
            where = f"{path.name}, line {number}"
            *dimensions, label = [*line.strip().split(":"), *[""] * (not _has_labels(header))]
            channels = channels or len(dimensions)
            if len(dimensions) != channels or not dimensions:
                raise DataError(f"{where}: {len(dimensions)} dimensions, lines before have {channels}")
            lengths = [text.count(",") + 1 if text.strip() else 0 for text in dimensions]
            if min(lengths) < max(lengths):
                sizes = f"dimensions of {min(lengths)} to {max(lengths)} positions"
                raise DataError(f"{where}: {sizes}; make them equal")
            values = _numbers(dimensions, where).reshape(channels, lengths[0]).T
            size += values.nbytes
            check_memory(size, path.name)
            yield where, values, label


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
