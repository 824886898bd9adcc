"""Runs in a bucket: a server with conditional writes on this machine, and one that fails in every way."""

import http.client
import json
import os
import socket
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.request import Request, urlopen

import pytest

from engines import COMPARE, free_port
from selfpretrain.cli.app import run
from selfpretrain.errors import LeaseLost, StoreError, Taken
from selfpretrain.registry import resolve
from selfpretrain.runner import stage
from selfpretrain.runner.run import run_recipes
from selfpretrain.runner.workspace import Workspace
from selfpretrain.studies.compare import prepare
from selfpretrain.system import bucket as buckets
from selfpretrain.system import mirror
from selfpretrain.system.bucket import Bucket
from selfpretrain.system.lease import Lease, lease_records, leased

MOTO = """
import sys, threading
from moto.server import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import make_server
moto, one = DomainDispatcherApplication(create_backend_app), threading.Lock()
def answer(*asked):  # moto looks and writes in two steps; a bucket does in one
    with one:
        return [b"".join(moto(*asked))]
make_server("127.0.0.1", int(sys.argv[1]), answer, threaded=True).serve_forever()
"""


@pytest.fixture(scope="module")
def server():
    pytest.importorskip("obstore")
    pytest.importorskip("moto.server")
    port = free_port()
    process = subprocess.Popen([sys.executable, "-c", MOTO, str(port)], stderr=subprocess.DEVNULL)
    try:
        end = time.monotonic() + 120
        while True:
            try:
                urlopen(Request(f"http://127.0.0.1:{port}/runs", method="PUT"), timeout=5).close()
                break
            except OSError:
                assert time.monotonic() < end and process.poll() is None, "moto's server does not start"
                time.sleep(0.2)
        yield port
    finally:
        process.kill()
        process.wait()


def reach(monkeypatch, port):
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{port}")
    for name, value in {"ACCESS_KEY_ID": "test", "SECRET_ACCESS_KEY": "test", "REGION": "us-east-1"}.items():
        monkeypatch.setenv(f"AWS_{name}", value)


@pytest.fixture
def url(server, monkeypatch, tmp_path, request):
    reach(monkeypatch, server)
    monkeypatch.setenv("SPT_SCRATCH", str(tmp_path / "scratch"))
    mirror.bucket_of.cache_clear()
    return f"s3://runs/{request.node.name.replace('[', '-').replace(']', '')}"


def race(url):
    try:
        return Lease(Bucket.at(url)).owner
    except Taken:
        return None


def test_of_16_claims_that_race_one_wins(url):
    for turn in range(10):
        with ThreadPoolExecutor(16) as pool:
            owners = list(filter(None, pool.map(race, [f"{url}/{turn}"] * 16)))
        assert len(owners) == 1
        assert [record.owner for record in lease_records(Bucket.at(f"{url}/{turn}"))] == owners


def test_a_silent_owner_is_followed_and_its_result_refused(url):
    first, second = Bucket.at(url), Bucket.at(url)
    lost = Lease(first, seconds=1.0)
    lost.number, place = 1, first.read(".lease-1")
    first.write(".lease-1", json.dumps(json.loads(place.content) | {"place": "elsewhere"}).encode())
    time.sleep(3)  # the server tells whole seconds
    with leased(second, lambda: True):
        assert second.replace("result.json", b"of the second")
    assert not first.replace("result.json", b"of the first")
    with pytest.raises(LeaseLost, match="has taken over"):
        lost.check()
    assert first.read("result.json").content == b"of the second"


class Unreliable(BaseHTTPRequestHandler):
    """Passes everything on to a server, but first fails as often as ``ills`` say."""

    protocol_version = "HTTP/1.1"
    ills: tuple = ()
    port = 0

    def log_message(self, *_):
        pass

    def _pass(self):
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        ill = type(self).ills[0] if type(self).ills else ""
        type(self).ills = type(self).ills[1:]
        if ill == "cut":
            self.close_connection = True
            return self.connection.shutdown(socket.SHUT_RDWR)
        if ill == "slow":
            time.sleep(1)
        if ill in ("500", "503", "expired"):
            status, code = (400, "ExpiredToken") if ill == "expired" else (int(ill), "InternalError")
            text = f"<Error><Code>{code}</Code><Message>{code}</Message></Error>".encode()
            return self._answer(status, {}, text)
        there = http.client.HTTPConnection("127.0.0.1", type(self).port, timeout=30)
        there.request(self.command, self.path, body, dict(self.headers))
        answer = there.getresponse()
        content = answer.read()
        if ill == "unanswered":  # it was done, and nobody is told
            self.close_connection = True
            return self.connection.shutdown(socket.SHUT_RDWR)
        return self._answer(answer.status, dict(answer.getheaders()), content)

    def _answer(self, status, headers, content):
        self.send_response(status)
        for name, value in headers.items():
            if name.lower() not in ("transfer-encoding", "content-length", "connection"):
                self.send_header(name, value)
        self.send_header("Content-Length", headers.get("Content-Length", str(len(content))))
        self.end_headers()
        self.wfile.write(content)

    do_GET = do_PUT = do_HEAD = do_POST = do_DELETE = _pass


@pytest.fixture
def unreliable(url, server, monkeypatch):
    kind = type("Kind", (Unreliable,), {"port": server})
    proxy = ThreadingHTTPServer(("127.0.0.1", 0), kind)
    threading.Thread(target=proxy.serve_forever, daemon=True).start()
    reach(monkeypatch, proxy.server_port)
    monkeypatch.setattr(buckets, "PATIENCE", 0.01)
    yield Bucket.at(url), kind
    proxy.shutdown()


@pytest.mark.parametrize("ill", ["cut", "500", "503", "slow", "unanswered"])
def test_what_passes_is_asked_again(ill, unreliable, tmp_path):
    bucket, kind = unreliable
    (tmp_path / "large").write_bytes(os.urandom(1 << 20))
    for ask, answer in (
        (lambda: bucket.create("made", b"once"), True),
        (lambda: bucket.read("made").content, b"once"),
        (lambda: bucket.create("made", b"twice"), False),
        (lambda: bucket.names("ma"), ["made"]),
        (lambda: bucket.upload("large", tmp_path / "large"), None),
        (lambda: bucket.download("large", tmp_path / "back"), True),
        (lambda: bucket.replace("made", b"again"), True),
    ):
        kind.ills = (ill,) * 2
        assert ask() == answer
    assert (tmp_path / "back").read_bytes() == (tmp_path / "large").read_bytes()
    assert bucket.read("made").content == b"again"


def test_an_owner_whose_claim_was_not_answered_knows_that_it_is_its_own(unreliable):
    bucket, kind = unreliable
    bucket.clock()
    kind.ills = ("", "unanswered")
    assert Lease(bucket).number == 1


@pytest.mark.parametrize("ill", ["expired", "500", "cut"])
def test_what_does_not_pass_is_one_line(ill, unreliable):
    bucket, kind = unreliable
    kind.ills = (ill,) * 1000
    with pytest.raises(StoreError) as told:
        bucket.create("made", b"once")
    (line,) = str(told.value).splitlines()
    assert line.startswith(f"cannot write {bucket.url}: ")
    assert ("check its keys" if ill == "expired" else "is it in reach?") in line
    assert (len(kind.ills) == 999) == (ill == "expired")


def recipes(steps=20):
    study = prepare(resolve("tasks", "digits"), (resolve("mixers", "lstm"),), "masked", "smoke", 1)
    return [cell.recipe for cell in study.amended({"pretrain.budget.steps": steps}).cells()]


def numbers(runs):
    found = {}
    for path in sorted(Path(runs).glob("stages/*/result.json")):
        result = json.loads(path.read_text())
        found[path.parent.name] = [result[key] for key in ("scores", "steps", "weights", "data")]
    return found


def contents(runs):
    files = (path for path in sorted(Path(runs).rglob("*")) if path.is_file())
    return {path.relative_to(runs).as_posix(): path.read_bytes() for path in files if "lock" not in path.name}


def test_from_a_folder_to_a_bucket_and_back_to_the_byte(url, tmp_path):
    folder = tmp_path / "folder"
    run_recipes(recipes(), replace(Workspace.of(folder, "cpu", "1"), quiet=True))
    assert run(["runs", "copy", str(folder), url]) == 0
    assert run(["runs", "copy", url, str(tmp_path / "back")]) == 0
    assert contents(tmp_path / "back") == contents(folder)
    assert run(["runs", "verify", url]) == 0


def test_a_comparison_in_a_bucket_is_that_in_a_folder(url, tmp_path, monkeypatch, capsys):
    assert run([*COMPARE, "--runs", str(tmp_path / "folder")]) == 0
    assert run([*COMPARE, "--runs", url, "--detach"]) == 0
    monkeypatch.setenv("SPT_SCRATCH", str(tmp_path / "other machine"))
    assert run(["runs", "worker", url, "-q", "--device", "cpu"]) == 0
    assert "4 stages run here, 0 failed" in capsys.readouterr().out
    monkeypatch.setenv("SPT_SCRATCH", str(tmp_path / "third machine"))
    assert run(["runs", "status", url]) == 0
    assert "4 done, 0 running" in capsys.readouterr().out
    monkeypatch.setattr(stage, "_train", lambda *_: 1 / 0)  # everything is there
    assert run([*COMPARE, "--runs", url]) == 0
    assert numbers(mirror.mirror_of(url)) == numbers(tmp_path / "folder")
    assert mirror.copy(Path(url), tmp_path / "back") > 20
    assert len(list((tmp_path / "back").glob("compare-*/report.html"))) == 1


def test_a_bucket_without_conditional_writes_is_refused(url, monkeypatch, capsys):
    put = Bucket._put
    monkeypatch.setattr(Bucket, "_put", lambda self, name, content, _: put(self, name, content, "overwrite"))
    assert run(["runs", "status", url]) == 1
    assert "lets two make the same file" in capsys.readouterr().err


KILLED = """
import os, sys
from selfpretrain.training import loop
from selfpretrain.training.stage_folder import Folder
loop.CHECKPOINT_SECONDS, save = 0.0, Folder.save
def saved(self, name, *rest):
    digest = save(self, name, *rest)
    if name.startswith("checkpoint") and rest[1]["step"] >= 10:
        os._exit(9)
    return digest
Folder.save = saved
from selfpretrain.cli.app import run
sys.exit(run(["runs", "worker", sys.argv[1], "-q", "--device", "cpu"]))
"""


def test_a_worker_lost_on_another_machine_costs_time_and_no_digit(url, tmp_path, monkeypatch):
    folder = tmp_path / "folder"
    run_recipes(recipes(), replace(Workspace.of(folder, "cpu", "1"), quiet=True))
    flags = [*COMPARE, "-s", "pretrain.budget.steps=20", "--runs", url]
    assert run([*flags, "--detach"]) == 0
    path = os.pathsep.join([str(Path(stage.__file__).parents[2]), os.environ.get("PYTHONPATH", "")])
    lost = subprocess.run(
        [sys.executable, "-c", KILLED, url], check=False, env=os.environ | {"PYTHONPATH": path}
    )
    assert lost.returncode == 9
    monkeypatch.setenv("SPT_SCRATCH", str(tmp_path / "other machine"))
    begun, resumed = [], stage.Fit._continue
    monkeypatch.setattr(stage.Fit, "_continue", lambda self, *rest: (begun.append(1), resumed(self, *rest)))
    assert run(["runs", "worker", url, "-q", "--device", "cpu"]) == 0
    assert begun == [1]
    assert numbers(mirror.mirror_of(url)) == numbers(folder)


def test_without_obstore_one_line_says_what_to_install(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "obstore.store", None)
    assert run(["runs", "status", "s3://runs/x"]) == 2
    assert 'pip install "selfpretrain[bucket]"' in capsys.readouterr().err
