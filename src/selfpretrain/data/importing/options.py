"""How somebody's data are to be read."""

from ...config import Count, Seed, spec
from .kinds import AudioFeatures, Kind, MissingPolicy, TargetKind


@spec
class ImportOptions:
    """How data are to be read; what is left out is inferred, and shown."""

    label: str = ""  # column; for a folder of files a pattern whose parenthesis is the label
    sequence: str = ""  # one column, or several, comma-separated or with *
    group: str = ""  # column; for a folder of files a pattern
    split: str = ""  # column; for a folder of files a pattern
    kind: Kind = "auto"
    target: TargetKind = "auto"
    id: str = ""  # long tables, one row per position: column that says to which sequence a row belongs
    time: str = ""  # column that orders the rows of a sequence
    value: str = ""  # column of what was measured then, or several, comma-separated or with *
    missing: MissingPolicy = "refuse"  # what to do about values that are not known
    length: Count | None = None  # longer sequences are cut
    window: Count | None = None  # sequences are cut into pieces of so many positions
    stride: Count | None = None  # from the start of one window to that of the next; None: the window
    rate: Count | None = None  # samples per second that recordings are brought to
    features: AudioFeatures = "raw"  # what is taken of recordings
    header: bool = True  # whether the first row of a CSV file names its columns; else they are c1, c2, ...
    test: str = ""  # a file of test sequences, beside one of training sequences
    encoding: str = ""  # of a text file; empty: UTF-8, or Latin-1 if it is not
    skip_bad: bool = False  # leave out files that cannot be read
    split_seed: Seed = 0  # another division into train, val and test

    @property
    def roles(self) -> dict[str, str]:
        """What is said of a sequence besides its positions, and the column or pattern that says it."""
        named = {"label": self.label, "group": self.group, "split": self.split}
        return {role: column for role, column in named.items() if column}
