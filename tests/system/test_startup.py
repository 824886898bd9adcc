"""What the entry point settles, as that freed memory is kept, and what is told of machine and code."""

import os
import platform
import shutil
import subprocess
import sys

import pytest

from selfpretrain.system import hardware, startup

PROBE = """
import ctypes
from selfpretrain.system.startup import keep_memory
{kept}
libc = ctypes.CDLL(None)
libc.malloc.restype = ctypes.c_void_p
names = [*"abc", "blocks", *"efghij"]  # the fourth counts blocks that are mapped one by one
info = type("Info", (ctypes.Structure,), dict(_fields_=[(name, ctypes.c_size_t) for name in names]))
libc.mallinfo2.restype = info
before = libc.mallinfo2().blocks
libc.malloc(ctypes.c_size_t(200 << 20))
print(libc.mallinfo2().blocks - before)
"""

glibc = pytest.mark.skipif(
    platform.libc_ver()[0] != "glibc" or sys.platform != "linux", reason="needs Linux with glibc"
)


def mapped(kept, **environment):
    done = subprocess.run(
        [sys.executable, "-c", PROBE.format(kept=kept)],
        capture_output=True, text=True, check=True, env=os.environ | environment,
    )  # fmt: skip
    return int(done.stdout)


@glibc
def test_large_blocks_are_kept_when_asked_unless_a_variable_turns_it_off():
    assert mapped("pass") == 1
    assert mapped("assert keep_memory()") == 0
    assert mapped("assert not keep_memory()", SELFPRETRAIN_MALLOC="0") == 1


def test_doctor_tells(tmp_path, monkeypatch):
    monkeypatch.setenv("SELFPRETRAIN_MALLOC", "0")
    assert "given back" in dict(hardware.collect_env(tmp_path))["memory"]


@pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
def test_a_commit_is_that_of_this_package_not_of_a_repository_around_its_environment(tmp_path, monkeypatch):
    installed = tmp_path / "hardware.py"
    installed.touch()
    monkeypatch.setattr(hardware, "__file__", str(installed))

    def git(*words):
        names = ("-c", "user.name=a", "-c", "user.email=a@b.c")
        subprocess.run(["git", *names, *words], cwd=tmp_path, check=True, capture_output=True)

    git("init")
    git("commit", "--allow-empty", "--message", "of the user")
    asked = hardware._git.__wrapped__  # the answer to the first question is kept
    assert asked() is None
    git("add", "hardware.py")
    assert asked()["dirty"] is True


def test_elsewhere_and_with_another_c_library_nothing_changes(monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(startup.ctypes, "CDLL", lambda name: object())
        assert startup.keep_memory() is False
    monkeypatch.setattr(startup.sys, "platform", "darwin")
    assert startup.keep_memory() is False


@pytest.mark.skipif(sys.platform != "linux", reason="of Linux")
def test_files_that_were_read_do_not_count_as_memory_in_use(tmp_path, monkeypatch):
    for name, content in (("max", "1000"), ("current", "900"), ("stat", "anon 400\ninactive_file 500")):
        (tmp_path / f"memory.{name}").write_text(f"{content}\n")
    monkeypatch.setattr(hardware, "CGROUP", tmp_path)
    assert hardware.free_memory() == 600
    (tmp_path / "memory.max").write_text("max\n")
    assert hardware.free_memory() > 1000
