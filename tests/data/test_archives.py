"""Archives come out whole or not at all, and nothing of them lands outside of their folder."""

import io
import os
import stat
import tarfile
import zipfile

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from selfpretrain.data import archives
from selfpretrain.data.archives import extract
from selfpretrain.errors import DataError

FILES = {"a/one.txt": b"1" * 3000, "a/two.txt": b"", "b/c/three.bin": bytes(range(256)) * 9}


def tar(path, *members, mode="w:gz", pax=None):
    """An archive of (name, bytes) or of whole headers."""
    with tarfile.open(path, mode, format=tarfile.PAX_FORMAT, pax_headers=pax) as out:
        for member in members:
            info, data = (
                member if isinstance(member[0], tarfile.TarInfo) else (tarfile.TarInfo(member[0]), member[1])
            )
            info.size = len(data) if info.isreg() else 0
            out.addfile(info, io.BytesIO(data))
    return path


def zipped(path, *members):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as out:
        for name, data in members:
            out.writestr(name, data)
    return path


def special(kind, name="a/x", target=""):
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, target
    return info, b""


def contents(folder):
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


@pytest.mark.parametrize("mode", ["w", "w:gz", "w:bz2", "w:xz", "zip"])
def test_what_went_in_comes_out(tmp_path, mode):
    make = zipped if mode == "zip" else tar
    options = {} if mode == "zip" else {"mode": mode}
    archive = make(tmp_path / "x.gz", *FILES.items(), **options)
    extract(archive, tmp_path / "place")
    assert contents(tmp_path / "place") == FILES
    assert sorted(os.listdir(tmp_path)) == ["place", "x.gz"]


def test_a_folder_of_the_same_name_is_not_doubled(tmp_path):
    extract(tar(tmp_path / "x.tar", ("set/one", b"1"), ("set/two", b"2")), tmp_path / "set")
    assert contents(tmp_path / "set") == {"one": b"1", "two": b"2"}
    extract(tar(tmp_path / "y.tar", ("set/one", b"1"), ("read me", b"2")), tmp_path / "deep" / "set")
    assert contents(tmp_path / "deep" / "set") == {"set/one": b"1", "read me": b"2"}


NAMES = ["../x", "a/../../x", "/etc/x", "a\\..\\x", "C:x", "new\nline", "a/../b"]
BAD_TARS = {
    **{f"name {name!r}": [(name, b"1")] for name in NAMES},
    "symbolic link": [special(tarfile.SYMTYPE, target="../..")],
    "link inside": [("a/y", b"1"), special(tarfile.SYMTYPE, target="y")],
    "hard link": [("a/y", b"1"), special(tarfile.LNKTYPE, target="a/y")],
    "device": [special(tarfile.CHRTYPE)],
    "pipe": [special(tarfile.FIFOTYPE)],
    "file, then folder": [("a", b"1"), ("a/x", b"2")],
    "folder, then file": [("a/x", b"1"), ("a", b"2")],
}


BAD_ZIPS = [[(name, b"1")] for name in NAMES if "\\" not in name]


@pytest.mark.parametrize(
    ("make", "members"), [*((tar, bad) for bad in BAD_TARS.values()), *((zipped, bad) for bad in BAD_ZIPS)]
)
def test_what_is_not_to_be_trusted_is_refused(tmp_path, make, members):
    folder = tmp_path / "in" / "ner"
    archive = make(tmp_path / "archive", ("good", b"1"), *members)
    with pytest.raises(DataError, match="is not opened: ") as error:
        extract(archive, folder / "place")
    assert "\n" not in str(error.value)
    assert sorted(os.listdir(tmp_path)) == ["archive", "in"]
    assert os.listdir(folder) == []


def test_zips_with_links_passwords_and_names_of_two_kinds_are_refused(tmp_path):
    link = zipfile.ZipInfo("x")
    link.external_attr = (stat.S_IFLNK | 0o777) << 16
    locked = tmp_path / "locked.zip"
    zipped(locked, ("x", b"1"))
    data = bytearray(locked.read_bytes())
    data[data.index(b"PK\x01\x02") + 8] |= 1
    locked.write_bytes(bytes(data))
    said = {
        zipped(tmp_path / "link.zip", (link, b"/etc/passwd")): "a link",
        zipped(tmp_path / "twice.zip", ("x/y", b"1"), ("x", b"2")): "twice",
        locked: "password",
    }
    for archive, words in said.items():
        with pytest.raises(DataError, match=words):
            extract(archive, tmp_path / "place")
        assert not (tmp_path / "place").exists()


@pytest.mark.parametrize("make", [tar, zipped], ids=["tar", "zip"])
def test_bombs_are_refused_before_they_fill_the_disk(tmp_path, make, monkeypatch):
    archive = make(tmp_path / "bomb", ("small", b"1"), *((f"zeros {i}", bytes(1 << 20)) for i in range(20)))
    with pytest.raises(DataError, match=r"bytes would become more than 16,777,216"):
        extract(archive, tmp_path / "place")
    monkeypatch.setattr(archives, "MAX_RATIO", 10**6)
    for limit, value in (("MAX_UNPACKED", 1000), ("MAX_MEMBERS", 20)):
        with monkeypatch.context() as patched, pytest.raises(DataError, match="would become more"):
            patched.setattr(archives, limit, value)
            extract(archive, tmp_path / "place")
    extract(archive, tmp_path / "place")
    assert len(contents(tmp_path / "place")) == 21


def test_headers_can_be_bombs_and_archives_larger_than_the_disk(tmp_path, monkeypatch):
    archive = tar(tmp_path / "x.tar.gz", ("a", b"1"), pax={"comment": "x" * 5_000_000})
    with pytest.raises(DataError, match="headers are too long"):
        extract(archive, tmp_path / "place")
    monkeypatch.setattr(archives.shutil, "disk_usage", lambda path: type("Usage", (), {"free": 1000}))
    with pytest.raises(
        DataError, match=r"unpacks to more than the 1,000 bytes that are free; free some space, or set SELFP"
    ):
        extract(tar(tmp_path / "x.tar.gz", *FILES.items()), tmp_path / "place")


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_a_damaged_archive_gives_one_line_and_no_folder(tmp_path_factory, data):
    folder = tmp_path_factory.mktemp("damage")
    make = data.draw(st.sampled_from([tar, zipped]))
    archive = make(folder / "x", *FILES.items())
    whole = archive.read_bytes()
    if data.draw(st.booleans()):
        broken = whole[: data.draw(st.integers(0, len(whole) - 1))]
    else:
        at = data.draw(st.integers(0, len(whole) - 1))
        broken = whole[:at] + bytes([whole[at] ^ data.draw(st.integers(1, 255))]) + whole[at + 1 :]
    archive.write_bytes(broken)
    try:
        extract(archive, folder / "place")
        assert contents(folder / "place") == FILES  # the change was in a time or the like
    except DataError as error:
        assert "\n" not in str(error)
        assert not (folder / "place").exists()
    assert not (folder / "place.part").exists()


def test_an_interrupted_call_leaves_nothing(tmp_path, monkeypatch):
    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(archives, "report_progress", interrupt)
    with pytest.raises(KeyboardInterrupt):
        extract(tar(tmp_path / "x.tar.gz", *FILES.items()), tmp_path / "place")
    assert os.listdir(tmp_path) == ["x.tar.gz"]
