"""Run tests as other machines would: other processors, Pythons, users, places and dependencies.

python tools/machines.py              the numeric tests and a smoke demo in every lane
python tools/machines.py avx2 user    in these lanes only
python tools/machines.py --full avx2  the whole default suite instead
python tools/machines.py --list       the lanes

A lane that this machine cannot play is skipped by name, with the reason. What a lane prints is in
build/machines/LANE.log. Another Python, or other dependencies, get an environment of their own there.
"""

import argparse
import hashlib
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Literal
from xml.etree import ElementTree

ROOT = Path(__file__).resolve().parents[1]
BUILD = ROOT / "build" / "machines"
NUMERIC = (
    "tests/training/test_golden.py",
    "tests/training/test_step.py",
    "tests/training/test_model.py",
    "tests/mixers/ops",
    "tests/mixers/test_golden.py",
    "tests/mixers/test_convolution.py",
    "tests/objectives",
)
STORED = ("tests/runner", "tests/report", "tests/data/test_prepared.py")
"""What depends on the versions of libraries rather than on arithmetic."""
NOBODY = 65534

# One processor in all libraries at once, as a real one is. PyTorch fails where its own kernels are those of
# an older processor than oneDNN's: attention in bfloat16, from 64 positions on, asks oneDNN whether there is
# AMX, and then packs with AVX-512 ("pack_vnni2 is only supported when avx512 is supported").
SSE = {
    "ATEN_CPU_CAPABILITY": "default",
    "ONEDNN_MAX_CPU_ISA": "SSE41",
    "MKL_ENABLE_INSTRUCTIONS": "SSE4_2",
    "MKL_CBWR": "COMPATIBLE",
    "OPENBLAS_CORETYPE": "Nehalem",
    "NPY_DISABLE_CPU_FEATURES": "X86_V3 AVX2 FMA3",  # by their names since and before NumPy 2.4
    "GLIBC_TUNABLES": "glibc.cpu.hwcaps=-AVX2,-FMA",
}
AVX2 = {
    "ATEN_CPU_CAPABILITY": "avx2",
    "ONEDNN_MAX_CPU_ISA": "AVX2",
    "MKL_ENABLE_INSTRUCTIONS": "AVX2",
    "MKL_CBWR": "AVX2",
    "OPENBLAS_CORETYPE": "Haswell",
}
AVX512 = {"ATEN_CPU_CAPABILITY": "avx512", "MKL_ENABLE_INSTRUCTIONS": "AVX512"}
ELSEWHERE = {"LC_ALL": "C", "TZ": "Pacific/Chatham", "COLUMNS": "80"}
THREADS = {"OMP_NUM_THREADS": "4", "MKL_NUM_THREADS": "4"}


@dataclass(frozen=True)
class Lane:
    """Another machine, as far as this one can play it."""

    says: str
    variables: Mapping[str, str] = field(default_factory=dict)
    flags: tuple[str, ...] = ()  # what the processor must have, by the names of /proc/cpuinfo
    python: str = ""  # such as 3.12; "": the one that runs this
    dependencies: Literal["tested", "oldest", "newest"] = "tested"
    user: bool = False  # no rights of root, and a home that cannot be written
    tests: tuple[str, ...] = NUMERIC


LANES = {
    "here": Lane("this machine as it is"),
    "default": Lane("a processor without AVX", SSE),
    "kernels": Lane("PyTorch's own kernels without AVX", {"ATEN_CPU_CAPABILITY": "default"}),
    "avx2": Lane("a processor with AVX2", AVX2, flags=("avx2", "fma")),
    "avx512": Lane("a processor with AVX-512", AVX512, flags=("avx512f", "avx512bw", "avx512dq", "avx512vl")),
    "threads": Lane("four threads", THREADS),
    "elsewhere": Lane("another locale, time zone and width of terminal", ELSEWHERE),
    "user": Lane("no rights of root, and a home that cannot be written", user=True),
    "quick": Lane("no AVX, four threads, elsewhere", SSE | THREADS | ELSEWHERE, tests=NUMERIC[:1]),
    "python3.11": Lane("Python 3.11", python="3.11"),
    "python3.12": Lane("Python 3.12", python="3.12"),
    "python3.13": Lane("Python 3.13", python="3.13"),
    "hard": Lane("Python 3.13, no AVX, elsewhere, not root", SSE | ELSEWHERE, python="3.13", user=True),
    "mixed": Lane("Python 3.12, AVX2, four threads", AVX2 | THREADS, flags=("avx2", "fma"), python="3.12"),
    "oldest": Lane(
        "Python 3.11, oldest dependencies", python="3.11", dependencies="oldest", tests=NUMERIC + STORED
    ),
    "newest": Lane("newest dependencies", dependencies="newest", tests=NUMERIC + STORED),
}


class Skipped(Exception):
    """This machine cannot show a lane, for the reason given."""


@dataclass
class Outcome:
    """What came of a lane."""

    passed: int = 0
    failed: int = 0
    seconds: float = 0.0
    note: str = ""


def main() -> int:
    """Run the lanes that are asked for; whether any failed."""
    asked = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    asked.add_argument("lanes", nargs="*", metavar="LANE", help=f"of {', '.join(LANES)}; none: all")
    asked.add_argument("--tests", action="append", metavar="PATH", help="run these instead; may be repeated")
    asked.add_argument("--full", action="store_true", help="run the whole default suite")
    asked.add_argument("--workers", default="1", help="of pytest")
    asked.add_argument("--list", action="store_true", help="print the lanes")
    flags = asked.parse_args()
    if wrong := set(flags.lanes) - set(LANES):
        asked.error(f"no lane {', '.join(sorted(wrong))}; there are {', '.join(LANES)}")
    if flags.list:
        print("\n".join(f"{name:12} {lane.says}" for name, lane in LANES.items()))
        return 0
    outcomes = {}
    tests = ["tests"] if flags.full else flags.tests
    for name in flags.lanes or LANES:
        print(f"--- {name}: {LANES[name].says}", flush=True)
        outcomes[name] = outcome(name, flags.workers, tests)
        print(line(name, outcomes[name]), flush=True)
    print("\nlane           passed  failed  seconds")
    print("\n".join(line(name, each) for name, each in outcomes.items()))
    return int(any(each.failed for each in outcomes.values()))


def line(name: str, found: Outcome) -> str:
    """A lane's line of the table."""
    return f"{name:12} {found.passed:8} {found.failed:7} {found.seconds:8.0f}  {found.note}".rstrip()


def outcome(name: str, workers: str, tests: Sequence[str] | None) -> Outcome:
    """What comes of a lane, by its own tests or by others."""
    lane, began = LANES[name], time.monotonic()
    BUILD.mkdir(parents=True, exist_ok=True)
    log = BUILD / f"{name}.log"
    try:
        check_processor(lane)
        python = interpreter(lane)
        with tempfile.TemporaryDirectory() as scratch, log.open("w", encoding="utf-8") as out:
            found = visited(lane, python, Path(scratch), out, workers, tests or lane.tests)
    except Skipped as why:
        return Outcome(note=f"skipped: {why}")
    except subprocess.CalledProcessError as error:
        return Outcome(failed=1, note=f"no environment: {' '.join(error.cmd[1:4])} failed")
    found.seconds = time.monotonic() - began
    if found.failed:
        print("\n".join(log.read_text(encoding="utf-8", errors="replace").splitlines()[-60:]))
    return found


def visited(
    lane: Lane, python: str, scratch: Path, out: IO[str], workers: str, tests: Sequence[str]
) -> Outcome:
    """What comes of the smoke demo and of some tests."""
    prefix, own = person(lane, scratch, python)
    variables = {**os.environ, "OMP_NUM_THREADS": "1", "OMP_WAIT_POLICY": "PASSIVE"}
    variables |= {"PYTHONPATH": str(ROOT / "src")} | own | dict(lane.variables)
    report, runs = scratch / "tests.xml", scratch / "runs"
    compare = ["compare", "--scale", "smoke", "--seeds", "1", "--quiet", "--runs", str(runs)]
    demo = ["-m", "selfpretrain", *compare]
    suite = ["-m", "pytest", "-q", "-p", "no:cacheprovider", "-n", workers, "--dist", "worksteal"]
    suite += ["--junitxml", str(report), *tests]
    codes = [
        subprocess.run(
            [*prefix, python, *command], cwd=ROOT, env=variables, stdout=out, stderr=out, check=False
        ).returncode
        for command in (demo, suite)
    ]
    found = counted(report, codes[1])
    if codes[0] == 0 and any(runs.rglob("report.html")):
        found.passed += 1
    else:
        found.failed += 1
        found.note = "the demo failed"
    return found


def counted(report: Path, code: int) -> Outcome:
    """Numbers of tests from pytest's report; a crash counts as a failure."""
    found = Outcome()
    if report.exists():
        suite = ElementTree.parse(report).getroot()[0].attrib
        found.failed = int(suite["failures"]) + int(suite["errors"])
        found.passed = int(suite["tests"]) - int(suite["skipped"]) - found.failed
    if code and not found.failed:
        found.failed = 1
    return found


def check_processor(lane: Lane) -> None:
    """Go on only if the processor has what a lane needs.

    Raises:
        Skipped: if it does not.
    """
    processor = Path("/proc/cpuinfo")
    if "ATEN_CPU_CAPABILITY" in lane.variables and platform.machine() not in ("x86_64", "AMD64"):
        raise Skipped(f"this processor is {platform.machine()}")
    has = set(processor.read_text(encoding="utf-8").split()) if processor.exists() else set()
    if missing := [flag for flag in lane.flags if flag not in has]:
        raise Skipped(f"this processor has no {', '.join(missing)}")


def person(lane: Lane, scratch: Path, python: str) -> tuple[list[str], dict[str, str]]:
    """What stands before a command, and the variables, of whoever runs a lane.

    Raises:
        Skipped: if root cannot become somebody else here.
    """
    if not lane.user:
        return [], {}
    home = scratch / "home"
    home.mkdir()
    home.chmod(0o555)
    variables = {"HOME": str(home), "TMPDIR": str(scratch)}
    variables |= dict.fromkeys(("XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME"), str(home / "no"))
    if os.geteuid():
        return [], variables
    if not shutil.which("setpriv"):
        raise Skipped("no setpriv is here, by which root becomes another user")
    nobody = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"]
    # A child, too: setpriv still has the rights of root when it starts the first process.
    again = "import subprocess, sys; subprocess.run([sys.executable, '-c', ''], check=True)"
    if subprocess.run([*nobody, python, "-c", again], capture_output=True, check=False).returncode == 0:
        os.chown(scratch, NOBODY, NOBODY)
        return nobody, variables
    # This Python is in a folder of root, which nobody else may enter: root without its rights comes closest.
    os.chown(home, NOBODY, NOBODY)
    return ["setpriv", "--bounding-set=-all", "--inh-caps=-all"], variables


def interpreter(lane: Lane) -> str:
    """The Python of a lane: the one that runs this, or that of an environment in build/machines.

    Raises:
        Skipped: if there is none of that version.
    """
    if not lane.python and lane.dependencies == "tested":
        return sys.executable
    version = lane.python or f"{sys.version_info.major}.{sys.version_info.minor}"
    base = found_python(version)
    folder = BUILD / f"python{version}-{lane.dependencies}"
    limits = constraints(lane.dependencies)
    content = hashlib.sha256((ROOT / "pyproject.toml").read_bytes() + limits.encode()).hexdigest()
    stamp, python = folder / "installed", str(folder / "bin" / "python")
    if stamp.exists() and stamp.read_text(encoding="utf-8") == content:
        return python
    print(f"installing {folder.relative_to(ROOT)}", flush=True)
    subprocess.run([base, "-m", "venv", "--clear", str(folder)], check=True)
    given = folder / "constraints.txt"
    given.write_text(limits, encoding="utf-8")
    install = ["-m", "pip", "install", "-q", "--disable-pip-version-check", "-c", str(given), "-e", ".[dev]"]
    subprocess.run([python, *install], cwd=ROOT, check=True)
    stamp.write_text(content, encoding="utf-8")
    return python


def found_python(version: str) -> str:
    """The path of a Python of this version.

    Raises:
        Skipped: if there is none.
    """
    pyenv = Path(os.environ.get("PYENV_ROOT", "~/.pyenv")).expanduser() / "versions"
    known = [shutil.which(f"python{version}"), *map(str, sorted(pyenv.glob(f"{version}.*/bin/python")))]
    for path in filter(None, known):
        asks = [path, "-c", "import ensurepip, sys; print(sys.version)"]
        said = subprocess.run(asks, capture_output=True, text=True, check=False).stdout
        if said.startswith(f"{version}."):
            return path
    raise Skipped(f"no Python {version} is here")


def constraints(dependencies: str) -> str:
    """Limits for pip: the versions that are tested together, the oldest that are supported, or none."""
    if dependencies == "tested":
        return (ROOT / "constraints.txt").read_text(encoding="utf-8")
    if dependencies == "newest":
        return ""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = [one for extra in project["optional-dependencies"].values() for one in extra]
    return "\n".join(filter(None, map(oldest, [*project["dependencies"], *extras]))) + "\n"


def oldest(requirement: str) -> str:
    """The lower bound of a requirement such as ``pydantic>=2.8,<3``, as a limit.

    PyTorch has none: its oldest build for the CPU alone is not on every index.
    """
    found = re.match(r"([A-Za-z0-9._-]+)(?:\[.*\])?>=([0-9.]+)", requirement)
    return f"{found[1]}=={found[2]}" if found and found[1] != "torch" else ""


if __name__ == "__main__":
    sys.exit(main())
