"""Files from their official addresses: taken up again after a break, and checked before anything opens them.

What has come so far lies beside its place as ``NAME.part``, and how the server knows it in
``NAME.part.json``: it goes on from there unless the file at the address has changed meanwhile. A whole file
has its SHA-256 in ``NAME.sha256``, as sha256sum writes it: where none is known in advance, the first counts.
"""

import hashlib
import json
import os
import queue
import re
import shutil
import socket
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from .. import __version__
from ..errors import DataError
from ..system.events import progress
from . import paths
from .archives import extract

if TYPE_CHECKING:
    from requests import Response

CHUNK = 1 << 16
"""Bytes written at a time: at most so many are lost with a connection."""
PAUSES = (1.0, 2.0, 4.0, 8.0, 16.0)
"""Seconds before each new attempt in a row that brought nothing; after as many of them the call ends."""
PATIENCE = 60.0
"""Seconds at most that a busy server may ask to be left alone."""
TIMEOUT = (10.0, 30.0)
"""Seconds to a connection, and without a byte, after which an attempt is given up."""


@dataclass(frozen=True)
class Download:
    """A file on the network, and how to know that it is the right one.

    An archive is opened into ``into``. Where all it holds is one folder of that name, it becomes ``into``
    itself: ``aclImdb_v1.tar.gz`` into "aclImdb" gives ``raw/aclImdb/train``. No two archives share ``into``.
    """

    url: str
    into: str  # folder under ``raw`` in the data folder, e.g. "aclImdb"
    size: int = 0  # bytes; 0: not known
    sha256: str = ""
    md5: str = ""
    unpack: bool = True  # whether it is an archive to be opened

    @property
    def name(self) -> str:
        """Of the file, without its folder."""
        return unquote(urlsplit(self.url).path.rpartition("/")[2])

    @property
    def file(self) -> str:
        """Where the file itself goes, under ``raw``: an archive beside the folder it is opened into."""
        return self.name if self.unpack else f"{self.into}/{self.name}"

    @property
    def outcome(self) -> str:
        """What is there at the end, under ``raw``: the folder of an archive, or the file."""
        return self.into if self.unpack else self.file


def get(download: Download, wait: float = 1.0) -> Path:
    """Bring a file, check it and, if it is an archive, open it; what is there already is left as it is.

    Args:
        wait: seconds after which a silent network counts as none.

    Raises:
        DataError: if it cannot be had; the message says what to place where instead.
    """
    there = paths.find(download.outcome)
    if download.unpack and there:
        return there
    file = fetch(download, wait)
    if not download.unpack:
        return file
    place = paths.home("raw", download.into)
    with paths.locked(place):
        if not place.exists():
            extract(file, place)
    return place


def fetch(download: Download, wait: float = 1.0, pauses: tuple[float, ...] = PAUSES) -> Path:
    """The file itself, whole and checked.

    Args:
        pauses: seconds before each new attempt in a row that brought nothing.

    Raises:
        DataError: if it cannot be had, or if a file of this name is not the one that is meant.
    """
    file = paths.find(download.file) or paths.home("raw", download.file)
    if not file.exists():
        with paths.locked(file):
            if not file.exists():
                _download(download, file, wait, pauses)
                return file
    if wrong := _wrong(download, file):
        raise DataError(f"{file} {wrong}; move it away and get it again")
    return file


class _Again(Exception):
    """An attempt failed in a way that the next one may not."""

    def __init__(self, said: str, pause: float = 0.0) -> None:
        super().__init__(said)
        self.pause = pause


class _Part:
    """What has come so far of a file, and how the server knows this version of it."""

    def __init__(self, file: Path) -> None:
        self.file = file.with_name(f"{file.name}.part")
        self.note = file.with_name(f"{file.name}.part.json")

    @property
    def size(self) -> int:
        """Bytes so far."""
        return self.file.stat().st_size if self.file.exists() else 0

    def clear(self) -> None:
        """Forget what has come."""
        self.file.unlink(missing_ok=True)
        self.note.unlink(missing_ok=True)

    def headers(self, download: Download) -> dict[str, str]:
        """What asks for the rest only, provided that the file is still the same.

        Where the server gives no mark to know that by, a checksum must find out at the end.
        """
        try:
            url, mark = json.loads(self.note.read_text(encoding="utf-8"))
        except (OSError, TypeError, ValueError):  # nothing has come yet, or the note was cut by a kill
            url, mark = "", ""
        if url != download.url or not (mark or download.sha256 or download.md5):
            self.clear()
        if not self.size:
            return {}
        return {"Range": f"bytes={self.size}-"} | ({"If-Range": mark} if mark else {})

    def begin(self, download: Download, reply: "Response") -> None:
        """Note how the server knows what comes now; a weak tag does not promise the same bytes."""
        tag = reply.headers.get("ETag", "W/")
        mark = reply.headers.get("Last-Modified", "") if tag.startswith("W/") else tag
        self.note.write_text(json.dumps([download.url, mark]), encoding="utf-8")


def _download(download: Download, file: Path, wait: float, pauses: tuple[float, ...]) -> None:
    """Attempt after attempt, until all of the file is there and checked."""
    part = _Part(file)
    if problem := silence(download.url, wait):
        raise _by_hand(download, file, problem)
    with paths.explained(file):
        _repeat(download, part, file, pauses)
        sha256 = download.sha256 or _recorded(file) or _digest(part.file, "sha256")
        paths.write_text(file.with_name(f"{file.name}.sha256"), f"{sha256}  {file.name}\n")
        os.replace(part.file, file)
        part.note.unlink(missing_ok=True)


def _repeat(download: Download, part: _Part, file: Path, pauses: tuple[float, ...]) -> None:
    tries = 0
    while True:
        before = part.size
        try:
            _attempt(download, part, file)
            wrong = _wrong(download, part.file)
            if not wrong:
                return
            part.clear()
            if not before:
                raise _by_hand(download, file, f"what {download.url} serves {wrong}")
        except _Again as failure:
            tries = 1 if part.size > before else tries + 1
            if tries > len(pauses):
                kept = f"{part.size:,} bytes are kept and the same command goes on from there"
                raise DataError(f"{download.url}: {failure}; {kept}") from failure
            time.sleep(max(pauses[tries - 1], failure.pause))


def _attempt(download: Download, part: _Part, file: Path) -> None:
    """One connection: the file, or the rest of it."""
    import requests
    import urllib3

    headers = {"User-Agent": f"selfpretrain/{__version__}", "Accept-Encoding": "identity"}
    headers |= part.headers(download)
    try:
        with requests.get(download.url, headers=headers, stream=True, timeout=TIMEOUT) as reply:
            if reply.status_code == 416:  # nothing lies behind what is here: either it is all, or too much
                if _total(reply) != part.size:
                    part.clear()
                    raise _Again("the rest of the file was refused")
                return
            _refuse(download, file, reply)
            _receive(download, part, reply)
    except (requests.RequestException, urllib3.exceptions.HTTPError) as error:
        if "CERTIFICATE_VERIFY_FAILED" in str(error):
            raise _by_hand(download, file, f"the certificate of {download.url} is not trusted") from error
        raise _Again(f"the connection was lost ({_short(error)})") from error


def _refuse(download: Download, file: Path, reply: "Response") -> None:
    """Stop where what comes cannot be the file."""
    if reply.status_code == 429 or reply.status_code >= 500:
        asked = reply.headers.get("Retry-After", "")
        pause = min(float(asked), PATIENCE) if asked.isdigit() else 0.0
        raise _Again(f"the server answers {reply.status_code} ({reply.reason})", pause)
    if reply.status_code not in (200, 206):
        answer = f"{download.url} answers {reply.status_code} ({reply.reason})"
        raise _by_hand(download, file, answer)
    if "text/html" in reply.headers.get("Content-Type", "") and not download.name.endswith((".html", ".htm")):
        raise _by_hand(download, file, f"{download.url} answers with a web page")
    total = _total(reply)
    if download.size and total and total != download.size:
        raise _by_hand(download, file, f"{download.url} has {total:,} bytes, not {download.size:,}")


def _receive(download: Download, part: _Part, reply: "Response") -> None:
    """Write what comes to the end of what is here, or over it where the server begins anew."""
    done = int(_ranges(reply)[0] or -1) if reply.status_code == 206 else 0
    if done not in (0, part.size):
        part.clear()
        raise _Again("the server sent another part than the one asked for")
    total = _total(reply) or download.size
    _room(part.file.parent, total - done)
    part.begin(download, reply)
    with part.file.open("r+b" if done else "wb") as out:
        out.seek(done)
        for block in reply.raw.stream(CHUNK, decode_content=False):
            out.write(block)
            done += len(block)
            progress(download.name, done, total)
            if total and done > total:
                raise _Again("more came than was announced")
        out.flush()
        os.fsync(out.fileno())
    if done < total:
        raise _Again("the connection ended early")


def _ranges(reply: "Response") -> tuple[str | None, str | None]:
    """First byte and size of the whole, of a header such as ``bytes 100-199/200`` or ``bytes */200``."""
    found = re.fullmatch(r"bytes (?:(\d+)-\d+|\*)/(\d+|\*)", reply.headers.get("Content-Range", ""))
    return (found[1], found[2]) if found else (None, None)


def _total(reply: "Response") -> int:
    """Bytes of the whole file; 0 where the server does not say."""
    if reply.status_code in (206, 416):
        total = _ranges(reply)[1] or ""
        return int(total) if total.isdigit() else 0
    length = reply.headers.get("Content-Length", "")
    return int(length) if length.isdigit() else 0


def _room(folder: Path, needed: int) -> None:
    free = shutil.disk_usage(folder).free
    if needed > free:
        raise DataError(
            f"{needed:,} bytes are to come and {folder} has room for {free:,}; free some, or set "
            f"{paths.VARIABLE} to a folder on another disk"
        )


def silence(url: str, wait: float) -> str:
    """What keeps the server, or the proxy before it, from being reached; empty if nothing does.

    Asked in a thread: without a network, name servers and firewalls may keep silent for minutes.
    """
    from requests.utils import get_environ_proxies, select_proxy
    from urllib3.util import parse_url

    server = parse_url(select_proxy(url, get_environ_proxies(url)) or url)
    port = server.port or (443 if server.scheme == "https" else 80)
    answers: queue.SimpleQueue[str] = queue.SimpleQueue()

    def knock() -> None:
        try:
            socket.create_connection((server.host, port), wait).close()
            answers.put("")
        except OSError as error:
            answers.put(error.strerror or str(error))

    threading.Thread(target=knock, daemon=True).start()
    try:
        problem = answers.get(timeout=wait)
    except queue.Empty:
        problem = f"no answer within {wait:g} s, --wait 30 waits longer"
    return f"{server.host} cannot be reached ({problem})" if problem else ""


def _wrong(download: Download, file: Path) -> str:
    """How a file differs from the one that is meant; empty if it does not."""
    size = file.stat().st_size
    if download.size and size != download.size:
        return f"has {size:,} bytes, not {download.size:,}"
    if download.md5 and (md5 := _digest(file, "md5")) != download.md5:
        return f"has MD5 {md5}, not {download.md5}"
    expected = download.sha256 or _recorded(file)
    if expected and (sha256 := _digest(file, "sha256")) != expected:
        return f"has SHA-256 {sha256}, not {expected}" + ("" if download.sha256 else " as when first seen")
    return ""


def _recorded(file: Path) -> str:
    """The SHA-256 seen first."""
    beside = file.with_name(f"{file.name.removesuffix('.part')}.sha256")
    words = beside.read_text(encoding="utf-8").split() if beside.exists() else []
    return words[0] if words else ""


def _digest(file: Path, kind: str) -> str:
    progress(f"checking {file.name.removesuffix('.part')}", 0)
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, kind).hexdigest()


def _by_hand(download: Download, file: Path, problem: str) -> DataError:
    place = f"{file}, or what it holds as {file.parent / download.into}" if download.unpack else f"{file}"
    return DataError(f"{problem}; bring {download.url} from elsewhere and place it as {place}")


def _short(error: Exception) -> str:
    """The innermost reason of a failed connection, without the objects it is wrapped in."""
    reason = str(error).rpartition(": ")[2].strip("()'\" ")
    return re.sub(r"\)+$", "", reason) or type(error).__name__
