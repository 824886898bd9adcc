"""Download of files from their official addresses, resumable and verified, and safe extraction of archives.

A partial download is kept next to its final path as ``NAME.part``, with the server's version of the file
(ETag or date) in ``NAME.part.json``; it is resumed unless the file at the address has changed. A complete
file has its SHA-256 in ``NAME.sha256``, in the format of sha256sum; if none is known in advance, the first
one counts.

Archives are tar (plain, gzip, bzip2, xz) or zip. Only files and folders below the target folder are
extracted. Refused are paths that lead outside, links, devices, passwords, and archive bombs (small files with
huge contents). Extraction is atomic.
"""

import bz2
import gzip
import hashlib
import json
import lzma
import os
import queue
import re
import shutil
import socket
import tarfile
import threading
import time
import zipfile
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO, TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

from .. import __version__
from ..errors import DataError
from ..system.events import report_progress
from . import paths

if TYPE_CHECKING:
    from requests import Response

CHUNK = 1 << 16
"""Bytes written at a time: the most that a lost connection costs."""
PAUSES = (1.0, 2.0, 4.0, 8.0, 16.0)
"""Seconds before each retry without progress; after the last one the download fails."""
PATIENCE = 60.0
"""Maximum seconds to wait when a busy server asks for a pause (Retry-After)."""
TIMEOUT = (10.0, 30.0)
"""Seconds to connect, and seconds without data, after which an attempt fails."""
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
class Download:
    """A file to download, and how to verify it.

    An archive is extracted into ``into``. If it holds only one folder of that name, that folder becomes
    ``into``: ``aclImdb_v1.tar.gz`` into "aclImdb" gives ``raw/aclImdb/train``. No two archives share it.
    """

    url: str
    into: str  # folder under ``raw`` in the data folder, e.g. "aclImdb"
    size: int = 0  # bytes; 0: unknown
    sha256: str = ""
    md5: str = ""
    unpack: bool = True  # whether to extract it as an archive

    @property
    def name(self) -> str:
        """File name, without its folder."""
        return unquote(urlsplit(self.url).path.rpartition("/")[2])

    @property
    def file(self) -> str:
        """Path of the downloaded file under ``raw``; an archive is next to its extracted folder."""
        return self.name if self.unpack else f"{self.into}/{self.name}"

    @property
    def outcome(self) -> str:
        """Path of the result under ``raw``: the folder of an archive, or the file."""
        return self.into if self.unpack else self.file


def get(download: Download, wait: float = 1.0) -> Path:
    """Download a file, verify it and, if it is an archive, extract it; do nothing if the result exists.

    Args:
        wait: seconds to wait for the server to accept a connection.

    Raises:
        DataError: if the file is not available; the message says what to place where instead.
    """
    existing = paths.find(download.outcome)
    if download.unpack and existing:
        return existing
    file = fetch(download, wait)
    if not download.unpack:
        return file
    place = paths.writable_path("raw", download.into)
    with paths.hold_lock(place):
        if not place.exists():
            extract(file, place)
    return place


def fetch(download: Download, wait: float = 1.0, pauses: tuple[float, ...] = PAUSES) -> Path:
    """Download and verify a file, and return its path.

    Args:
        pauses: seconds before each retry without progress.

    Raises:
        DataError: if the file is not available, or an existing file of this name is a different one.
    """
    file = paths.find(download.file) or paths.writable_path("raw", download.file)
    if not file.exists():
        with paths.hold_lock(file):
            if not file.exists():
                _download(download, file, wait, pauses)
                return file
    if wrong := _mismatch(download, file):
        raise DataError(f"{file} {wrong}; move it away and get it again")
    return file


class _Retry(Exception):
    """A failed attempt that may be repeated."""

    def __init__(self, message: str, pause: float = 0.0) -> None:
        super().__init__(message)
        self.pause = pause


class _Part:
    """A partial download, and the server's version of the file it belongs to."""

    def __init__(self, file: Path) -> None:
        self.file = file.with_name(f"{file.name}.part")
        self.note = file.with_name(f"{file.name}.part.json")

    @property
    def size(self) -> int:
        """Bytes downloaded so far."""
        return self.file.stat().st_size if self.file.exists() else 0

    def clear(self) -> None:
        """Delete the partial download."""
        self.file.unlink(missing_ok=True)
        self.note.unlink(missing_ok=True)

    def headers(self, download: Download) -> dict[str, str]:
        """Return HTTP headers that request only the rest, on condition that the file is unchanged.

        Without an ETag or date to make that condition, only a checksum can detect a change, at the end.
        """
        try:
            url, mark = json.loads(self.note.read_text(encoding="utf-8"))
        except (OSError, TypeError, ValueError):  # no download yet, or a kill left half a note
            url = ""
            mark = ""
        if url != download.url or not (mark or download.sha256 or download.md5):
            self.clear()
        if not self.size:
            return {}
        return {"Range": f"bytes={self.size}-"} | ({"If-Range": mark} if mark else {})

    def begin(self, download: Download, reply: "Response") -> None:
        """Record the server's version of the file; ignore weak ETags, which do not promise equal bytes."""
        tag = reply.headers.get("ETag", "W/")
        mark = reply.headers.get("Last-Modified", "") if tag.startswith("W/") else tag
        self.note.write_text(json.dumps([download.url, mark]), encoding="utf-8")


def _download(download: Download, file: Path, wait: float, pauses: tuple[float, ...]) -> None:
    """Repeat attempts until the file is complete and verified."""
    part = _Part(file)
    if problem := connection_problem(download.url, wait):
        raise _manual_error(download, file, problem)
    with paths.explain_errors(file):
        _retry(download, part, file, pauses)
        sha256 = download.sha256 or _recorded_sha256(file) or _digest(part.file, "sha256")
        paths.write_text(file.with_name(f"{file.name}.sha256"), f"{sha256}  {file.name}\n")
        os.replace(part.file, file)
        part.note.unlink(missing_ok=True)


def _retry(download: Download, part: _Part, file: Path, pauses: tuple[float, ...]) -> None:
    tries = 0
    while True:
        before = part.size
        try:
            _attempt(download, part, file)
            wrong = _mismatch(download, part.file)
            if not wrong:
                return
            # A resumed download may mix two versions of the file: start over, but not after a fresh one.
            part.clear()
            if not before:
                raise _manual_error(download, file, f"what {download.url} serves {wrong}")
        except _Retry as failure:
            tries = 1 if part.size > before else tries + 1
            if tries > len(pauses):
                kept = f"{part.size:,} bytes are kept and the same command resumes from there"
                raise DataError(f"{download.url}: {failure}; {kept}") from failure
            time.sleep(max(pauses[tries - 1], failure.pause))


def _attempt(download: Download, part: _Part, file: Path) -> None:
    """Download the file, or the rest of it, over one connection."""
    import requests
    import urllib3

    headers = {"User-Agent": f"selfpretrain/{__version__}", "Accept-Encoding": "identity"}
    headers |= part.headers(download)
    try:
        with requests.get(download.url, headers=headers, stream=True, timeout=TIMEOUT) as reply:
            if reply.status_code == 416:  # no bytes after ours: the file is complete, or ours is too long
                if _total(reply) != part.size:
                    part.clear()
                    raise _Retry("the rest of the file was refused")
                return
            _check_response(download, file, reply)
            _write_body(download, part, reply)
    except (requests.RequestException, urllib3.exceptions.HTTPError) as error:
        if "CERTIFICATE_VERIFY_FAILED" in str(error):
            raise _manual_error(
                download, file, f"the certificate of {download.url} is not trusted"
            ) from error
        raise _Retry(f"the connection was lost ({_short_reason(error)})") from error


def _check_response(download: Download, file: Path, reply: "Response") -> None:
    """Raise an error if the response cannot be the file."""
    if reply.status_code == 429 or reply.status_code >= 500:
        retry_after = reply.headers.get("Retry-After", "")
        pause = min(float(retry_after), PATIENCE) if retry_after.isdigit() else 0.0
        raise _Retry(f"the server answers {reply.status_code} ({reply.reason})", pause)
    if reply.status_code not in (200, 206):
        problem = f"{download.url} answers {reply.status_code} ({reply.reason})"
        raise _manual_error(download, file, problem)
    if "text/html" in reply.headers.get("Content-Type", "") and not download.name.endswith((".html", ".htm")):
        raise _manual_error(download, file, f"{download.url} answers with a web page")
    total = _total(reply)
    if download.size and total and total != download.size:
        raise _manual_error(download, file, f"{download.url} has {total:,} bytes, not {download.size:,}")


def _write_body(download: Download, part: _Part, reply: "Response") -> None:
    """Append the response to the partial download, or overwrite it if the server starts from byte 0."""
    done = int(_ranges(reply)[0] or -1) if reply.status_code == 206 else 0
    if done not in (0, part.size):
        part.clear()
        raise _Retry("the server sent another part than the one asked for")
    total = _total(reply) or download.size
    _check_space(part.file.parent, total - done)
    part.begin(download, reply)
    with part.file.open("r+b" if done else "wb") as out:
        out.seek(done)
        for block in reply.raw.stream(CHUNK, decode_content=False):
            out.write(block)
            done += len(block)
            report_progress(download.name, done, total)
            if total and done > total:
                raise _Retry("more came than was announced")
        out.flush()
        os.fsync(out.fileno())
    if done < total:
        raise _Retry("the connection ended early")


def _ranges(reply: "Response") -> tuple[str | None, str | None]:
    """Return first byte and total size from a header such as ``bytes 100-199/200`` or ``bytes */200``."""
    found = re.fullmatch(r"bytes (?:(\d+)-\d+|\*)/(\d+|\*)", reply.headers.get("Content-Range", ""))
    return (found[1], found[2]) if found else (None, None)


def _total(reply: "Response") -> int:
    """Return the size of the whole file in bytes; 0 if the server does not say."""
    if reply.status_code in (206, 416):
        total = _ranges(reply)[1] or ""
        return int(total) if total.isdigit() else 0
    length = reply.headers.get("Content-Length", "")
    return int(length) if length.isdigit() else 0


def _check_space(folder: Path, needed: int) -> None:
    free = shutil.disk_usage(folder).free
    if needed > free:
        raise DataError(
            f"{needed:,} bytes are to come and {folder} has room for {free:,}; free some, or set "
            f"{paths.VARIABLE} to a folder on another disk"
        )


def connection_problem(url: str, wait: float) -> str:
    """Return why the server, or the proxy in front of it, cannot be reached; "" if it can.

    Runs in a thread: without a network, DNS and firewalls may block for minutes.
    """
    from requests.utils import get_environ_proxies, select_proxy
    from urllib3.util import parse_url

    server = parse_url(select_proxy(url, get_environ_proxies(url)) or url)
    port = server.port or (443 if server.scheme == "https" else 80)
    replies: queue.SimpleQueue[str] = queue.SimpleQueue()

    def connect() -> None:
        try:
            socket.create_connection((server.host, port), wait).close()
            replies.put("")
        except OSError as error:
            replies.put(error.strerror or str(error))

    threading.Thread(target=connect, daemon=True).start()
    try:
        problem = replies.get(timeout=wait)
    except queue.Empty:
        problem = f"no answer within {wait:g} s, --wait 30 waits longer"
    return f"{server.host} cannot be reached ({problem})" if problem else ""


def _mismatch(download: Download, file: Path) -> str:
    """Return how a file differs from the expected one; "" if it does not."""
    size = file.stat().st_size
    if download.size and size != download.size:
        return f"has {size:,} bytes, not {download.size:,}"
    if download.md5 and (md5 := _digest(file, "md5")) != download.md5:
        return f"has MD5 {md5}, not {download.md5}"
    expected = download.sha256 or _recorded_sha256(file)
    if expected and (sha256 := _digest(file, "sha256")) != expected:
        return f"has SHA-256 {sha256}, not {expected}" + ("" if download.sha256 else " as when first seen")
    return ""


def _recorded_sha256(file: Path) -> str:
    """Return the SHA-256 recorded at the first download, or ""."""
    path = file.with_name(f"{file.name.removesuffix('.part')}.sha256")
    words = path.read_text(encoding="utf-8").split() if path.exists() else []
    return words[0] if words else ""


def _digest(file: Path, kind: str) -> str:
    report_progress(f"checking {file.name.removesuffix('.part')}", 0)
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, kind).hexdigest()


def _manual_error(download: Download, file: Path, problem: str) -> DataError:
    place = f"{file}, or what it holds as {file.parent / download.into}" if download.unpack else f"{file}"
    return DataError(f"{problem}; bring {download.url} from elsewhere and place it as {place}")


def _short_reason(error: Exception) -> str:
    """Return the innermost reason of a failed connection, without the objects that wrap it."""
    reason = str(error).rpartition(": ")[2].strip("()'\" ")
    return re.sub(r"\)+$", "", reason) or type(error).__name__


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
