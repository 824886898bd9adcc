"""Laws that every study on the shelf keeps; a new file is tested without being named here."""

import json

import pytest

import toys
from selfpretrain import shelf
from selfpretrain.execute import Machine, carry_out
from selfpretrain.recipe import describe, fingerprint, revive
from selfpretrain.study import Study

STUDIES = {name: shelf.find("studies", name) for name in shelf.names("studies")}
every_study = pytest.mark.parametrize("name", STUDIES)


@pytest.fixture(autouse=True)
def one_thread():
    toys.settle()


@every_study
@pytest.mark.parametrize("scale", ["smoke", "small"])
def test_recipes_survive_json_and_differ(name, scale):
    study = STUDIES[name].at(scale, seeds=2)
    assert isinstance(study, Study)
    cells = list(study.cells())
    assert len({(c.row, c.column, fingerprint(c.recipe)) for c in cells}) == len(cells)
    for cell in cells:
        assert revive(json.loads(json.dumps(describe(cell.recipe)))) == cell.recipe


@every_study
def test_every_cell_has_every_seed(name):
    cells = list(STUDIES[name].at("smoke", seeds=3).cells())
    seeds = {}
    for cell in cells:
        seeds.setdefault((cell.row, cell.column), []).append(cell.recipe.seed)
    assert {tuple(sorted(s)) for s in seeds.values()} == {(0, 1, 2)}


@every_study
def test_contrasts_name_columns(name):
    study = STUDIES[name].at("smoke", seeds=1)
    columns = {cell.column for cell in study.cells()}
    assert {column for pair in study.contrasts for column in pair} <= columns


@every_study
def test_smoke_runs_and_reports(name, tmp_path):
    study = STUDIES[name].at("smoke", seeds=1)
    folder = carry_out(study, Machine.of(tmp_path, "cpu", "1"))
    table = (folder / "table.md").read_text()
    for cell in study.cells():
        assert cell.row in table
    assert (folder / "report.html").stat().st_size > 10_000
