"""Laws that every study on the shelf keeps; a new file is tested without being named here.

That every one of them runs to its page is a step of its own: ``selfpretrain study all --scale smoke``.
"""

import functools
import json
from dataclasses import replace

import pytest

import paper_data
from engines import run_experiment
from selfpretrain import registry
from selfpretrain.config import from_dict, to_dict
from selfpretrain.mixers.gru import GRU
from selfpretrain.runner.workspace import Workspace
from selfpretrain.studies.arms.autocorrelation import Autocorrelation
from selfpretrain.studies.arms.cnn import Convolutional
from selfpretrain.studies.arms.ensemble import Ensemble
from selfpretrain.studies.arms.mimetic import Mimetic
from selfpretrain.studies.arms.near import Near
from selfpretrain.studies.arms.pooling import OtherPooling
from selfpretrain.studies.base import Study, about, title
from selfpretrain.studies.common.table_study import TableStudy
from selfpretrain.training.cost import Planner
from selfpretrain.training.recipe import fingerprint

STUDIES = {name: registry.find("studies", name) for name in registry.names("studies")}
LONG = ("amos-figure-3", "modern-zoo", "objectives", "rivals", "s4d-or-mamba", "s4d-or-mamba-longer")
"""Studies of so many networks that the others stand for them; all run to their pages in ``.ci/run``."""
every_study = pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] * (name in LONG)) for name in STUDIES]
)


@functools.cache
def cells(name):
    """Those of a study at smoke scale, with two seeds; the length of matched arms does not matter here."""
    return list(STUDIES[name].at_scale("smoke", seeds=2).cells(paper_data.ROUGH))


def parts(mine):
    """The cells of each task."""
    tasks = []
    for cell in mine:
        if cell.recipe.task not in tasks:
            tasks.append(cell.recipe.task)
    return [[cell for cell in mine if cell.recipe.task == task] for task in tasks]


@every_study
def test_recipes_survive_json_and_differ(name):
    mine = [cell for cell in cells(name) if cell.recipe.seed == 0]
    assert isinstance(STUDIES[name].at_scale("smoke", seeds=2), Study)
    assert len({(c.row, c.column, fingerprint(c.recipe)) for c in mine}) == len(mine)
    for cell in mine:
        assert from_dict(json.loads(json.dumps(to_dict(cell.recipe)))) == cell.recipe


OTHER_NETWORKS = {
    arm.column for arm in (OtherPooling, Near, Mimetic, Autocorrelation, Ensemble, Convolutional)
}
"""Columns of the arms whose point is that the network is another one."""


@every_study
def test_tables_are_complete(name):
    """Every cell has every seed, the headline its columns, and a row one architecture (but for causality)."""
    study = STUDIES[name].at_scale("smoke", seeds=2)
    for table in parts(cells(name)):
        seeds, models = {}, {}
        for cell in table:
            seeds.setdefault((cell.row, cell.column), []).append(cell.recipe.seed)
            plain = replace(cell.recipe.model, causal=False, dropout=0.0)
            if cell.column not in OTHER_NETWORKS:
                models.setdefault(cell.row, []).append(plain)
        assert {tuple(sorted(s)) for s in seeds.values()} == {(0, 1)}
        assert set(study.contrasts[0]) <= {column for _, column in seeds}
        assert all(model == first for first, *others in models.values() for model in others)


@every_study
def test_page_says_what_it_must(name):
    sections = about(STUDIES[name].at_scale("smoke", seeds=1))
    if name != "compare":
        assert {"Source", "Protocol", "Expected", "What differs"} <= set(sections)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["compare", "coser-table-4"])
def test_smoke_runs_and_reports(name, tmp_path):
    study = STUDIES[name].at_scale("smoke", seeds=1)
    folder = run_experiment(study.experiment("smoke"), Workspace.of(tmp_path, "cpu", "1")).path
    text = (folder / "report.md").read_text()
    assert all(cell.row in text for cell in study.cells())
    assert (folder / "report.html").stat().st_size > 10_000


@pytest.mark.parametrize("name", [name for name in STUDIES if issubclass(STUDIES[name], TableStudy)])
def test_what_a_study_measures_leaves_further_mixers_out(name):
    study = STUDIES[name].at_scale("smoke", seeds=1)
    more = study.with_mixers((GRU(),))
    rough = Planner(0)  # which counts no step
    assert {label: [cell.recipe for cell in cells] for label, cells in more.own_cells(rough).items()} == {
        label: [cell.recipe for cell in cells] for label, cells in study.cells_by_task(rough).items()
    }


def test_no_study_says_that_its_scores_are_not_drawn():
    assert {study.figure for study in STUDIES.values()} == {"bars", "lines"}


def test_titles_name_the_table_that_is_reproduced_and_no_other():
    assert title(STUDIES["amos-table-8"].at_scale("smoke", 1)).startswith("Amos et al. (2024), Table 8: ")
    assert title(STUDIES["growth"].at_scale("smoke", 1)).startswith("How long may sequences be")
