"""The files of Long Range Arena's release: download address, and paths once unpacked."""

from ...data.download import Download

RELEASE = Download("https://storage.googleapis.com/long-range-arena/lra_release.gz", into="lra_release")
"""About 8 GB, 19 GB unpacked; its makers publish no checksum."""


def release_paths(name: str) -> tuple[str, ...]:
    """Return the possible paths of a file or folder, e.g. ``release_paths("listops-1000/basic_train.tsv")``.

    The archive holds a folder within a folder of the same name, so the path depends on how it was unpacked.
    """
    return f"lra_release/lra_release/{name}", f"lra_release/{name}", name
