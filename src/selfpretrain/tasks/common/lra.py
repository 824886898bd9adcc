"""The files of Long Range Arena's release: where they come from, and where they lie once unpacked."""

from ...data.download import Download

RELEASE = Download("https://storage.googleapis.com/long-range-arena/lra_release.gz", into="lra_release")
"""About 8 GB, 19 GB unpacked; its makers publish no checksum."""


def places(name: str) -> tuple[str, ...]:
    """Where a file or folder of the release may be, e.g. ``places("listops-1000/basic_train.tsv")``.

    The archive holds a folder in a folder of one name, and people unpack it in more ways than one.
    """
    return f"lra_release/lra_release/{name}", f"lra_release/{name}", name
