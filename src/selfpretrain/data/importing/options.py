"""Options of an import: columns, kinds, missing values, windows, audio features."""

from ...config import Count, Seed, spec
from . import AudioFeatures, Kind, MissingPolicy, TargetKind


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
    encoding: str = ""  # of a text file; empty: UTF-8, else Latin-1
    skip_bad: bool = False  # skip files that cannot be read
    split_seed: Seed = 0  # seed of the split into train, val and test

    @property
    def roles(self) -> dict[str, str]:
        """Return the columns or patterns that describe whole sequences, by role: label, group, split."""
        named = {"label": self.label, "group": self.group, "split": self.split}
        return {role: column for role, column in named.items() if column}
