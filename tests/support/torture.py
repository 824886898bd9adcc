"""What may happen to a process and to its files: it is forked, and killed, refused or harmed on the way."""

import errno
import io
import json
import os
import random
import signal
import sys
import time
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any

CHANGES = ("os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.truncate", "os.chmod", "os.link")
"""Events of ``sys.audit`` that change a file, besides opening one for writing."""
PATIENCE = 120
"""Seconds after which a child counts as hanging."""
REFUSALS = (errno.ENOSPC, errno.EIO, errno.EACCES)


@dataclass(frozen=True)
class Outcome:
    """What came of a child: its exit code, negative for a signal; what it returned; all that it printed."""

    code: int
    answer: Any
    said: str

    @property
    def traceback(self) -> bool:
        """Whether there was an error that nobody had thought of."""
        return "Traceback" in self.said or "unforeseen" in self.said


def forked(work: Callable[[], Any], folder: Path, before: Callable[[], None] = lambda: None) -> int:
    """Start a child that does some work; what comes of it is told by ``ended``."""
    pid = os.fork()
    if pid:
        return pid
    code, answer, said = 70, None, io.StringIO()
    try:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(PATIENCE)
        with redirect_stdout(said), redirect_stderr(said):
            before()
            answer = work()
            code = answer if isinstance(answer, int) else 0
    except BaseException:
        import traceback

        said.write(traceback.format_exc())
    finally:
        with os.fdopen(os.open(folder / f"{os.getpid()}.out", os.O_WRONLY | os.O_CREAT), "w") as file:
            json.dump([answer, said.getvalue()], file)
        os._exit(code)


def ended(pid: int, folder: Path) -> Outcome:
    """Wait for a child."""
    _, status = os.waitpid(pid, 0)
    out = folder / f"{pid}.out"
    try:
        answer, said = json.loads(out.read_text())
    except (OSError, ValueError):
        answer, said = None, ""
    return Outcome(os.waitstatus_to_exitcode(status), answer, said)


def did(work: Callable[[], Any], folder: Path, before: Callable[[], None] = lambda: None) -> Outcome:
    """What comes of a child."""
    return ended(forked(work, folder, before), folder)


def at_operation(k: int, root: Path, strike: Callable[[], None]) -> Callable[[], None]:
    """Strike right before the k-th operation from now on that changes a file below a folder."""

    def begin() -> None:
        left = [k]

        def hook(event: str, given: tuple[Any, ...]) -> None:
            if not (event in CHANGES or (event == "open" and _writes(given))):
                return
            if isinstance(given[0], str | os.PathLike) and str(given[0]).startswith(str(root)):
                left[0] -= 1
                if left[0] == 0:
                    strike()

        sys.addaudithook(hook)

    return begin


def _writes(given: tuple[Any, ...]) -> bool:
    flags = given[2] if isinstance(given[2], int) else 0
    return bool(flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT))


def kill() -> None:
    """As if the power went out."""
    os.kill(os.getpid(), signal.SIGKILL)


def refusal(code: int) -> Callable[[], None]:
    """The operating system says no."""

    def strike() -> None:
        raise OSError(code, os.strerror(code))

    return strike


def operations(work: Callable[[], Any], root: Path, out: Path) -> int:
    """How many operations below a folder a piece of work takes."""
    count = [0]

    def begin() -> None:
        def hook(event: str, given: tuple[Any, ...]) -> None:
            if event in CHANGES or (event == "open" and _writes(given)):
                count[0] += isinstance(given[0], str | os.PathLike) and str(given[0]).startswith(str(root))

        sys.addaudithook(hook)

    def counted() -> list[int]:
        work()
        return count

    found = did(counted, out, begin)
    assert found.code == 0, found
    return int(found.answer[0])


def signalled(work: Callable[[], Any], folder: Path, after: float, *numbers: int) -> Outcome:
    """What comes of a child that gets signals after so many seconds."""
    pid = forked(work, folder)
    time.sleep(after)
    for number in numbers:
        os.kill(pid, number)
    return ended(pid, folder)


def flip(path: Path, at: random.Random) -> None:
    """Turn one bit of a file round."""
    content = bytearray(path.read_bytes())
    content[at.randrange(len(content))] ^= 1 << at.randrange(8)
    path.write_bytes(content)
