"""Leases: one owner at a time, whoever is slow, killed or asleep."""

import json
import multiprocessing
import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from selfpretrain.errors import Interrupted, LeaseLost, SpecError, Taken
from selfpretrain.system.lease import Lease, lease_records, leased
from selfpretrain.system.store import FolderStore


def asleep(folder, number):
    """Let a lease be one of another machine, silent for an hour."""
    path = folder / f".lease-{number}"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"place": "elsewhere"}))
    os.utime(path, (time.time() - 3600,) * 2)


def no(*_):
    return False


def race(folder):
    try:
        return Lease(FolderStore(folder)).owner
    except Taken:
        return None


@pytest.mark.parametrize("turn", range(5))
def test_of_many_that_begin_together_one_wins(turn, tmp_path):
    with ThreadPoolExecutor(16) as pool:
        threads = list(pool.map(race, [tmp_path / "."] * 16))
    assert len(list(filter(None, threads))) == 1


def test_of_many_processes_one_wins(tmp_path):
    with multiprocessing.get_context("fork").Pool(16) as pool:
        owners = list(filter(None, pool.map(race, [tmp_path] * 64, chunksize=1)))
    assert len(owners) == 1
    assert [record.owner for record in lease_records(FolderStore(tmp_path))] == owners


def test_who_holds_it_is_told_and_it_is_free_once_it_has_ended(tmp_path):
    with leased(FolderStore(tmp_path), no) as held:
        with (
            pytest.raises(Taken, match=f"process {os.getpid()} on "),
            leased(FolderStore(tmp_path), lambda: True),
        ):
            pass
        assert lease_records(FolderStore(tmp_path))[-1].alive(FolderStore(tmp_path))
    with leased(FolderStore(tmp_path), lambda: True) as other:
        assert other.number == held.number + 1


@pytest.mark.parametrize(
    ("error", "how"), [(SpecError("wrong"), "failed"), (Interrupted("asked"), "stopped"), (None, "done")]
)
def test_how_it_ended_is_kept(error, how, tmp_path):
    try:
        with leased(FolderStore(tmp_path), no):
            if error:
                raise error
    except (SpecError, Interrupted):
        pass
    assert [(r.how, r.error) for r in lease_records(FolderStore(tmp_path))] == [(how, str(error or ""))]


def test_it_is_renewed_for_as_long_as_it_is_held(tmp_path):
    with leased(FolderStore(tmp_path), no, seconds=0.6):
        time.sleep(1.5)
        with pytest.raises(Taken):
            Lease(FolderStore(tmp_path))


@pytest.mark.parametrize("confirmed", [0, 1, 2])
def test_who_slept_has_lost_it_whatever_the_next_has_done(confirmed, tmp_path):
    first = Lease(FolderStore(tmp_path))
    asleep(tmp_path, 1)
    second = Lease(FolderStore(tmp_path))
    for _ in range(confirmed):
        second.confirm()
    first._renewed -= 3600
    with pytest.raises(LeaseLost, match="has taken over"):
        first.check()
    first.end("done")
    assert lease_records(FolderStore(tmp_path))[-1].owner == second.owner
    assert lease_records(FolderStore(tmp_path))[-1].how == ""
    second.confirm()


def test_the_thread_that_renews_notices_it_too(tmp_path):
    with pytest.raises(LeaseLost), leased(FolderStore(tmp_path), no, seconds=0.6) as first:
        asleep(tmp_path, 1)
        second = Lease(FolderStore(tmp_path))
        second.confirm()
        first._renewed -= 3600
        time.sleep(0.5)
        assert first._lost
        first.check()


def test_a_killed_process_of_this_machine_is_not_waited_for(tmp_path):
    code = "import sys, os; from pathlib import Path; from selfpretrain.system.lease import Lease\n"
    code += "from selfpretrain.system.store import FolderStore\n"
    code += "Lease(FolderStore(Path(sys.argv[1]))); os._exit(9)"
    subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=False)
    assert not lease_records(FolderStore(tmp_path))[-1].how
    assert Lease(FolderStore(tmp_path)).number == 2


def test_a_lease_that_is_being_written_counts(tmp_path):
    (tmp_path / ".lease-1").touch()
    with pytest.raises(Taken, match="another machine"):
        Lease(FolderStore(tmp_path))


def test_an_hour_of_another_clock_changes_nothing(tmp_path, monkeypatch):
    Lease(FolderStore(tmp_path))
    asleep(tmp_path, 1)
    os.utime(tmp_path / ".lease-1")
    monkeypatch.setattr(time, "time", lambda: 1e12)
    assert lease_records(FolderStore(tmp_path))[0].alive(FolderStore(tmp_path))
    monkeypatch.setattr(FolderStore, "clock", lambda store: lease_records(store)[0].renewed + 61)
    assert not lease_records(FolderStore(tmp_path))[0].alive(FolderStore(tmp_path))
