"""Files are whole or not there, locks say who holds them, every refusal of the system is one right line."""

import errno
import os
import signal
import stat
import subprocess
import sys
import threading
import time

import pytest

from processes import environment
from selfpretrain.errors import DataError, ForeignRun, Interrupted, StoreError
from selfpretrain.system import events, files
from selfpretrain.system.files import (
    explain_errors,
    hold_lock,
    lock_holder,
    read_json,
    remove_leftovers,
    replace_file,
    write_json,
)

HOLD = """
import sys, time
from pathlib import Path
from selfpretrain.system.files import hold_lock
with hold_lock(Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep(60)
"""


@pytest.fixture
def held(tmp_path):
    """A lock file that another process holds, and that process."""
    path = tmp_path / ".lock"
    command = [sys.executable, "-c", HOLD, str(path)]
    process = subprocess.Popen(command, env=environment(), stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "held\n"
    yield path, process
    process.kill()
    process.wait()
    process.stdout.close()


def test_who_waits_is_told_once_for_whom(held):
    path, process = held
    heard, begin = [], time.monotonic()
    with (
        events.listen(heard.append),
        pytest.raises(Interrupted, match=f"process {process.pid}"),
        hold_lock(path, lambda: time.monotonic() - begin > 0.5),
    ):
        raise AssertionError("the lock is held")
    (line,) = heard
    assert line.name.startswith(f"waiting for process {process.pid} on ")
    assert "since 20" in line.name
    assert str(path) in line.name
    with pytest.raises(Interrupted), hold_lock(held[0], lambda: True):  # who need not wait does not
        raise AssertionError("the lock is held")


def test_a_killed_holder_lets_go_and_who_waits_goes_on(held):
    path, process = held
    threading.Timer(0.3, process.send_signal, [signal.SIGKILL]).start()
    with hold_lock(path):
        assert f"process {os.getpid()} on" in lock_holder(path)
    assert not path.with_name(".lock.holder").exists()


def test_a_lock_that_nobody_holds_is_taken_again_and_again(tmp_path):
    for _ in range(3):
        with hold_lock(tmp_path / "x.lock"):
            assert lock_holder(tmp_path / "x.lock").startswith(f"process {os.getpid()}")
    (tmp_path / "x.lock.holder").write_text('{"pid": "x"')
    assert lock_holder(tmp_path / "x.lock") == "another process"
    (tmp_path / "file").touch()
    with pytest.raises(StoreError, match="in the way"), hold_lock(tmp_path / "file" / ".lock"):
        raise AssertionError("there is no lock")


@pytest.mark.parametrize(
    ("code", "said"),
    {
        errno.ENOSPC: "the disk is full",
        errno.EDQUOT: "quota",
        errno.EACCES: "no right to write",
        errno.EPERM: "no right to write",
        errno.EROFS: "cannot be written to",
        errno.EMFILE: "ulimit -n",
        errno.ENFILE: "too many files open",
        errno.ENOMEM: "out of memory",
        errno.EIO: "input/output error",
        errno.ESTALE: "network disk",
        errno.EFBIG: "ulimit -f",
        errno.EEXIST: "in the way",
        errno.ENAMETOOLONG: "too long",
    }.items(),
)
def test_every_refusal_has_its_own_words(tmp_path, code, said):
    with pytest.raises(StoreError, match=said) as caught, explain_errors(tmp_path / "x"):
        raise OSError(code, os.strerror(code))
    assert "delete" not in str(caught.value)
    assert "damaged" not in str(caught.value)
    assert str(caught.value).endswith("; nothing finished is lost")
    with (
        pytest.raises(DataError, match=f"cannot read {tmp_path}"),
        explain_errors(tmp_path / "x", "read", error_type=DataError),
    ):
        raise OSError(code, os.strerror(code))


def test_a_disk_without_inodes_is_not_called_full(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "statvfs", lambda path: type("Disk", (), {"f_files": 10, "f_favail": 0}))
    with pytest.raises(StoreError, match=r"no more files \(no inodes\)"), explain_errors(tmp_path / "x"):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    with pytest.raises(StoreError, match="not enough memory"), explain_errors(tmp_path / "x", "read"):
        raise MemoryError


@pytest.mark.parametrize(
    "text",
    ["", "{", "null", "[]", "3", "\xff", "[" * 100_000, '{"a": ' * 100_000, "1" * 10_000, '{"a": 1} {'],
    ids=str.__len__,
)
def test_damaged_json_is_one_line(tmp_path, text):
    path = tmp_path / "x.json"
    path.write_text(text, encoding="latin-1")
    with pytest.raises(StoreError, match=r"x\.json is damaged \(") as caught:
        read_json(path)
    assert len(str(caught.value).splitlines()) == 1
    assert "delete" not in str(caught.value)  # who knows whose file it is?
    with pytest.raises(DataError, match=r"; make it again$"):
        read_json(path, advice="make it again", error_type=DataError)


def test_a_json_file_too_large_to_be_ours_is_not_read(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "MAX_JSON", 1 << 20)
    (tmp_path / "x.json").write_bytes(b" " * ((1 << 20) + 1))
    with pytest.raises(StoreError, match="more than 1 MB"):
        read_json(tmp_path / "x.json")


def test_formats_that_the_caller_knows_are_read(tmp_path):
    for number in (1, 2, 3):
        write_json(tmp_path / f"{number}.json", {"format": number})
    write_json(tmp_path / "0.json", {"x": 1})
    assert read_json(tmp_path / "0.json") == {"x": 1}
    assert read_json(tmp_path / "2.json", formats=(1, 2)) == {"format": 2}
    assert read_json(tmp_path / "1.json", formats=(1, 2)) == {"format": 1}
    for number, formats in ((2, (1,)), (3, (1, 2))):
        with pytest.raises(ForeignRun, match=f"format {number}"):
            read_json(tmp_path / f"{number}.json", formats=formats)


def test_what_killed_writers_left_is_swept(tmp_path):
    command = (
        "import os; from pathlib import Path; from selfpretrain.system.files import replace_file\n"
        f"with replace_file(Path({str(tmp_path / 'weights.bin')!r})): os.kill(os.getpid(), 9)"
    )
    subprocess.run([sys.executable, "-c", command], env=environment(), check=False)
    kept = {".lock", "log.jsonl", ".hidden-file", ".env-template"}
    for name in kept:
        (tmp_path / name).touch()
    assert len(list(tmp_path.iterdir())) == len(kept) + 1
    remove_leftovers(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == kept


def test_what_is_no_file_is_not_replaced_and_a_link_stays_one(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for place in (tmp_path, tmp_path / "pipe"):
        with pytest.raises(StoreError, match="a folder, a pipe or a device is there"):
            write_json(place, {"x": 1})
    (tmp_path / "link").symlink_to("x.json")
    write_json(tmp_path / "link", {"x": 1})
    assert (tmp_path / "link").is_symlink() and read_json(tmp_path / "x.json") == {"x": 1}
    assert (tmp_path / "pipe").is_fifo() and len(list(tmp_path.iterdir())) == 3


@pytest.mark.parametrize("mask", [0o022, 0o002, 0o077])
def test_files_have_the_rights_that_the_user_gives_new_ones(tmp_path, mask):
    before = os.umask(mask)
    try:
        write_json(tmp_path / "x.json", {"x": 1})
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "x.json").stat().st_mode) == 0o666 & ~mask


def test_disks_that_do_not_sync_folders_are_written_to(tmp_path, monkeypatch):
    def fsync(handle, code=errno.EINVAL):
        if code != errno.EINVAL or stat.S_ISDIR(os.fstat(handle).st_mode):
            raise OSError(code, os.strerror(code))

    monkeypatch.setattr(os, "fsync", fsync)
    write_json(tmp_path / "x.json", {"x": 1})
    assert read_json(tmp_path / "x.json") == {"x": 1}
    monkeypatch.setattr(os, "fsync", lambda handle: fsync(handle, errno.EIO))
    with pytest.raises(StoreError, match="input/output error"):
        write_json(tmp_path / "x.json", {"x": 2})


def test_an_interrupted_writer_leaves_what_was_there(tmp_path):
    write_json(tmp_path / "x.json", {"x": 1})
    with pytest.raises(KeyboardInterrupt), replace_file(tmp_path / "x.json") as temporary:
        temporary.write_text("{")
        raise KeyboardInterrupt
    assert read_json(tmp_path / "x.json") == {"x": 1}
    assert len(list(tmp_path.iterdir())) == 1
