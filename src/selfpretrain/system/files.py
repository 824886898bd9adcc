"""Atomic writes, JSON files with digests, lock files, and one-line explanations of file errors."""

import contextlib
import datetime
import errno
import hashlib
import json
import os
import re
import secrets
import socket
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from .. import __version__
from ..errors import ForeignRun, SelfPretrainError, StoreError, Taken
from .events import report_progress

FORMAT = 1  # version of the layout of run folders
SEAL = "content_sha256"  # field of a JSON file with the digest of all other fields
OTHER_FOLDER = "use another folder for runs"  # what to do about files of another format
MAX_JSON = 1 << 28  # maximum size in bytes of a JSON file; larger ones are not read
POLL = 0.1  # seconds between attempts to acquire a lock
LEFTOVER = re.compile(r"\..+-[a-z0-9_]{8}\.tmp")
"""Names of the temporary files that a killed process leaves."""

Json = dict[str, Any]


def write_text(path: Path, text: str) -> None:
    """Write a text file atomically."""
    write_bytes(path, text.encode("utf-8"))


def write_json(path: Path, content: Json) -> None:
    """Write a JSON file atomically, with the digest of its content."""
    write_bytes(path, json_bytes(content))


def json_bytes(content: Json) -> bytes:
    """Return an object as JSON with the digest of its content."""
    plain = json.loads(json.dumps({key: value for key, value in content.items() if key != SEAL}))
    return (json.dumps(plain | {SEAL: _digest(plain)}, indent=1) + "\n").encode()


def write_bytes(path: Path, content: bytes) -> None:
    """Write a file atomically.

    Raises:
        StoreError: if it cannot be written; the previous file is kept.
    """
    with explain_errors(path), replace_file(path) as temporary:
        temporary.write_bytes(content)


@contextlib.contextmanager
def replace_file(path: Path) -> Iterator[Path]:
    """Yield a temporary file next to ``path`` that is synced and renamed to it when the block succeeds.

    Raises:
        OSError: if there is something else than a file, such as /dev/null, which would be gone then.
    """
    if path.exists() and not path.is_file():
        raise OSError(errno.EINVAL, "a folder, a pipe or a device is there, which no file replaces")
    path = path.resolve()  # /dev/stdout is a link, and stays one
    temporary = path.with_name(f".{path.name}-{secrets.token_hex(4)}.tmp")  # one of ``LEFTOVER``
    temporary.touch(exist_ok=False)  # with the rights that the umask of the user gives
    try:
        yield temporary
        fsync(temporary)
        temporary.replace(path)
        fsync(path.parent)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def fsync(path: Path) -> None:
    """Sync a file, or the entries of a folder, to disk, so that later steps can rely on it."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    except OSError as error:
        if error.errno != errno.EINVAL or not path.is_dir():  # some network disks do not sync folders
            raise
    finally:
        os.close(handle)


def remove_leftovers(folder: Path, min_age: float = 0.0) -> None:
    """Remove the temporary files that killed processes left in a folder.

    Args:
        min_age: minimum age in seconds; use 0 only while holding the lock of the folder.
    """
    for path in folder.iterdir():
        if LEFTOVER.fullmatch(path.name):
            with contextlib.suppress(FileNotFoundError):  # another process may have removed it
                if not min_age or time.time() - path.stat().st_mtime > min_age:
                    path.unlink()


def read_json(
    path: Path,
    formats: Collection[int] = (FORMAT,),
    advice: str = "",
    error_type: type[SelfPretrainError] = StoreError,
    editable: bool = False,
    damage_error: type[SelfPretrainError] | None = None,
    needs_digest: Callable[[Json], bool] = lambda content: False,
    otherwise: str = OTHER_FOLDER,
) -> Json:
    """Return the object in a JSON file; a file without a format is of format 1.

    Args:
        formats: formats that the caller can read.
        editable: whether users may edit the file, e.g. a recipe; its digest is not checked then.
        advice: what to do if the file is damaged, e.g. "run it again"; empty for files of the user.
        needs_digest: whether this content must have a digest; files of earlier versions have none.
        otherwise: what to do if it is of another format.

    Raises:
        StoreError: or the class ``error_type``, if the file is missing or cannot be read; or the class
            ``damage_error`` (default: ``error_type``), if it is damaged.
        ForeignRun: if it was written in another format.
    """
    with explain_errors(path, "read", error_type=error_type):
        small = path.stat().st_size <= MAX_JSON
        text = path.read_bytes() if small else b""
    damage_error = damage_error or error_type
    try:
        content = json.loads(text) if small else None
    except (ValueError, RecursionError) as error:
        raise damage_error(damaged_message(path, error, advice)) from error
    if not isinstance(content, dict):
        problem = "it holds no object" if small else f"it has more than {MAX_JSON >> 20} MB"
        raise damage_error(damaged_message(path, problem, advice))
    written = content.pop(SEAL, None)
    if written and not editable and written != _digest(content):
        raise damage_error(damaged_message(path, "its content is not what was written", advice))
    if not written and not editable and needs_digest(content):
        raise damage_error(damaged_message(path, f"its digest, {SEAL}, is gone", advice))
    if content.get("format", FORMAT) not in formats:
        raise ForeignRun(format_message(path, content["format"], formats, otherwise))
    return content


def _digest(plain: Json) -> str:
    return sha256_of(json.dumps(plain, sort_keys=True), {})


def sha256_of(text: str, parts: Mapping[str, Any]) -> str:
    """Return the SHA-256 of a text, followed by names and bytes in order, in hex."""
    digest = hashlib.sha256(text.encode())
    for name, content in parts.items():
        digest.update(name.encode())
        digest.update(content)
    return digest.hexdigest()


def digest_of(content: bytes) -> str:
    """Return the SHA-256 of a file's content, in hex."""
    return hashlib.sha256(content).hexdigest()


def damaged_message(path: Path, reason: object, advice: str) -> str:
    """Return the one-line message for a damaged file."""
    return f"{path} is damaged ({' '.join(str(reason).split())[:200]})" + (f"; {advice}" if advice else "")


def format_message(
    path: Path, found: object, formats: Collection[int] = (FORMAT,), otherwise: str = OTHER_FOLDER
) -> str:
    """Return the one-line message for a file written in another format."""
    return (
        f"{path} was written in format {str(found)[:40]}, this is selfpretrain {__version__} with format "
        f"{' or '.join(map(str, formats))}; {otherwise}"
    )


@contextlib.contextmanager
def explain_errors(
    path: Path,
    action: str = "write",
    alternative: str = "choose another folder for runs",
    reassurance: str = "nothing finished is lost",
    error_type: type[SelfPretrainError] = StoreError,
) -> Iterator[None]:
    """Convert operating system errors on a path into a one-line error with advice.

    Args:
        action: "write" or "read".
        alternative: how to choose another location for the file.
        reassurance: what is known to be safe if the file cannot be written.

    Raises:
        StoreError: or the class ``error_type``, for a full disk, missing permission, a file in the way, ...
    """
    try:
        yield
    except OSError as error:
        if isinstance(error, FileNotFoundError) and action == "read":
            raise error_type(f"{path} is not there") from error
        raise error_type(_error_message(path, error, action, alternative, reassurance)) from error
    except MemoryError as error:
        raise error_type(f"cannot {action} {path}: there is not enough memory") from error


def explain_output_errors(path: Path) -> contextlib.AbstractContextManager[None]:
    """Return ``explain_errors`` for writing to a path that the user has named as the output."""
    return explain_errors(path, alternative="choose another place for it", reassurance="")


def _error_message(path: Path, error: OSError, action: str, alternative: str, reassurance: str) -> str:
    code = error.errno or 0
    known = {
        errno.ENOSPC: f"free some space and run the same command again, or {alternative}",
        errno.EDQUOT: f"your disk quota is used up; free some space, or {alternative}",
        errno.EACCES: f"no right to {action} there" + (f"; {alternative}" if action == "write" else ""),
        errno.EROFS: f"its disk cannot be written to; {alternative}",
        errno.EEXIST: f"a file is in the way; {alternative}",
        errno.ENOTDIR: f"a file is in the way; {alternative}",
        errno.EMFILE: "this process has too many files open; raise the limit, e.g. ulimit -n 4096",
        errno.ENFILE: "the machine has too many files open; run the same command again",
        errno.ENOMEM: "the machine is out of memory; run the same command again when some is free",
        errno.EIO: "its disk reports an input/output error; is it failing, or disconnected?",
        errno.ESTALE: "its network disk has lost it; run the same command again",
        errno.EFBIG: "it would be larger than a file may be here; see ulimit -f",
    }
    known[errno.EPERM] = known[errno.EACCES]
    advice = known.get(code, error.strerror or " ".join(str(error).split()))
    if code == errno.ENOSPC:
        disk = os.statvfs(next(parent for parent in [path, *path.absolute().parents] if parent.exists()))
        no_inodes = disk.f_files and not disk.f_favail
        full = "the disk has room, but for no more files (no inodes)" if no_inodes else "the disk is full"
        advice = f"{full}; {advice}"
    said = f"; {reassurance}" if reassurance and action == "write" else ""
    return f"cannot {action} {path}: {advice}{said}"


@contextlib.contextmanager
def hold_lock(
    path: Path,
    stop: Callable[[], bool] = lambda: False,
    explain: Callable[[Path], contextlib.AbstractContextManager[None]] = explain_errors,
) -> Iterator[None]:
    """Hold a lock file for the duration of the block; the lock of a killed process is released.

    While another process holds the lock, its host, process id and start are shown once.

    Args:
        stop: checked while waiting; ``lambda: True`` does not wait at all.
        explain: context manager that explains why the lock file cannot be created.

    Raises:
        Taken: if asked to stop before the lock was free.
    """
    note = path.with_name(f"{path.name}.holder")
    lock = FileLock(path)
    announced = False
    with explain(path):
        while not lock.is_locked:
            try:
                lock.acquire(timeout=0)
            except Timeout as error:
                holder = f"{lock_holder(path)}, which holds {path}"
                if stop():
                    raise Taken(f"stopped while waiting for {holder}") from error
                if not announced:
                    report_progress(f"waiting for {holder}", 0)
                    announced = True
                time.sleep(POLL)
    try:
        since = datetime.datetime.now(datetime.UTC).isoformat(" ", "seconds")
        with contextlib.suppress(OSError):  # the note is only for messages
            note.write_text(json.dumps({"host": socket.gethostname(), "pid": os.getpid(), "since": since}))
        yield
    finally:
        with contextlib.suppress(OSError):
            note.unlink(missing_ok=True)
        lock.release()


def is_locked(path: Path) -> bool:
    """Return whether a process holds a lock file; this may have changed a moment later."""
    if not path.exists():
        return False
    with contextlib.suppress(OSError):
        try:
            FileLock(path).acquire(timeout=0).lock.release()
        except Timeout:
            return True
    return False


def lock_holder(path: Path) -> str:
    """Return a description of the process that holds a lock file."""
    try:
        note = json.loads(path.with_name(f"{path.name}.holder").read_text())
        return f"process {int(note['pid'])} on {str(note['host'])[:80]}, since {str(note['since'])[:25]}"
    except (OSError, ValueError, KeyError, TypeError):
        return "another process"
