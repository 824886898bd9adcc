"""Files from their official addresses."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Download:
    """A file on the network, and how to know that it is the right one."""

    url: str
    into: str  # folder under ``raw`` in the data folder, e.g. "aclImdb"
    size: int = 0  # bytes; 0: not known
    sha256: str = ""
    md5: str = ""
    unpack: bool = True  # whether it is an archive to be opened
