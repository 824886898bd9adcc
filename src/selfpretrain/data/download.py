"""Download of files from their official addresses, resumable and verified.

pooch verifies the hash and puts the file in place. What it lacks is here: an interrupted download is kept as
``NAME.part`` (with address and ETag or date in ``NAME.part.json``) and resumed unless the file at the address
has changed; a wrong file or a refusal is not asked for again; and the SHA-256 of a file whose makers publish
none is kept in ``NAME.sha256``, in the format of sha256sum: the first one counts.
"""

import json
import logging
import os
import queue
import re
import shutil
import socket
import threading
import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

from .. import __version__
from ..errors import DataError
from ..system.events import report_progress
from . import paths
from .archives import extract

if TYPE_CHECKING:
    from requests import Response

CHUNK = 1 << 16  # bytes written at a time: the most that a lost connection costs
PAUSES = (1.0, 2.0, 4.0, 8.0, 16.0)
"""Seconds before each retry without progress; after the last one the download fails."""
TIMEOUT = (10.0, 30.0)  # seconds to connect, and seconds without data, after which an attempt fails


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
        """Return the file name, without its folder."""
        return unquote(urlsplit(self.url).path.rpartition("/")[2])

    @property
    def file(self) -> str:
        """Return the path of the downloaded file under ``raw``; an archive is beside its folder."""
        return self.name if self.unpack else f"{self.into}/{self.name}"

    @property
    def outcome(self) -> str:
        """Return the path of the result under ``raw``: the folder of an archive, or the file."""
        return self.into if self.unpack else self.file

    def known_hash(self, file: Path) -> str | None:
        """Return what pooch compares the file with: the published hash, or else the first one seen."""
        if self.sha256 or self.md5:
            return f"sha256:{self.sha256}" if self.sha256 else f"md5:{self.md5}"
        note = file.with_name(f"{file.name}.sha256")
        words = note.read_text(encoding="utf-8").split() if note.exists() else []
        return f"sha256:{words[0]}" if words else None


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
    import pooch

    file = paths.find(download.file) or paths.writable_path("raw", download.file)
    if not file.exists():
        with paths.hold_lock(file):
            if not file.exists():
                _download(download, file, wait, pauses)
                return file
    advice = "move it away and get it again"
    size = file.stat().st_size
    if download.size and size != download.size:
        raise DataError(f"{file} has {size:,} bytes, not {download.size:,}; {advice}")
    known = download.known_hash(file)
    report_progress(f"checking {file.name}", 0)
    if known and pooch.file_hash(str(file), known.partition(":")[0]) != known.partition(":")[2]:
        which = "" if download.sha256 or download.md5 else ", the first one seen"
        raise DataError(f"{file} does not have the hash {known}{which}; {advice}")
    return file


def _download(download: Download, file: Path, wait: float, pauses: tuple[float, ...]) -> None:
    """Let pooch download a file and compare its hash; a resumed one that is wrong is started over once."""
    import pooch

    if problem := connection_problem(download.url, wait):
        raise _manual_error(download, file, problem)
    pooch.get_logger().setLevel(logging.WARNING)  # it would log what our progress says
    known = download.known_hash(file)
    part = file.with_name(f"{file.name}.part")
    place = file.with_name(f".{file.name}.pooch")  # of temporary files of pooch, which a kill leaves behind
    downloader = partial(_transfer, download, file, part, pauses)
    with paths.explain_errors(file):
        shutil.rmtree(place, ignore_errors=True)
        while not file.exists():
            resumed = _size(part) > 0
            try:
                os.replace(pooch.retrieve(download.url, known, file.name, place, downloader=downloader), file)
            except DataError:
                raise
            except ValueError as error:  # the hash; a resumed download may mix two versions of the file
                part.unlink(missing_ok=True)
                _note(part).unlink(missing_ok=True)
                if not resumed:
                    problem = f"what {download.url} serves does not have the hash {known}"
                    raise _manual_error(download, file, problem) from error
            finally:
                shutil.rmtree(place, ignore_errors=True)
        part.unlink(missing_ok=True)
        _note(part).unlink(missing_ok=True)
        if known is None:
            note = file.with_name(f"{file.name}.sha256")
            paths.write_text(note, f"{pooch.file_hash(str(file))}  {file.name}\n")


class _Retry(Exception):
    """A failed attempt that may be repeated."""


def _transfer(
    download: Download, file: Path, part: Path, pauses: tuple[float, ...], _url: str, output: str, _pooch: Any
) -> None:
    """Repeat attempts until the file is complete; called by pooch, which then verifies ``output``."""
    tries = 0
    while not download.size or _size(part) != download.size:
        before = _size(part)
        try:
            _attempt(download, file, part)
            break
        except _Retry as failure:
            tries = 1 if _size(part) > before else tries + 1
            if tries > len(pauses):
                kept = f"{_size(part):,} bytes are kept and the same command resumes from there"
                raise DataError(f"{download.url}: {failure}; {kept}") from failure
            time.sleep(pauses[tries - 1])
    os.unlink(output)
    try:
        os.link(part, output)  # the part stays until it is verified: an interruption then costs nothing
    except OSError:  # a file system without hard links
        os.replace(part, output)


def _size(part: Path) -> int:
    return part.stat().st_size if part.exists() else 0


def _note(part: Path) -> Path:
    return part.with_name(f"{part.name}.json")


def _attempt(download: Download, file: Path, part: Path) -> None:
    """Download the file, or the rest of it, over one connection."""
    import requests
    import urllib3

    headers = {"User-Agent": f"selfpretrain/{__version__}", "Accept-Encoding": "identity"}
    headers |= _range(download, file, part)
    try:
        with requests.get(download.url, headers=headers, stream=True, timeout=TIMEOUT) as reply:
            done, total = _check_response(download, file, part, reply)
            with part.open("r+b" if done else "wb") as out:
                out.seek(done)
                for block in reply.raw.stream(CHUNK, decode_content=False):
                    done += out.write(block)
                    report_progress(download.name, done, total)
                out.flush()
                os.fsync(out.fileno())
    except (requests.RequestException, urllib3.exceptions.HTTPError) as error:
        if "CERTIFICATE_VERIFY_FAILED" in str(error):
            problem = f"the certificate of {download.url} is not trusted"
            raise _manual_error(download, file, problem) from error
        reason = str(error).rpartition(": ")[2].strip("()'\" ")  # without the objects that wrap it
        raise _Retry(f"the connection was lost ({reason or type(error).__name__})") from error
    if done != total > 0:
        raise _Retry("the connection ended early")


def _range(download: Download, file: Path, part: Path) -> dict[str, str]:
    """Return HTTP headers that request only the rest, on condition that the file is unchanged.

    Without an ETag or date to make that condition, only a hash can detect a change, at the end.
    """
    try:
        url, mark = json.loads(_note(part).read_text(encoding="utf-8"))
    except (OSError, TypeError, ValueError):  # no download yet, or a kill left half a note
        url = mark = ""
    if url != download.url or not (mark or download.known_hash(file)):
        part.unlink(missing_ok=True)
    if not _size(part):
        return {}
    return {"Range": f"bytes={_size(part)}-"} | ({"If-Range": mark} if mark else {})


def _check_response(download: Download, file: Path, part: Path, reply: "Response") -> tuple[int, int]:
    """Return the first byte of a response and the size of the file, 0 if unknown; note the file's version."""
    status = f"{reply.status_code} ({reply.reason})"
    if reply.status_code == 429 or reply.status_code >= 500:
        raise _Retry(f"the server answers {status}")
    size = reply.headers.get("Content-Length", "")
    span = re.fullmatch(r"bytes (\d+)-\d+/(\d+|\*)", reply.headers.get("Content-Range", ""))
    done = int(span[1]) if span else 0
    size = span[2] if span else size
    total = int(size) if size.isdigit() else download.size
    if reply.status_code == 416 or (reply.status_code == 206 and done != _size(part)):
        part.unlink(missing_ok=True)
        raise _Retry("the rest of the file was refused")
    problem = ""
    if reply.status_code not in (200, 206):
        problem = f"answers {status}"
    elif "text/html" in reply.headers.get("Content-Type", "") and not download.name.endswith(
        (".html", ".htm")
    ):
        problem = "answers with a web page"
    elif download.size and total != download.size:
        problem = f"has {total:,} bytes, not {download.size:,}"
    if problem:
        raise _manual_error(download, file, f"{download.url} {problem}")
    tag = reply.headers.get("ETag", "W/")  # a weak ETag does not promise equal bytes
    mark = reply.headers.get("Last-Modified", "") if tag.startswith("W/") else tag
    _note(part).write_text(json.dumps([download.url, mark]), encoding="utf-8")
    return done, total


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


def _manual_error(download: Download, file: Path, problem: str) -> DataError:
    place = f"{file}, or what it holds as {file.parent / download.into}" if download.unpack else f"{file}"
    return DataError(f"{problem}; bring {download.url} from elsewhere and place it as {place}")
