"""Lanes that play other machines: what is skipped, and what counts as a failure."""

from dataclasses import replace
from pathlib import Path

import pytest

from scripts import script

ROOT = Path(__file__).parents[1]
pytestmark = pytest.mark.skipif(not (ROOT / "tools").is_dir(), reason="needs the repository")

REPORT = '<testsuites><testsuite tests="9" failures="1" errors="2" skipped="3"/></testsuites>'


@pytest.fixture(scope="module")
def machines():
    return script("machines")


def test_a_lane_for_another_processor_is_skipped_by_name(machines, monkeypatch, capsys):
    lane = replace(machines.LANES["avx512"], flags=("no_such_flag",))
    monkeypatch.setitem(machines.LANES, "avx512", lane)
    monkeypatch.setattr("sys.argv", ["machines.py", "avx512"])
    assert machines.main() == 0
    last = capsys.readouterr().out.splitlines()[-1]
    assert last.split()[:3] == ["avx512", "0", "0"] and "skipped: this processor" in last


def test_a_lane_for_a_python_that_is_not_here_is_skipped(machines):
    with pytest.raises(machines.Skipped, match=r"no Python 9\.9 is here"):
        machines.interpreter(replace(machines.LANES["python3.12"], python="9.9"))


def test_an_unknown_lane_is_a_mistake(machines, monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["machines.py", "sse"])
    with pytest.raises(SystemExit, match="2"):
        machines.main()
    assert "no lane sse; there are here, default" in capsys.readouterr().err


def test_failures_errors_and_crashes_count(machines, tmp_path):
    report = tmp_path / "tests.xml"
    assert machines.counted(report, 139).failed == 1
    report.write_text(REPORT, encoding="utf-8")
    found = machines.counted(report, 1)
    assert (found.passed, found.failed) == (3, 3)


def test_tests_exist_that_lanes_run(machines):
    named = {path for lane in machines.LANES.values() for path in lane.tests}
    assert [path for path in sorted(named) if not (ROOT / path).exists()] == []


def test_the_oldest_dependencies_are_the_lower_bounds(machines):
    assert machines.oldest("pydantic>=2.8,<3") == "pydantic==2.8"
    assert machines.oldest("moto[server]>=5") == "moto==5"
    assert machines.oldest("torch>=2.11") == ""
    assert "numpy==1.26" in machines.constraints("oldest").splitlines()
