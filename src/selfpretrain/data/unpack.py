"""Archives opened with care: tar (plain, gzip, bzip2, xz) and zip, made by whomever.

Only files and folders come out, each below the place it is meant for, and written here: the archive libraries
do nothing but read. All else is refused: absolute names and ``..``, links, devices, passwords, a name that
comes twice, and bombs, which are small files with huge contents. Everything appears at once, at the end.
"""

import bz2
import gzip
import lzma
import os
import re
import shutil
import stat
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path, PurePosixPath
from typing import IO, Any

from ..errors import DataError
from ..system.events import progress
from .prepared import unwritable

CHUNK = 1 << 20
HEADER = 1 << 20
"""Bytes that may stand between the contents of two files of a tar archive: names, times, owners."""
ZIP = (b"PK\x03\x04", b"PK\x05\x06")
PACKED: dict[bytes, Callable[..., Any]] = {
    b"\x1f\x8b": gzip.open,
    b"BZh": bz2.open,
    b"\xfd7zXZ": lzma.open,
}
"""How an archive begins, and what opens it."""
DAMAGE = (tarfile.TarError, zipfile.BadZipFile, EOFError, zlib.error, lzma.LZMAError, NotImplementedError)


@dataclass(frozen=True)
class Limits:
    """What no honest archive exceeds."""

    size: int = 1 << 40  # bytes of all its files
    ratio: int = 200  # bytes of all its files for each of its own
    small: int = 1 << 24  # bytes of all its files that need no such proportion
    members: int = 10_000_000  # files and folders


DEFAULTS = Limits()


@dataclass(frozen=True)
class Member:
    """One entry of an archive."""

    name: str
    kind: str  # "file", "folder", or in words what else it is
    size: int  # bytes, as declared
    open: Callable[[], Any]


def unpack(archive: Path, place: Path, limits: Limits = DEFAULTS) -> None:
    """Open an archive as the folder ``place``.

    Where all it holds is one folder of the same name as ``place``, that is the folder.

    Raises:
        DataError: if it is no archive, damaged, or not to be trusted; nothing is left of it then.
    """
    part = place.with_name(f"{place.name}.part")
    shutil.rmtree(part, ignore_errors=True)
    try:
        part.mkdir(parents=True)
        with archive.open("rb") as file:
            _write(_members(file), part, file, limits)
        inner = part / place.name
        alone = inner.is_dir() and len(list(part.iterdir())) == 1
        os.replace(inner if alone else part, place)
    except DAMAGE as error:
        raise DataError(
            f"{archive} is damaged, or no tar or zip archive ({error}); delete it and get it again"
        ) from error
    except OSError as error:
        raise DataError(unwritable(place, error)) from error
    finally:
        shutil.rmtree(part, ignore_errors=True)


def _write(members: Iterator[Member], part: Path, file: IO[bytes], limits: Limits) -> None:
    """Write everything into the empty folder ``part``, in which nothing but files and folders ever is."""
    archive, packed = Path(file.name), os.fstat(file.fileno()).st_size
    allowed = min(limits.size, max(limits.small, limits.ratio * packed), shutil.disk_usage(part).free)
    total, made = 0, set[Path]()
    for count, member in enumerate(members, 1):
        total += member.size
        if wrong := _wrong(member):
            raise _refusal(archive, f"{member.name!r} in it is {wrong}")
        if total > allowed or count > limits.members:
            raise _refusal(archive, f"{packed:,} bytes would become more than {allowed:,}")
        target = part.joinpath(member.name)
        try:
            folder = target if member.kind == "folder" else target.parent
            if folder not in made:
                folder.mkdir(parents=True, exist_ok=True)
                made.add(folder)
            if member.kind == "file":
                _copy(member, target)
        except (FileExistsError, NotADirectoryError) as error:
            raise _refusal(archive, f"{member.name!r} comes twice in it") from error
        progress(f"unpacking {archive.name}", file.tell(), packed)


def _copy(member: Member, target: Path) -> None:
    done = 0
    with target.open("xb") as out, member.open() as contents:
        while block := contents.read(CHUNK):
            out.write(block)
            done += len(block)
    if done != member.size:
        raise EOFError(f"{member.name!r} has {done:,} bytes, not {member.size:,}")


def _wrong(member: Member) -> str:
    """Why a member is not to be written, in words; empty if it may be."""
    parts = PurePosixPath(member.name).parts
    if member.kind not in ("file", "folder"):
        return member.kind
    if member.name.startswith("/") or ".." in parts or re.match(r"[A-Za-z]:|.*\\", member.name):
        return "outside of the folder it is unpacked to"
    if re.search(r"[\x00-\x1f\x7f]", member.name) or (not parts and member.kind == "file"):
        return "no name for a file"
    return ""


def _refusal(archive: Path, problem: str) -> DataError:
    return DataError(f"{archive} is not opened: {problem}; if you trust it, unpack it yourself")


def _members(file: IO[bytes]) -> Iterator[Member]:
    start = file.read(8)
    file.seek(0)
    if start.startswith(ZIP):
        yield from _in_zip(file)
        return
    for magic, opener in PACKED.items():
        if start.startswith(magic):
            with opener(file) as plain:
                yield from _in_tar(plain)
            return
    yield from _in_tar(file)


def _in_zip(file: IO[bytes]) -> Iterator[Member]:
    with zipfile.ZipFile(file) as archive:
        file.seek(-12 - len(archive.comment), os.SEEK_END)
        number = int.from_bytes(file.read(2), "little")  # 65,535 where it does not fit
        if number not in (len(archive.infolist()), 0xFFFF):
            raise zipfile.BadZipFile(f"{number} files are listed, {len(archive.infolist())} are there")
        for info in archive.infolist():
            kind = "folder" if info.is_dir() else "file"
            if stat.S_IFMT(info.external_attr >> 16) not in (0, stat.S_IFREG, stat.S_IFDIR):
                kind = "a link or a device"
            if info.flag_bits & 1:
                kind = "locked by a password"
            yield Member(info.filename, kind, info.file_size, partial(archive.open, info))


def _in_tar(plain: Any) -> Iterator[Member]:
    meter: Any = _Meter(plain)
    with tarfile.open(fileobj=meter, mode="r:") as archive:
        while info := archive.next():
            meter.left = info.size + HEADER
            kind = "a link or a device"
            if info.isdir():
                kind = "folder"
            elif info.isreg() and not info.issparse():
                kind = "file"
            yield Member(info.name, kind, info.size, partial(archive.extractfile, info))
            archive.members.clear()  # type: ignore[attr-defined]  # else each of millions would be kept
            meter.left = HEADER
    rest = meter.last + plain.read(HEADER)  # to the very end: there a compressed file has its checksum
    if not rest or rest.strip(b"\0"):
        raise tarfile.ReadError("its end is missing")


class _Meter:
    """A file that gives no more than is left to be read: headers, too, can be bombs, and go into memory."""

    def __init__(self, file: Any) -> None:
        self.file, self.left, self.last = file, HEADER, b""
        self.seek, self.tell = file.seek, file.tell

    def read(self, size: int) -> bytes:
        """Some bytes."""
        self.left -= size
        if self.left < 0:
            raise tarfile.ReadError("its headers are too long")
        self.last = self.file.read(size)
        return self.last
