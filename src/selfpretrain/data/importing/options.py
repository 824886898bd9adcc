"""Options of an import: columns, kinds, missing values, windows, audio features."""

from collections.abc import Collection, Mapping
from dataclasses import fields

from ...config import Count, Seed, spec
from ...errors import DataError, join_names
from . import AudioFeatures, Kind, MissingPolicy, TargetKind

WIDE = "tables of one row per sequence"
LONG = "long tables"
TEXT_TABLES = (".csv", ".tsv", ".txt")
USED: Mapping[str, tuple[str, ...]] = {
    **dict.fromkeys(("label", "group", "split"), ("tables", "recordings", "texts")),
    "sequence": (WIDE,),
    **dict.fromkeys(("id", "time", "value"), (LONG,)),
    "kind text": (WIDE, "texts"),
    "kind tokens": (WIDE, LONG, "arrays"),
    "kind values": (WIDE, LONG, "recordings", "arrays", ".ts files"),
    **dict.fromkeys(("rate", "features"), ("recordings",)),
    "header": TEXT_TABLES,
    "encoding": (*TEXT_TABLES, ".arff", "texts"),
    "test": ("files",),  # of the two files themselves, neither has one
    "skip_bad": ("recordings", "texts"),
}
"""Option -> the kinds of data that it says something about; other options are for all that is imported."""


@spec
class ImportOptions:
    """How to read user data. What is not given is inferred, and shown before anything is written."""

    label: str = ""  # column; for a folder of files a regular expression whose group is the label
    sequence: str = ""  # one column, or several, comma-separated or with *
    group: str = ""  # column; for a folder of files a regular expression
    split: str = ""  # column; for a folder of files a regular expression
    kind: Kind = "auto"
    target: TargetKind = "auto"
    id: str = ""  # column of the sequence id, in long tables (one row per position)
    time: str = ""  # column that orders the rows of a sequence
    value: str = ""  # column of measured values, or several, comma-separated or with *
    missing: MissingPolicy = "refuse"  # what to do about missing values
    length: Count | None = None  # maximum length; longer sequences are truncated
    window: Count | None = None  # cut sequences into windows of this length
    stride: Count | None = None  # distance between the starts of windows; None: ``window``
    rate: Count | None = None  # resample recordings to this rate, in Hz
    features: AudioFeatures = "raw"  # features of recordings
    header: bool = True  # whether the first row of a CSV file names the columns; else c1, c2, ...
    test: str = ""  # separate file of test sequences
    encoding: str = ""  # of a text file; empty: UTF-8, else Windows-1252
    skip_bad: bool = False  # skip files that cannot be read
    split_seed: Seed = 0  # seed of the split into train, val and test

    @property
    def roles(self) -> dict[str, str]:
        """Return the columns or patterns that describe whole sequences, by role: label, group, split."""
        named = {"label": self.label, "group": self.group, "split": self.split}
        return {role: column for role, column in named.items() if column}

    def refuse_unused(self, name: str, kinds: Collection[str], advice: str = "") -> None:
        """Refuse options that say nothing about some data, instead of ignoring them.

        Args:
            name: of the data.
            kinds: what they are, in the words of ``USED``; empty: they are not imported.
            advice: what else can be done.

        Raises:
            DataError: naming the first such option, and what it is for.
        """
        for each in fields(self):
            value = getattr(self, each.name)
            if value == each.default:
                continue
            option = f"kind {value}" if each.name == "kind" else each.name
            meant = USED.get(option)
            if not kinds or (meant and not set(meant) & set(kinds)):
                flag = "--no-header" if option == "header" else f"--{option.replace('_', '-')}"
                said = f"{flag} is for {join_names(meant or ['files'])}"
                raise DataError(f"{name}: {said}; leave it out{advice}")
