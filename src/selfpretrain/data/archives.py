"""Safe extraction of tar (plain, gzip, bzip2, xz) and zip archives from untrusted sources.

Only files and folders below the target folder are extracted. Refused are paths that lead outside, links,
devices, passwords, and archive bombs (small files with huge contents). Extraction is atomic.
"""

import bz2
import gzip
import lzma
import os
import re
import shutil
import tarfile
import zipfile
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO, Any

from ..errors import DataError
from ..system.events import report_progress
from . import paths

COMPRESSED: dict[bytes, Callable[..., Any]] = {
    b"\x1f\x8b": gzip.open,
    b"BZh": bz2.open,
    b"\xfd7zXZ": lzma.open,
}
"""First bytes of a compressed tar archive, and the function that opens it."""
DAMAGE = (
    tarfile.TarError,
    zipfile.BadZipFile,
    EOFError,
    zlib.error,
    lzma.LZMAError,
    ValueError,
    RuntimeError,
)


@dataclass(frozen=True)
class Limits:
    """Limits that no honest archive exceeds."""

    size: int = 1 << 40  # unpacked bytes
    ratio: int = 200  # unpacked bytes per packed byte
    small: int = 1 << 24  # unpacked bytes below which the ratio is not checked
    members: int = 10_000_000  # files and folders
    header: int = 1 << 20  # bytes of one header: name, times, owner

    def guard(self, file: IO[bytes], folder: Path) -> Callable[[str, int], None]:
        """Return a function to call with name and size of every member before it is extracted.

        Raises:
            DataError: from the returned function, if the member must not be extracted.
        """
        packed = os.fstat(file.fileno()).st_size
        total = 0
        count = 0
        allowed = min(self.size, max(self.small, self.ratio * packed), shutil.disk_usage(folder).free)

        def check(name: str, size: int) -> None:
            nonlocal total, count
            total += size
            count += 1
            if total > allowed or count > self.members:
                raise _refusal(file, f"{packed:,} bytes would become more than {allowed:,}")
            if ".." in PurePosixPath(name).parts or re.match(r"/|[A-Za-z]:|.*\\|.*[\x00-\x1f\x7f]", name):
                raise _refusal(file, f"{name!r} in it is no name for a file below its folder")
            report_progress(f"unpacking {Path(file.name).name}", file.tell(), packed)

        return check


def extract(archive: Path, folder: Path, limits: Limits | None = None) -> None:
    """Extract an archive as the folder ``folder``.

    If the archive holds nothing but one folder with the name of ``folder``, that folder becomes ``folder``.

    Raises:
        DataError: if it is no archive, damaged or unsafe; nothing is left behind.
    """
    part = folder.with_name(f"{folder.name}.part")
    limits = limits or Limits()
    shutil.rmtree(part, ignore_errors=True)
    try:
        with paths.explain_errors(folder):
            part.mkdir(parents=True)
            with archive.open("rb") as file:
                _extract_file(file, part, limits)
            inner = part / folder.name
            alone = inner.is_dir() and len(list(part.iterdir())) == 1
            os.replace(inner if alone else part, folder)
    finally:
        shutil.rmtree(part, ignore_errors=True)


def _extract_file(file: IO[bytes], part: Path, limits: Limits) -> None:
    try:
        extract_members = _extract_zip if file.read(2) == b"PK" else _extract_tar
        extract_members(file, part, limits)
    except (FileExistsError, IsADirectoryError, NotADirectoryError) as error:
        raise _refusal(file, "a name comes twice in it, as a file and as a folder") from error
    except (*DAMAGE, OSError) as error:
        if isinstance(error, DataError) or (isinstance(error, OSError) and error.errno):
            raise  # a refused archive, or an error of the operating system such as a full disk
        complaint = " ".join(str(error).split())
        raise DataError(
            f"{file.name} is damaged, or no tar or zip archive ({complaint}); move it away and get it again"
        ) from error


def _extract_zip(file: IO[bytes], part: Path, limits: Limits) -> None:
    with zipfile.ZipFile(file) as archive:
        check = limits.guard(file, part)
        members = archive.infolist()
        file.seek(-12 - len(archive.comment), os.SEEK_END)
        number = int.from_bytes(file.read(2), "little")  # 65,535: does not fit here (zip64)
        if number not in (len(members), 0xFFFF):
            raise zipfile.BadZipFile(f"{number} files are listed, {len(members)} are there")
        for member in members:
            check(member.filename, member.file_size)
            if member.external_attr >> 28 not in (0, 4, 8):  # Unix file type: 4 is a folder, 8 a file
                raise _refusal(file, f"{member.filename!r} in it is a link or a device")
            archive.extract(member, part)


def _extract_tar(file: IO[bytes], part: Path, limits: Limits) -> None:
    file.seek(0)
    start = file.read(6)
    file.seek(0)
    opener = next((opener for magic, opener in COMPRESSED.items() if start.startswith(magic)), None)
    check = limits.guard(file, part)
    plain = _LimitedReader(opener(file) if opener else file, limits.header)

    def keep(member: tarfile.TarInfo, folder: Any) -> tarfile.TarInfo:
        check(member.name, member.size)
        if not (member.isdir() or member.isreg()) or member.issparse():
            raise _refusal(file, f"{member.name!r} in it is a link or a device")
        return tarfile.data_filter(member, folder)

    with tarfile.open(fileobj=plain, mode="r:") as archive:  # type: ignore[call-overload]
        archive.extractall(part, filter=keep)
    tail = plain.last + plain.read(limits.header)  # read to the end, where a compressed file has its checksum
    if not tail or tail.strip(b"\0"):
        raise tarfile.ReadError("its end is missing")


def _refusal(file: IO[bytes], problem: str) -> DataError:
    return DataError(f"{file.name} is not opened: {problem}; if you trust it, unpack it yourself")


class _LimitedReader:
    """A file that limits the size of one read: tar headers are read whole, so one can be a bomb."""

    def __init__(self, file: Any, max_size: int) -> None:
        self.file = file
        self.most = max_size
        self.last = b""
        self.seek = file.seek
        self.tell = file.tell

    def read(self, size: int) -> bytes:
        """Read at most ``size`` bytes."""
        if size > self.most:
            raise tarfile.ReadError("its headers are too long")
        self.last = self.file.read(size)
        return self.last
