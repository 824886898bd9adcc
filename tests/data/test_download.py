"""Downloads end with the right file or with one line, whatever the server does; it is on this machine."""

import hashlib
import io
import itertools
import json
import os
import socket
import tarfile
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from selfpretrain import registry
from selfpretrain.data import download, paths
from selfpretrain.data.download import Download
from selfpretrain.errors import DataError
from selfpretrain.system import events

DATA = bytes(itertools.islice(itertools.cycle(range(251)), 400_000))
SHA256, MD5 = hashlib.sha256(DATA).hexdigest(), hashlib.md5(DATA).hexdigest()
PAUSES = (0.0, 0.0, 0.0)


class Server(ThreadingHTTPServer):
    """Serves ``data`` as told, and remembers what was asked."""

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.data, self.headers, self.ranges = DATA, {"ETag": '"one"'}, True
        self.drops, self.status, self.slow = [], [], 0.0
        self.asked = []

    def handle_error(self, request, address):
        """Dropped connections are on purpose."""

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server_address[1]}/some/file.bin?download=1"


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        server, asked = self.server, dict(self.headers)
        server.asked.append(asked)
        time.sleep(server.slow)
        status = server.status.pop(0) if server.status else 200
        if status != 200:
            self.answer(status, b"<html>", {"Content-Type": "text/html", "Retry-After": "0"})
            return
        first, data = 0, server.data
        same = "If-Range" not in asked or asked["If-Range"] in server.headers.values()
        if server.ranges and "Range" in asked and same:
            first = int(asked["Range"].removeprefix("bytes=").removesuffix("-"))
        if first >= len(data):
            self.answer(416, b"", {"Content-Range": f"bytes */{len(data)}"})
            return
        span = {"Content-Range": f"bytes {first}-{len(data) - 1}/{len(data)}"} if first else {}
        self.answer(206 if first else 200, data[first:], span | server.headers)

    def answer(self, status, body, headers):
        self.send_response(status)
        for name, value in {"Content-Length": str(len(body)), **headers}.items():
            if value:
                self.send_header(name, value)
        self.end_headers()
        drop = self.server.drops.pop(0) if self.server.drops and status < 300 else None
        self.wfile.write(body[:drop])
        self.wfile.flush()
        if drop is not None:
            self.connection.shutdown(socket.SHUT_RDWR)
        self.close_connection = True

    def log_message(self, *_):
        """Silence."""


@pytest.fixture
def server():
    server = Server()
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    yield server
    server.shutdown()
    server.server_close()


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("SPT_DATA", f"{tmp_path / 'mine'}{os.pathsep}{tmp_path / 'theirs'}")
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path / "mine" / "raw"


def known(server, **changes):
    return Download(
        **{"url": server.url, "into": "set", "size": len(DATA), "sha256": SHA256, "unpack": False} | changes
    )


def unknown(server):
    return known(server, size=0, sha256="")


def fetched(wanted, pauses=PAUSES):
    return download.fetch(wanted, pauses=pauses)


def left(home):
    return sorted(p.name for p in (home / "set").iterdir() if not p.name.startswith("."))


def ranges(server):
    return [asked.get("Range") for asked in server.asked]


def test_a_file_is_fetched_once(server, home):
    file = fetched(known(server))
    assert file == home / "set" / "file.bin"
    assert file.read_bytes() == DATA
    assert left(home) == ["file.bin", "file.bin.sha256"]
    assert (home / "set" / "file.bin.sha256").read_text() == f"{SHA256}  file.bin\n"
    assert fetched(known(server)) == file
    assert len(server.asked) == 1


def test_a_file_that_lies_in_another_folder_is_checked_and_used(server, home, tmp_path):
    there = tmp_path / "theirs" / "set" / "file.bin"
    there.parent.mkdir(parents=True)
    there.write_bytes(DATA)
    assert fetched(known(server)) == there
    there.write_bytes(DATA[:-1])
    with pytest.raises(DataError, match="has 399,999 bytes, not 400,000; move it away and get it again"):
        fetched(known(server))
    assert server.asked == []


def test_progress_is_told(server):
    heard = []
    with events.listen(lambda e: heard.append((e.name, e.done, e.total))):
        fetched(known(server))
    shares = [done / total for what, done, total in heard if what == "file.bin"]
    assert shares == sorted(shares)
    assert shares[-1] == 1.0


@pytest.mark.parametrize("mark", [{"ETag": '"one"'}, {"ETag": 'W/"x"', "Last-Modified": "Mon"}])
def test_a_dropped_connection_goes_on_where_it_was(server, mark):
    server.headers, server.drops = mark, [100_000, 200_000]
    file = fetched(unknown(server))
    assert file.read_bytes() == DATA
    assert ranges(server) == [None, "bytes=100000-", "bytes=300000-"]
    assert [a.get("If-Range") for a in server.asked[1:]] == [mark.get("Last-Modified", '"one"')] * 2


def test_the_next_call_goes_on_after_too_many_drops(server, home):
    server.drops = [100_000, 0, 0, 0, 0]
    with pytest.raises(DataError, match="100,000 bytes are kept and the same command resumes from there"):
        fetched(known(server))
    assert left(home) == ["file.bin.part", "file.bin.part.json"]
    server.drops, server.asked = [], []
    assert fetched(known(server)).read_bytes() == DATA
    assert ranges(server) == ["bytes=100000-"]


def test_every_attempt_that_brings_something_counts_anew(server):
    server.drops = [50_000] * 7
    assert fetched(known(server)).read_bytes() == DATA
    assert len(server.asked) == 8


def test_a_file_that_changed_meanwhile_begins_anew(server, home):
    server.drops = [100_000, 0, 0, 0, 0]
    with pytest.raises(DataError):
        fetched(unknown(server))
    server.data, server.headers, server.drops = DATA[::-1], {"ETag": '"two"'}, []
    assert fetched(unknown(server)).read_bytes() == DATA[::-1]


def test_without_a_mark_or_checksum_nothing_is_resumed(server):
    server.headers, server.drops = {}, [100_000]
    assert fetched(unknown(server)).read_bytes() == DATA
    assert ranges(server) == [None, None]


def test_without_a_mark_a_checksum_finds_a_mixture(server):
    server.headers, server.drops = {}, [100_000, 0, 0, 0, 0]
    server.data = bytes(len(DATA))
    with pytest.raises(DataError):
        fetched(known(server))
    server.data, server.drops, server.asked = DATA, [], []
    assert fetched(known(server)).read_bytes() == DATA
    assert ranges(server) == ["bytes=100000-", None]


def test_a_server_that_ignores_ranges_begins_anew(server):
    server.ranges, server.drops = False, [100_000]
    assert fetched(known(server)).read_bytes() == DATA
    assert ranges(server) == [None, "bytes=100000-"]


def test_a_whole_part_is_recognised(server, home):
    (home / "set").mkdir(parents=True)
    (home / "set" / "file.bin.part").write_bytes(DATA)
    (home / "set" / "file.bin.part.json").write_text(json.dumps([server.url, '"one"']))
    assert fetched(known(server)).read_bytes() == DATA
    (home / "set" / "file.bin").unlink()
    (home / "set" / "file.bin.part").write_bytes(DATA + b"too much")
    (home / "set" / "file.bin.part.json").write_text(json.dumps([server.url, '"one"']))
    assert fetched(known(server)).read_bytes() == DATA


@pytest.mark.parametrize("note", ["", "{", "[]", "null", '["http://other", "x"]'])
def test_a_part_of_unknown_origin_is_not_used(server, home, note):
    (home / "set").mkdir(parents=True)
    (home / "set" / "file.bin.part").write_bytes(b"something else")
    (home / "set" / "file.bin.part.json").write_text(note)
    assert fetched(unknown(server)).read_bytes() == DATA


@pytest.mark.parametrize(
    "change", [{"sha256": "0" * 64}, {"sha256": "", "md5": "0" * 32}], ids=["sha256", "md5"]
)
def test_a_wrong_file_is_thrown_away(server, home, change):
    with pytest.raises(
        DataError, match=r"has (SHA-256|MD5) \w+, not 0+; bring http.* from elsewhere"
    ) as error:
        fetched(known(server, **change))
    assert "\n" not in str(error.value)
    assert left(home) == []


def test_a_right_md5_will_do(server):
    assert fetched(known(server, sha256="", md5=MD5)).read_bytes() == DATA


def test_a_wrong_size_is_noticed_before_anything_comes(server, home):
    with pytest.raises(DataError, match="has 400,000 bytes, not 7"):
        fetched(known(server, size=7))
    assert left(home) == []


def test_the_first_checksum_seen_counts(server, home):
    file = fetched(unknown(server))
    file.write_bytes(DATA[::-1])
    with pytest.raises(DataError, match="as when first seen; move it away"):
        fetched(unknown(server))
    file.unlink()
    server.data = DATA[::-1]
    with pytest.raises(DataError, match="as when first seen; bring"):
        fetched(unknown(server))


@pytest.mark.parametrize("status", [404, 403, 410, 401])
def test_a_refusal_ends_at_once(server, status):
    server.status = [status] * 9
    with pytest.raises(DataError, match=rf"answers {status} .*place it as .*set/file\.bin"):
        fetched(known(server))
    assert len(server.asked) == 1


@pytest.mark.parametrize("status", [429, 500, 503])
def test_a_busy_server_is_asked_again(server, status):
    server.status = [status, status]
    assert fetched(known(server)).read_bytes() == DATA
    assert len(server.asked) == 3


def test_a_web_page_is_not_taken_for_the_file(server, home):
    server.headers = {"Content-Type": "text/html; charset=utf-8"}
    with pytest.raises(DataError, match="answers with a web page"):
        fetched(unknown(server))
    assert left(home) == []


def test_a_silent_server_is_given_up(server, monkeypatch):
    monkeypatch.setattr(download, "TIMEOUT", (1.0, 0.05))
    server.slow = 0.3
    with pytest.raises(DataError, match="connection was lost"):
        fetched(known(server), pauses=(0.0,))
    assert len(server.asked) == 2


def test_unknown_length_is_fine(server):
    server.headers = {"Content-Length": "", "Connection": "close"}
    assert fetched(known(server)).read_bytes() == DATA


def test_bytes_come_as_they_are(server):
    server.headers = {"Content-Encoding": "gzip"}  # as some servers say of every .gz
    assert fetched(known(server)).read_bytes() == DATA


def test_a_full_disk_is_noticed_before_anything_comes(server, home, monkeypatch):
    monkeypatch.setattr(download.shutil, "disk_usage", lambda path: type("Usage", (), {"free": 1000}))
    with pytest.raises(DataError, match=r"400,000 bytes are to come and .* has room for 1,000"):
        fetched(known(server))


def test_offline_is_said_within_a_second(server, monkeypatch):
    said = threading.Event()

    def hang(*_, **__):
        assert said.wait(60), "what is said waits for the name server"
        raise socket.gaierror(-3, "too late")

    for problem, words in ((hang, r"\(no answer within 1 s,.*\)"), (refuse, r"\(Temporary failure.*\)")):
        monkeypatch.setattr(socket, "getaddrinfo", problem)
        with pytest.raises(
            DataError, match=rf"cannot be reached {words}; bring http.* from elsewhere and place it as"
        ):
            download.get(known(server))
    said.set()
    assert server.asked == []


def refuse(*_, **__):
    raise socket.gaierror(-3, "Temporary failure in name resolution")


def test_proxies_are_honoured(server, monkeypatch):
    download = Download("http://nowhere.invalid/file.bin", "set", len(DATA), SHA256, unpack=False)
    with pytest.raises(DataError, match=r"nowhere\.invalid cannot be reached"):
        fetched(download)
    for proxy in ("http://127.0.0.1", "127.0.0.1"):
        monkeypatch.setenv("http_proxy", f"{proxy}:{server.server_address[1]}")
        fetched(download).unlink()


def archive():
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as tar:
        info = tarfile.TarInfo("set/one.txt")
        info.size = 3
        tar.addfile(info, io.BytesIO(b"one"))
    return out.getvalue()


def test_an_archive_is_opened_once(server, home):
    server.data = archive()
    wanted = Download(server.url.replace("file.bin", "set.tar.gz"), "set")
    assert download.get(wanted) == home / "set"
    assert (home / "set" / "one.txt").read_text() == "one"
    (home / "set.tar.gz").unlink()
    assert download.get(wanted) == home / "set"
    assert len(server.asked) == 1
    assert paths.find("set/one.txt") == home / "set" / "one.txt"


def test_an_archive_placed_by_hand_is_opened(server, home):
    home.mkdir(parents=True)
    (home / "file.bin").write_bytes(archive())
    assert (download.get(Download(server.url, "set")) / "one.txt").read_text() == "one"
    assert server.asked == []


def test_two_calls_at_once_fetch_once(server):
    server.slow = 0.1
    threads = [threading.Thread(target=fetched, args=(known(server),)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(server.asked) == 1


@pytest.mark.parametrize("name", registry.names("tasks"))
def test_downloads_of_tasks_make_sense(name):
    downloads = registry.find("tasks", name).downloads
    for each in downloads:
        assert each.url.startswith(("https://", "http://"))
        assert each.name
        assert not each.into.startswith("/")
        assert len(each.sha256) in (0, 64)
        assert len(each.md5) in (0, 32)
    opened = [each.into for each in downloads if each.unpack]
    assert len(opened) == len(set(opened))
    assert not set(opened) & {each.into for each in downloads if not each.unpack}
