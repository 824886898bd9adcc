"""Labelled sequences that come with packages, divided into training and test as their makers did.

    pip install aeon seglearn gender-guesser rdata
    apt-get download r-cran-mlbench && dpkg -x r-cran-mlbench_*.deb mlbench

Where the makers made no division, the one here is fixed by names or subjects, never by chance or by scores.
"""

import functools
import hashlib
import os
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

LETTERS, BASES = 2000, "acgt"
"""First names that are trained on, half as many are held out; bases of DNA, in the order of their bits."""
PIXELS = 4
"""Of a digit that make up a position."""
WINDOW, HELD_SUBJECTS = 200, 3
"""Samples of a window of the smartwatch (four seconds), half overlapping; subjects held out for the test."""
SPLICE_TRAIN = 2000
"""The first sequences, which StatLog trained on."""


@dataclass(frozen=True)
class Labelled:
    """A data set in two parts; sequences are arrays (length, channels), or words."""

    name: str
    about: str
    source: str
    division: str
    train: tuple[list[Any], np.ndarray]
    test: tuple[list[Any], np.ndarray]
    groups: np.ndarray | None = None  # of the training sequences

    @property
    def words(self) -> bool:
        """Whether the sequences are strings of symbols."""
        return isinstance(self.train[0][0], str)

    @property
    def facts(self) -> dict[str, Any]:
        """What the page says of it."""
        sequences = self.train[0] + self.test[0]
        lengths = [len(sequence) for sequence in sequences]
        return {
            "about": self.about,
            "source": self.source,
            "division": self.division,
            "train": len(self.train[1]),
            "test": len(self.test[1]),
            "classes": len(np.unique(self.train[1])),
            "shortest": min(lengths),
            "longest": max(lengths),
            "channels": 0 if self.words else sequences[0].shape[1],
            "commonest": commonest(self.train[1], self.test[1]),
        }


def commonest(known: np.ndarray, asked: np.ndarray) -> float:
    """Accuracy of always answering with the commonest class of training."""
    classes, counts = np.unique(known, return_counts=True)
    return float(np.mean(asked == classes[counts.argmax()]))


def _archive(name: str, folder: str, about: str) -> Labelled:
    """One of the time series archive's sets that aeon ships."""
    load = import_module("aeon.datasets").load_from_ts_file
    place = Path(import_module("aeon").__file__).parent / "datasets" / "data" / folder
    train, test = (_columns(*load(place / f"{folder}_{part}.ts")[:2]) for part in ("TRAIN", "TEST"))
    return Labelled(name, about, f"aeon, {folder}", "the archive's", train, test)


def _columns(sequences: Any, labels: Any) -> tuple[list[np.ndarray], np.ndarray]:
    """Sequences with a row per position, where aeon has a column for it."""
    return [np.ascontiguousarray(np.asarray(s, dtype=np.float32).T) for s in sequences], np.asarray(labels)


def _splice() -> Labelled:
    """Sixty bases of DNA around a place where two pieces may be joined."""
    rda = Path(os.environ.get("MLBENCH", "mlbench")) / "usr/lib/R/site-library/mlbench/data/DNA.rda"
    table = import_module("rdata").read_rda(rda)["DNA"]
    bits = table.iloc[:, :-1].to_numpy().astype(int).reshape(len(table), -1, 3)
    numbers = np.where(bits.any(2), bits.argmax(2), 3)
    words, labels = ["".join(BASES[base] for base in row) for row in numbers], table["Class"].to_numpy(str)
    return Labelled(
        "splice",
        "DNA: does the sequence begin, end or hold no piece that is read?",
        "Debian's r-cran-mlbench, DNA",
        "StatLog's",
        (words[:SPLICE_TRAIN], labels[:SPLICE_TRAIN]),
        (words[SPLICE_TRAIN:], labels[SPLICE_TRAIN:]),
    )


def _names() -> Labelled:
    """First names that are only given to women, or only to men."""
    file = Path(import_module("gender_guesser").__file__).parent / "data" / "nam_dict.txt"
    lines = file.read_text(encoding="utf-8", errors="replace").splitlines()
    found = {line[3:29].strip().lower(): line[0] for line in lines if line[:2] in ("M ", "F ")}
    kept = sorted((n for n in found if n.isascii() and n.isalpha()), key=_digest)[: LETTERS * 3 // 2]
    labels = np.array([found[name] for name in kept])
    return Labelled(
        "first-names",
        "First names: of women, or of men?",
        "gender-guesser, 3,000 of its names",
        "by a hash of the name",
        (kept[:LETTERS], labels[:LETTERS]),
        (kept[LETTERS:], labels[LETTERS:]),
    )


def _digest(name: str) -> str:
    return hashlib.sha256(name.encode()).hexdigest()


def _digits() -> Labelled:
    """Handwritten digits, four pixels at a time; the same halves as in scikit-learn's own example."""
    held = import_module("sklearn.datasets").load_digits()
    sequences = list(held.data.reshape(len(held.data), -1, PIXELS).astype(np.float32))
    half = len(sequences) // 2
    return Labelled(
        "digits-strokes",
        f"Handwritten digits, {PIXELS} pixels at a time",
        "scikit-learn, load_digits",
        "first half, second half",
        (sequences[:half], held.target[:half]),
        (sequences[half:], held.target[half:]),
    )


def _watch() -> Labelled:
    """Accelerometer and gyroscope at the wrist during seven exercises of the shoulder."""
    held = import_module("seglearn.datasets").load_watch()
    sequences, labels, subjects = list[np.ndarray](), list[int](), list[int]()
    for series, label, subject in zip(held["X"], held["y"], held["subject"], strict=True):
        for start in range(0, len(series) - WINDOW + 1, WINDOW // 2):
            sequences.append(np.asarray(series[start : start + WINDOW], dtype=np.float32))
            labels.append(int(label))
            subjects.append(int(subject))
    owner, y = np.array(subjects), np.array(labels)
    test = np.isin(owner, np.unique(owner)[-HELD_SUBJECTS:])
    return Labelled(
        "smartwatch",
        "Movements at the wrist: which of seven exercises?",
        "seglearn, its smartwatch data",
        f"the last {HELD_SUBJECTS} of 10 people are the test",
        ([s for s, held_out in zip(sequences, test, strict=True) if not held_out], y[~test]),
        ([s for s, held_out in zip(sequences, test, strict=True) if held_out], y[test]),
        owner[~test],
    )


def _spoken() -> Labelled:
    """Cepstra of spoken digits."""
    task = import_module("selfpretrain.tasks.spoken_digits").SpokenDigits(features="mfcc")
    parts = {split: task.load(split) for split in ("train", "val", "test")}
    read = {
        split: ([e.sequence(row, 0) for row in range(len(e))], e.targets.numpy())
        for split, e in parts.items()
    }
    known = read["train"][0] + read["val"][0], np.concatenate([read["train"][1], read["val"][1]])
    return Labelled(
        "spoken-digits",
        "Recordings of ten digits, as 20 cepstra every 12.5 ms",
        "Free Spoken Digit Dataset, found with `selfpretrain data get spoken-digits`",
        "its makers' takes",
        known,
        read["test"],
    )


SETS: dict[str, Callable[[], Labelled]] = {
    "italy-power": functools.partial(
        _archive, "italy-power", "ItalyPowerDemand", "Power demand of a day: winter or summer?"
    ),
    "basic-motions": functools.partial(
        _archive, "basic-motions", "BasicMotions", "A watch's sensors: stand, walk, run, play badminton"
    ),
    "japanese-vowels": functools.partial(
        _archive, "japanese-vowels", "JapaneseVowels", "Two vowels as cepstra: which of nine men speaks?"
    ),
    "first-names": _names,
    "digits-strokes": _digits,
    "splice": _splice,
    "gun-point": functools.partial(
        _archive, "gun-point", "GunPoint", "Path of a hand: does it draw a gun, or point?"
    ),
    "arrow-head": functools.partial(
        _archive, "arrow-head", "ArrowHead", "Outlines of arrow heads: of which of three kinds?"
    ),
    "spoken-digits": _spoken,
    "smartwatch": _watch,
}
"""Smallest first."""
