"""A file dropped on a shelf is found, and held to the shelf's laws, with no edit elsewhere."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import selfpretrain
from selfpretrain.registry import SHELVES, find, module_of, name_of, names

ROOT = Path(__file__).parent.parent
LAWS = ROOT / "tests"
SUPPORT = LAWS / "support"


def example(kind):
    """The first code block of docs/add/<kind>.md: a whole file."""
    text = (ROOT / "docs" / "add" / f"{kind}.md").read_text()
    return re.search(r"```python\n(.*?)```", text, re.DOTALL)[1]


CARELESS = (SUPPORT / "toys.py").read_text() + "\n\nmixer = Careless\n"


@pytest.fixture
def package(tmp_path):
    """A copy of the package, to drop files into."""
    shutil.copytree(Path(selfpretrain.__file__).parent, tmp_path / "selfpretrain")
    return tmp_path


def laws(package, shelf, name):
    """Run a shelf's laws for one name against the copy."""
    paths = os.pathsep.join([str(package), str(SUPPORT)])
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
        pytest.param("objectives", "objective", "span", marks=pytest.mark.slow),
        pytest.param("arms", "arm", "decayed", marks=pytest.mark.slow),
        ("studies", "study", "depth"),
    ],
)
def test_the_examples_of_the_documentation_keep_the_laws(package, shelf, kind, name):
    folder = package.joinpath(*module_of(shelf).split("."))
    (folder / f"{name}.py").write_text(example(kind))
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
        pytest.param(
            *("executors", "executor", "threads", "--executor threads --jobs 2", "compare-*/report.html"),
            marks=pytest.mark.slow,
        ),
        ("trackers", "tracker", "best", "--track best --jobs 1", "best.json"),
    ],
)
def test_executors_and_trackers_of_the_documentation_work(package, folder, kind, name, flags, left):
    (package / "selfpretrain" / "runner" / folder / f"{name}.py").write_text(example(kind))
    paths = os.pathsep.join([str(package), str(SUPPORT)])
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


def compared(folder, package, objective):
    """Output of a comparison in seconds, pretrained with an objective."""
    paths = os.pathsep.join([str(package), str(folder)])
    flags = ["--objective", objective, "--mixers", "attention", "--seeds", "1", "--scale", "smoke", "--quiet"]
    command = [sys.executable, "-m", "selfpretrain", "compare", *flags]
    done = subprocess.run(
        command,
        cwd=folder,
        env=os.environ | {"PYTHONPATH": paths},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    (stage,) = (folder / "runs" / "stages").glob("*-span-*")
    return (stage / "recipe.json").read_text()


def test_the_objective_of_the_documentation_is_compared_by_its_name(package):
    (package / "selfpretrain" / "objectives" / "span.py").write_text(example("objective"))
    assert '"selfpretrain.objectives.span:Span"' in compared(package, package, "span")


@pytest.mark.slow
def test_and_by_its_path_with_nothing_registered(tmp_path):
    (tmp_path / "mylab").mkdir()
    (tmp_path / "mylab" / "span.py").write_text(example("objective"))
    recipe = compared(tmp_path, Path(selfpretrain.__file__).parents[1], "mylab.span:Span")
    assert '"mylab.span:Span"' in recipe and '"rate": 0.15' in recipe


@pytest.mark.parametrize("shelf", sorted(set(SHELVES) - {"studies"}))
def test_things_are_called_by_their_files(shelf):
    for name in set(names(shelf)) - {"imported"}:
        assert name_of(find(shelf, name)) == name
