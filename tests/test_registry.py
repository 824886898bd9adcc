"""A file dropped on a shelf is found, and held to the shelf's laws, with no edit elsewhere."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import selfpretrain

ROOT = Path(__file__).parent.parent
LAWS = ROOT / "tests"


def example(kind):
    """The first code block of docs/add/<kind>.md: a whole file."""
    text = (ROOT / "docs" / "add" / f"{kind}.md").read_text()
    return re.search(r"```python\n(.*?)```", text, re.DOTALL)[1]


CARELESS = (LAWS / "toys.py").read_text() + "\n\nmixer = Careless\n"


@pytest.fixture
def package(tmp_path):
    """A copy of the package, to drop files into."""
    shutil.copytree(Path(selfpretrain.__file__).parent, tmp_path / "selfpretrain")
    return tmp_path


def laws(package, shelf, name):
    """Run a shelf's laws for one name against the copy."""
    paths = os.pathsep.join([str(package), str(LAWS)])
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "-k",
        name,
        str(LAWS / shelf / "test_laws.py"),
    ]
    environment = os.environ | {"PYTHONPATH": paths}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout


@pytest.mark.parametrize(
    ("shelf", "kind", "name"),
    [
        ("mixers", "mixer", "recent"),
        ("tasks", "task", "parity"),
        ("objectives", "objective", "span"),
        ("studies", "study", "depth"),
    ],
)
def test_the_examples_of_the_documentation_keep_the_laws(package, shelf, kind, name):
    (package / "selfpretrain" / shelf / f"{name}.py").write_text(example(kind))
    code, out = laws(package, shelf, name)
    assert code == 0, out
    assert " passed" in out


def test_a_careless_mixer_is_caught(package):
    (package / "selfpretrain" / "mixers" / "careless.py").write_text(CARELESS)
    code, out = laws(package, "mixers", "careless")
    assert code == 1
    assert "FAILED" in out
    assert "test_keeps_the_contract[causal-careless]" in out
    assert "test_keeps_the_contract[bidirectional-careless]" in out


RUN = "compare --task toys:Majority --mixers attention --seeds 2 --scale smoke --quiet"


@pytest.mark.parametrize(
    ("folder", "kind", "name", "flags", "left"),
    [
        ("executors", "executor", "threads", "--executor threads --jobs 2", "compare-*/report.html"),
        ("trackers", "tracker", "best", "--track best --jobs 1", "best.json"),
    ],
)
def test_executors_and_trackers_of_the_documentation_work(package, folder, kind, name, flags, left):
    (package / "selfpretrain" / "runner" / folder / f"{name}.py").write_text(example(kind))
    paths = os.pathsep.join([str(package), str(LAWS)])
    runs = package / "runs"
    command = [sys.executable, "-m", "selfpretrain", *RUN.split(), *flags.split(), "--runs", str(runs)]
    subprocess.run(command, env=os.environ | {"PYTHONPATH": paths}, capture_output=True, check=True)
    assert list(runs.glob(left))


def test_a_dropped_file_is_listed(package):
    (package / "selfpretrain" / "mixers" / "recent.py").write_text(example("mixer"))
    environment = os.environ | {"PYTHONPATH": str(package)}
    command = [sys.executable, "-m", "selfpretrain", "list", "mixers"]
    out = subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout
    assert "recent" in out
    assert "Mean of the last few positions" in out
