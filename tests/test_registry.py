"""A file dropped on a shelf is found, and held to the shelf's laws, with no edit elsewhere."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import selfpretrain
from selfpretrain import mixers
from selfpretrain.errors import UnknownName
from selfpretrain.registry import SHELVES, find, module_of, name_of, names, summary

ROOT = Path(__file__).parent.parent
SUPPORT = ROOT / "tests" / "support"
LAWFUL = {
    "mixers": ("mixer", "recent"),
    "tasks": ("task", "parity"),
    "objectives": ("objective", "span"),
    "arms": ("arm", "decayed"),
    "studies": ("study", "depth"),
}
"""Shelves with laws, the pages of docs/add/ with an example for each, and how the example is called here."""
REPORTED = re.compile(r"^(PASSED|FAILED|ERROR) tests/(\w+)/test_laws\.py::(\w+)\[(.*?)\]", re.MULTILINE)


RUN = "compare --task toys:Majority --mixers linear --arms scratch,spt --scale smoke --quiet"
COMMAND = ["selfpretrain", *RUN.split()]
PLANNED = f"""
from selfpretrain.cli import app

def test_what_is_dropped_is_planned_by_its_name(tmp_path, capsys):
    flags = "--mixers recent --objective span --arms matched,spt,decayed --track best --executor threads"
    assert app.run([*"{RUN}".split(), *flags.split(), "--dry-run", "--runs", str(tmp_path)]) == 0
    said = capsys.readouterr().out
    assert "recent" in said and "span > classify" in said
"""
"""A test that runs beside the laws, where the package is the one with the files that are dropped."""


def example(kind):
    """The first code block of docs/add/<kind>.md: a whole file."""
    text = (ROOT / "docs" / "add" / f"{kind}.md").read_text()
    return re.search(r"```python\n(.*?)```", text, re.DOTALL)[1]


@pytest.fixture(scope="module")
def package(tmp_path_factory):
    """A folder with a copy of the package, all examples of the documentation, and a careless mixer."""
    folder = tmp_path_factory.mktemp("dropped")
    copy = folder / "selfpretrain"
    shutil.copytree(Path(selfpretrain.__file__).parent, copy)  # with what is compiled
    for shelf, (kind, name) in LAWFUL.items():
        (folder.joinpath(*module_of(shelf).split(".")) / f"{name}.py").write_text(example(kind))
    (copy / "runner" / "executors" / "threads.py").write_text(example("executor"))
    (copy / "runner" / "trackers" / "best.py").write_text(example("tracker"))
    (folder / "test_planned.py").write_text(PLANNED)
    (copy / "mixers" / "careless.py").write_text((SUPPORT / "toys.py").read_text() + "\n\nmixer = Careless\n")
    return folder


def python(folder, *command, cwd=ROOT):
    """What a Python prints that finds the package in that folder."""
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(folder), str(SUPPORT)])}
    command = [sys.executable, "-m", *map(str, command)]
    return subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, check=False)


@pytest.mark.slow
def test_the_examples_of_the_documentation_keep_the_laws_and_a_careless_mixer_does_not(package):
    chosen = " or ".join(["(careless and keeps_the_contract)", *(name for _, name in LAWFUL.values())])
    # "never span" is a law of tasks, not the objective called span.
    chosen = f"({chosen} or planned) and not (never_span and not parity)"
    laws = [ROOT / "tests" / shelf / "test_laws.py" for shelf in LAWFUL] + [package / "test_planned.py"]
    done = python(package, "pytest", "-q", "-rpfE", "-p", "no:cacheprovider", "-k", chosen, *laws)
    found = REPORTED.findall(done.stdout)
    failed = {f"{law}[{case}]" for how, _, law, case in found if how != "PASSED"}
    assert {f"test_keeps_the_contract[{way}-careless]" for way in ("causal", "bidirectional")} <= failed
    assert [each for each in failed if "careless" not in each] == [], done.stdout
    assert {shelf for how, shelf, _, _ in found if how == "PASSED"} == set(LAWFUL), done.stdout
    assert "PASSED ::test_what_is_dropped_is_planned_by_its_name\n" in done.stdout, done.stdout


@pytest.mark.slow
@pytest.mark.parametrize(
    ("flags", "left"),
    [
        ("--objective span --track best --jobs 1 --seeds 1", ["best.json", "stages/*-span-*/recipe.json"]),
        ("--executor threads --jobs 2 --seeds 2", ["compare-*/report.html"]),
    ],
)
def test_what_is_dropped_is_used_by_its_name(package, tmp_path, flags, left):
    done = python(package, *COMMAND, *flags.split(), "--runs", tmp_path)
    assert done.returncode == 0, done.stderr
    assert all(list(tmp_path.glob(pattern)) for pattern in left)
    for recipe in tmp_path.glob("stages/*-span-*/recipe.json"):
        assert '"selfpretrain.objectives.span:Span"' in recipe.read_text()


@pytest.mark.slow
def test_a_dropped_file_is_listed(package):
    out = python(package, "selfpretrain", "list", "mixers").stdout
    assert "recent" in out and "Mean of the last few positions" in out


@pytest.mark.slow
def test_an_objective_is_used_by_its_path_with_nothing_registered(tmp_path):
    (tmp_path / "mylab").mkdir()
    (tmp_path / "mylab" / "span.py").write_text(example("objective"))
    ours = Path(selfpretrain.__file__).parents[1]
    flags = ["--objective", "mylab.span:Span", "--seeds", "1", "--runs", tmp_path / "runs"]
    done = python(f"{ours}{os.pathsep}{tmp_path}", *COMMAND, *flags, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    (recipe,) = (tmp_path / "runs" / "stages").glob("*-span-*/recipe.json")
    assert '"mylab.span:Span"' in recipe.read_text() and '"rate": 0.15' in recipe.read_text()


def test_a_name_in_other_capitals_is_suggested():
    with pytest.raises(UnknownName, match=r"no mixer called 'ATENTION'; did you mean 'attention'\?"):
        find("mixers", "ATENTION")


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("mylab", "for what this module has write mylab:NAME"),
        ("mylab.layers.Conv", r"did you mean mylab\.layers:Conv\?"),
        ("mylob.layers.Conv", "known: "),
        ("__main__", "known: "),
    ],
)
def test_a_module_without_a_colon_is_told_how_to_name_what_is_in_it(name, said, tmp_path, monkeypatch):
    (tmp_path / "mylab.py").touch()
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(UnknownName, match=f"no mixer called '{name}'; {said}"):
        find("mixers", name)


@pytest.mark.parametrize("shelf", sorted(set(SHELVES) - {"studies"}))
def test_things_are_called_by_their_files(shelf):
    for name in set(names(shelf)) - {"imported"}:
        assert name_of(find(shelf, name)) == name


def test_a_file_that_begins_with_a_comment_is_listed_by_its_docstring(tmp_path, monkeypatch):
    page = (ROOT / "docs" / "tutorials" / "contributor.md").read_text()
    (tmp_path / "nothing.py").write_text(re.search(r"```python\n(# .*?)```", page, re.DOTALL)[1])
    monkeypatch.setattr(mixers, "__path__", [str(tmp_path)])
    said = "Positions do not hear each other: what a network does without mixing."
    assert summary("mixers", "nothing") == said
