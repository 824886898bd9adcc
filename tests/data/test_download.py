"""Downloads from a server on this machine end with the right file or with one line."""

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
    monkeypatch.setenv("SELFPRETRAIN_DATA", f"{tmp_path / 'mine'}{os.pathsep}{tmp_path / 'theirs'}")
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
    return sorted(p.name for p in (home / "set").glob("[!.]*"))


def ranges(server):
    return [asked.get("Range") for asked in server.asked]


def test_a_file_is_fetched_once(server, home):
    file = fetched(known(server))
    assert file == home / "set" / "file.bin"
    assert file.read_bytes() == DATA
    assert left(home) == ["file.bin"]
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


def test_the_next_call_goes_on_after_too_many_drops(server, home):
    server.drops = [100_000, 0, 0, 0, 0]
    with pytest.raises(DataError, match="100,000 bytes are kept and the same command resumes from there"):
        fetched(known(server))
    assert left(home) == ["file.bin.part", "file.bin.part.json"]
    server.drops, server.asked = [], []
    assert fetched(known(server)).read_bytes() == DATA
    assert ranges(server) == ["bytes=100000-"]


FIRST, NO_SUM = {"ETag": '"one"'}, {"size": 0, "sha256": ""}
ANSWERS = {
    "md5": ({}, NO_SUM | {"md5": MD5}, [None]),
    "unknown length": ({"headers": {"Content-Length": "", "Connection": "close"}}, {}, [None]),
    "said to be packed": ({"headers": {"Content-Encoding": "gzip"}}, {}, [None]),
    "busy": ({"status": [429, 500, 503]}, {}, [None] * 4),
    "ranges ignored": ({"ranges": False, "drops": [100_000]}, {}, [None, "bytes=100000-"]),
    "neither mark nor checksum": ({"headers": {}, "drops": [100_000]}, NO_SUM, [None, None]),
    "dropped, with a mark": (
        *({"headers": FIRST, "drops": [100_000, 200_000]}, NO_SUM),
        [None, "bytes=100000-", "bytes=300000-"],
    ),
    "dropped, with a weak mark": (
        *({"headers": {"ETag": 'W/"x"', "Last-Modified": "Mon"}, "drops": [100_000, 200_000]}, NO_SUM),
        [None, "bytes=100000-", "bytes=300000-"],
    ),
    "every attempt brings something": (
        *({"drops": [50_000] * 7}, {}),
        [None, *(f"bytes={50_000 * (i + 1)}-" for i in range(7))],
    ),
}
"""What a server does, what is known of the file, and which parts are asked for until it is whole."""


@pytest.mark.parametrize("name", ANSWERS)
def test_the_file_comes_whole_whatever_the_server_does(server, name):
    does, knows, asked = ANSWERS[name]
    vars(server).update(does)
    assert fetched(known(server, **knows)).read_bytes() == DATA
    assert ranges(server) == asked
    if knows == NO_SUM and server.headers:
        mark = server.headers.get("Last-Modified", '"one"')
        assert [each.get("If-Range") for each in server.asked[1:]] == [mark] * 2


def test_a_file_that_changed_meanwhile_begins_anew(server, home):
    server.drops = [100_000, 0, 0, 0, 0]
    with pytest.raises(DataError):
        fetched(unknown(server))
    server.data, server.headers, server.drops = DATA[::-1], {"ETag": '"two"'}, []
    assert fetched(unknown(server)).read_bytes() == DATA[::-1]


def test_without_a_mark_a_checksum_finds_a_mixture(server):
    server.headers, server.drops = {}, [100_000, 0, 0, 0, 0]
    server.data = bytes(len(DATA))
    with pytest.raises(DataError):
        fetched(known(server))
    server.data, server.drops, server.asked = DATA, [], []
    assert fetched(known(server)).read_bytes() == DATA
    assert ranges(server) == ["bytes=100000-", None]


def test_a_whole_part_is_recognised(server, home):
    (home / "set").mkdir(parents=True)
    (home / "set" / "file.bin.part").write_bytes(DATA)
    (home / "set" / "file.bin.part.json").write_text(json.dumps([server.url, '"one"']))
    assert fetched(known(server)).read_bytes() == DATA
    (home / "set" / "file.bin").unlink()
    (home / "set" / "file.bin.part").write_bytes(DATA + b"too much")
    (home / "set" / "file.bin.part.json").write_text(json.dumps([server.url, '"one"']))
    assert fetched(known(server)).read_bytes() == DATA


def test_an_interruption_while_the_hash_is_compared_costs_nothing(server, home, monkeypatch):
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr("pooch.core.hash_matches", interrupted)
        fetched(known(server))
    assert left(home) == ["file.bin.part", "file.bin.part.json"]
    assert fetched(known(server)).read_bytes() == DATA
    assert len(server.asked) == 1 and left(home) == ["file.bin"]
    assert [p.name for p in (home / "set").glob(".*") if p.is_dir()] == []


def interrupted(*_, **__):
    raise KeyboardInterrupt


@pytest.mark.parametrize("note", ["", "{", "[]", "null", '["http://other", "x"]'])
def test_a_part_of_unknown_origin_is_not_used(server, home, note):
    (home / "set").mkdir(parents=True)
    (home / "set" / "file.bin.part").write_bytes(b"something else")
    (home / "set" / "file.bin.part.json").write_text(note)
    assert fetched(unknown(server)).read_bytes() == DATA


FAULTS = {
    "sha256": ({}, {"sha256": "0" * 64}, r"does not have the hash sha256:0+; bring http.* from elsewhere"),
    "md5": (
        {},
        {"sha256": "", "md5": "0" * 32},
        r"does not have the hash md5:0+; bring http.* from elsewhere",
    ),
    "size": ({}, {"size": 7}, "has 400,000 bytes, not 7"),
    "page": ({"headers": {"Content-Type": "text/html; charset=utf-8"}}, NO_SUM, "answers with a web page"),
    **{
        str(code): ({"status": [code] * 9}, {}, rf"answers {code} .*place it as .*set/file\.bin")
        for code in (404, 403, 410, 401)
    },
}
"""What a server does, what is known of the file, and what is said."""


@pytest.mark.parametrize("name", FAULTS)
def test_another_file_is_thrown_away_and_a_refusal_ends_at_once(server, home, name):
    does, knows, said = FAULTS[name]
    vars(server).update(does)
    with pytest.raises(DataError, match=said) as error:
        fetched(known(server, **knows))
    assert "\n" not in str(error.value)
    assert left(home) == [] and len(server.asked) == 1


def test_a_silent_server_is_given_up(server, monkeypatch):
    monkeypatch.setattr(download, "TIMEOUT", (1.0, 0.05))
    server.slow = 0.3
    with pytest.raises(DataError, match="connection was lost"):
        fetched(known(server), pauses=(0.0,))
    assert len(server.asked) == 2


def test_the_first_checksum_seen_counts(server, home):
    file = fetched(unknown(server))
    assert (home / "set" / "file.bin.sha256").read_text() == f"{SHA256}  file.bin\n"
    file.write_bytes(DATA[::-1])
    with pytest.raises(DataError, match="the first one seen; move it away"):
        fetched(unknown(server))
    file.unlink()
    server.data = DATA[::-1]
    with pytest.raises(DataError, match=rf"does not have the hash sha256:{SHA256}; bring"):
        fetched(unknown(server))


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
        assert each.url.startswith(("https://", "http://")) and each.name and not each.into.startswith("/")
        assert len(each.sha256) in (0, 64) and len(each.md5) in (0, 32)
    opened = [each.into for each in downloads if each.unpack]
    assert len(opened) == len(set(opened))
    assert not set(opened) & {each.into for each in downloads if not each.unpack}
