"""Safe and atomic extraction of archives: tar (plain, gzip, bzip2, xz) or zip; files of a Debian package.

pooch, which downloads them, extracts into the final place, keeps links and, before Python 3.12, paths that
lead outside, and knows no limit on size. Refused here are paths that lead outside, links, devices, passwords,
and archive bombs (small files with huge contents).
"""

import bz2
import gzip
import io
import lzma
import os
import re
import shutil
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path, PurePosixPath
from typing import IO, Any, TypeVar

from ..errors import DataError
from ..system.events import report_progress
from . import paths

# Limits that no honest archive exceeds.
MAX_UNPACKED = 1 << 40  # bytes
MAX_RATIO = 200  # unpacked bytes per packed byte ...
SMALL = 1 << 24  # ... of archives that unpack to more than this
MAX_MEMBERS = 10_000_000  # files and folders
MAX_HEADER = 1 << 20  # bytes of one tar header: name, times, owner

COMPRESSED: dict[bytes, Callable[..., Any]] = {
    b"\x1f\x8b": gzip.open,
    b"BZh": bz2.open,
    b"\xfd7zXZ": lzma.open,
}
"""First bytes of a compressed tar archive, and the function that opens it."""
AR_MAGIC = b"!<arch>\n"  # first bytes of a Debian package, which is an ar archive
AR_HEADER = 60
"""Bytes before each member of an ar archive: name (16), times and rights (32), size (10), end mark (2)."""
DAMAGE = (
    tarfile.TarError, zipfile.BadZipFile, EOFError, zlib.error, lzma.LZMAError, ValueError, RuntimeError,
)  # fmt: skip
Member = TypeVar("Member", tarfile.TarInfo, zipfile.ZipInfo)


def extract(archive: Path, folder: Path) -> None:
    """Extract an archive as the folder ``folder``.

    If the archive holds nothing but one folder with the name of ``folder``, that folder becomes ``folder``.

    Raises:
        DataError: if it is not an archive, damaged or unsafe; nothing is left behind.
    """
    part = folder.with_name(f"{folder.name}.part")
    shutil.rmtree(part, ignore_errors=True)
    try:
        with paths.explain_errors(folder):
            part.mkdir(parents=True)
            with archive.open("rb") as file, _undamaged(archive, "tar or zip archive"):
                try:
                    (_extract_zip if file.read(2) == b"PK" else _extract_tar)(file, part)
                except (FileExistsError, IsADirectoryError, NotADirectoryError) as error:
                    raise _refusal(file, "a name comes twice in it, as a file and as a folder") from error
            inner = part / folder.name
            alone = inner.is_dir() and len(list(part.iterdir())) == 1
            os.replace(inner if alone else part, folder)
    finally:
        shutil.rmtree(part, ignore_errors=True)


def read_package(package: Path, names: Sequence[str]) -> list[bytes]:
    """Return the contents of files of a Debian package by their paths in it; nothing is written to disk.

    The package is an ar archive, and its member ``data.tar.*`` a tar archive (plain, gzip, bzip2 or xz).

    Raises:
        DataError: if it is not a Debian package, damaged or unsafe, or lacks one of the files.
    """
    reading = paths.explain_errors(package, "read")
    found: dict[str, bytes] = {}
    total = 0
    with reading, package.open("rb") as file, _undamaged(package, "Debian package"):
        plain = _open_compressed(_package_data(file))
        packed = os.fstat(file.fileno()).st_size
        allowed = max(SMALL, MAX_RATIO * packed)
        with tarfile.open(fileobj=plain, mode="r:") as archive:  # type: ignore[call-overload]
            for member in archive:
                total += member.size
                if total > allowed:
                    raise _refusal(file, f"{packed:,} bytes would become more than {allowed:,}")
                name = member.name.removeprefix("./")
                if name in names and member.isreg() and not member.issparse():
                    content = archive.extractfile(member) or io.BytesIO()
                    found[name] = b"".join(iter(partial(content.read, MAX_HEADER), b""))
                if len(found) == len(set(names)):
                    break
    if missing := [name for name in names if name not in found]:
        raise DataError(f"{package} has no file {missing[0]}; get the version that the task names")
    return [found[name] for name in names]


def _package_data(file: IO[bytes]) -> io.BytesIO:
    """Return the member ``data.tar.*`` of a Debian package."""
    if file.read(len(AR_MAGIC)) != AR_MAGIC:
        raise tarfile.ReadError("its first bytes are others")
    while header := file.read(AR_HEADER):
        if len(header) < AR_HEADER or header[-2:] != b"`\n":
            raise tarfile.ReadError("a header is damaged")
        size = int(header[48:58])
        if header.startswith(b"data.tar"):
            data = file.read(size)
            if len(data) < size:
                raise tarfile.ReadError("its end is missing")
            return io.BytesIO(data)
        file.seek(size + size % 2, os.SEEK_CUR)  # members begin at even places
    raise tarfile.ReadError("it has no data")


@contextmanager
def _undamaged(archive: Path, kind: str) -> Iterator[None]:
    """Convert errors of a damaged archive; those of the system, such as a full disk, and refusals remain."""
    try:
        yield
    except (*DAMAGE, OSError) as error:
        if isinstance(error, DataError) or (isinstance(error, OSError) and error.errno):
            raise
        reason = " ".join(str(error).split())
        raise DataError(
            f"{archive} is damaged, or no {kind} ({reason}); move it away and get it again"
        ) from error


def _extract_zip(file: IO[bytes], part: Path) -> None:
    with zipfile.ZipFile(file) as archive:
        members = archive.infolist()
        file.seek(-12 - len(archive.comment), os.SEEK_END)
        number = int.from_bytes(file.read(2), "little")  # 65,535: does not fit here (zip64)
        if number not in (len(members), 0xFFFF):
            raise zipfile.BadZipFile(f"{number} files are listed, {len(members)} are there")
        described = (
            (member, member.filename, member.file_size, member.external_attr >> 28 in (0, 4, 8))
            for member in members  # file types of Unix: 4 is a folder, 8 a file
        )
        for member in _checked(file, part, described):
            archive.extract(member, part)


def _extract_tar(file: IO[bytes], part: Path) -> None:
    plain = _open_compressed(file)
    with tarfile.open(fileobj=plain, mode="r:") as archive:  # type: ignore[call-overload]
        described = (
            (member, member.name, member.size, (member.isdir() or member.isreg()) and not member.issparse())
            for member in archive
        )
        for member in _checked(file, part, described):
            archive.extract(member, part, filter="data")
    tail = plain.last + plain.read(MAX_HEADER)  # read to the end, where a compressed file has its checksum
    if not tail or tail.strip(b"\0"):
        raise tarfile.ReadError("its end is missing")


def _open_compressed(file: IO[bytes] | io.BytesIO) -> "_LimitedReader":
    """Return the tar archive in a file, decompressed."""
    file.seek(0)
    start = file.read(6)
    file.seek(0)
    opener = next((opener for magic, opener in COMPRESSED.items() if start.startswith(magic)), None)
    return _LimitedReader(opener(file) if opener else file)


def _checked(
    file: IO[bytes], folder: Path, members: Iterable[tuple[Member, str, int, bool]]
) -> Iterator[Member]:
    """Yield the members of an archive as long as it is not to be refused.

    Args:
        members: each with its name, its size, and whether it is a file or a folder.
    """
    packed = os.fstat(file.fileno()).st_size
    allowed = min(MAX_UNPACKED, max(SMALL, MAX_RATIO * packed))
    free = shutil.disk_usage(folder).free
    total = 0
    for count, (member, name, size, plain) in enumerate(members):
        total += size
        if total > allowed or count >= MAX_MEMBERS:
            raise _refusal(file, f"{packed:,} bytes would become more than {allowed:,}")
        if total > free:
            advice = f"free some space, or set {paths.VARIABLE} to a folder on another disk"
            raise DataError(f"{file.name} unpacks to more than the {free:,} bytes that are free; {advice}")
        if ".." in PurePosixPath(name).parts or re.match(r"/|[A-Za-z]:|.*\\|.*[\x00-\x1f\x7f]", name):
            raise _refusal(file, f"{name!r} in it does not name a file below its folder")
        if not plain:
            raise _refusal(file, f"{name!r} in it is a link or a device")
        report_progress(f"unpacking {Path(file.name).name}", file.tell(), packed)
        yield member


def _refusal(file: IO[bytes], problem: str) -> DataError:
    return DataError(f"{file.name} is not opened: {problem}; if you trust it, unpack it yourself")


class _LimitedReader:
    """A file that limits the size of one read: tar headers are read whole, so one can be a bomb."""

    def __init__(self, file: Any) -> None:
        self.file = file
        self.last = b""
        self.seek = file.seek
        self.tell = file.tell

    def read(self, size: int) -> bytes:
        """Read at most ``size`` bytes."""
        if size > MAX_HEADER:
            raise tarfile.ReadError("its headers are too long")
        self.last = self.file.read(size)
        return self.last
