"""Comparisons that add seeds until they are decided: which stages they train, resumed and killed ones too."""

import json
import re
from dataclasses import replace

import pytest

import toys
from engines import run_experiment, trained
from selfpretrain import api
from selfpretrain.api import Request, comparison, run_request
from selfpretrain.errors import Interrupted, SpecError
from selfpretrain.report import analysis
from selfpretrain.report.sequential import SequentialDesign
from selfpretrain.runner import sequential
from selfpretrain.runner.experiment import Finished
from selfpretrain.runner.experiment_dir import ExperimentFolder
from selfpretrain.runner.workspace import Workspace
from selfpretrain.studies.common.plots import due_runs, mean_score
from selfpretrain.system.events import listen

DESIGN = SequentialDesign(2, 4)
FAKE = {"linear": (0.3001, 0.3), "s4d": (0.3, -0.3)}
"""Gain of SPT in even and odd seeds: decided at the first analysis, and never."""


def fake_score(cell):
    """The test score, as if training had gone so; all else is real."""
    gain = FAKE[cell.row][cell.seed % 2] if cell.column == "SPT" else 0.0
    return 0.5 + gain


@pytest.fixture(autouse=True)
def fake_spread(monkeypatch):
    monkeypatch.setattr(analysis, "score_of", fake_score)


def request(**changes):
    # Of equal lengths, whose FLOPs are counted sooner.
    study = comparison(toys.Majority(shortest=24), ("linear", "s4d"), "causal", DESIGN.last, "smoke", {})
    return Request(study, "smoke", design=DESIGN, **changes)


def workspace(folder, **settings):
    return Workspace(folder, quiet=True, **settings)


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    """A folder in which the comparison has been run; to be read only."""
    with pytest.MonkeyPatch.context() as patch:
        toys.settle()
        patch.setattr(analysis, "score_of", fake_score)
        heard = []
        with listen(lambda event: heard.append(event) if event.kind == "interim" else None):
            found = run_request(request(), workspace(tmp_path_factory.mktemp("done") / "runs"))
    return found, heard


def seeds_by_row(results):
    found = {}
    for cell in results.cells:
        assert cell.finished
        found.setdefault((cell.row, cell.column), []).append(cell.seed)
    return found


def test_what_is_decided_gets_no_further_seeds(done):
    results, heard = done
    found = seeds_by_row(results)
    assert {place: len(seeds) for place, seeds in found.items()} == {
        (row, column): 2 if row == "linear" else 4
        for row in FAKE
        for column in ("scratch", "scratch (matched)", "SPT")
    }
    stages = list((results.folder.parent / "stages").glob("*/result.json"))
    assert len(stages) == (2 + 4) * 4
    assert [(event.name, event.done, event.total) for event in heard] == [("s4d", 2, 4), ("s4d", 3, 4)]
    (task,) = json.loads((results.folder / "study.json").read_text())["tasks"]
    assert task["design"] == {"first": 2, "last": 4}
    page = (results.folder / "report.md").read_text()
    gains = re.findall(r"^\| (\w+) +\| SPT . scratch \(matched\) +\| \w+ +\| +(\d) \|", page, re.MULTILINE)
    assert dict(gains) == {"linear": "2", "s4d": "4"}
    assert "2 to 4 of at most 4 seeds" in page
    fixed, sequential_one = (
        api.plan_request(each).plan.experiment for each in (replace(request(), design=None), request())
    )
    assert fixed.folder != sequential_one.folder == results.folder.name


def test_the_same_command_trains_nothing_and_changes_nothing(done, monkeypatch):
    results, _ = done
    before = {path.name: path.read_bytes() for path in results.folder.iterdir() if path.is_file()}
    names = trained(monkeypatch)
    again = run_request(request(), workspace(results.folder.parent))
    assert not names and again.folder == results.folder
    assert before == {path.name: path.read_bytes() for path in results.folder.iterdir() if path.is_file()}


@pytest.mark.slow
@pytest.mark.parametrize("stops", [30, 60])
def test_a_run_that_was_stopped_in_an_analysis_ends_as_one_that_was_not(stops, done, tmp_path):
    results, _ = done
    asked = iter(range(10**9))
    with pytest.raises(Interrupted):
        here = workspace(tmp_path / "runs", stop=lambda: next(asked) >= stops)
        run_experiment(request().experiment(), here)
    found = run_request(request(), workspace(tmp_path / "runs"))
    assert found.folder.name == results.folder.name
    assert scores(found) == scores(results)
    stages = {path.parent.name for path in (tmp_path / "runs" / "stages").glob("*/result.json")}
    assert stages == {path.parent.name for path in (results.folder.parent / "stages").glob("*/result.json")}


def scores(results):
    return [(cell.row, cell.column, cell.seed, cell.score) for cell in results.cells]


def test_the_verdict_comes_before_the_columns_that_it_does_not_need():
    cells = request().experiment().headline_cells()
    assert [cell.recipe.seed for cell in cells] == sorted(cell.recipe.seed for cell in cells)
    assert [cell.column for cell in cells[:4]] == ["SPT", "SPT", "scratch (matched)", "scratch (matched)"]


def test_a_dry_run_says_how_many_seeds_a_gain_takes(done, tmp_path):
    results, _ = done

    def notes(folder):
        here = workspace(folder)
        return api.forecast_request(api.plan_request(request()), here).notes

    assert "4 seeds are the most; to the first interim analysis, at 2 seeds" in notes(tmp_path)[0]
    assert "which no results of these arms show" in notes(tmp_path)[1]
    known = notes(results.folder.parent)
    assert len(known) == 3 and known[1].startswith("linear: seeds to a verdict for a gain of 2.0 points")
    assert "of 2 seeds, is" in known[1] and "of 4 seeds, is" in known[2]


def test_what_cannot_be_decided_by_results_is_refused(tmp_path):
    with pytest.raises(SpecError, match="--only"):
        request(only="linear/SPT").experiment()
    with pytest.raises(SpecError, match="without --detach"):
        api.submit_request(request(), workspace(tmp_path))


def test_curves_are_means_over_the_seeds_that_were_due(done):
    results, _ = done
    here = workspace(results.folder.parent)
    plan = api.plan_request(request()).plan
    folder = sequential.reached(ExperimentFolder(plan, here))
    finished = Finished(here, frozenset(cell.stages[-1] for cell in folder.experiment.cells))
    for row, seeds in (("linear", 2), ("s4d", 4)):
        recipe = next(
            cell.recipe for cell in plan.experiment.cells if (cell.row, cell.column) == (row, "SPT")
        )
        assert [run.seed for run in due_runs(finished, recipe, 4)] == list(range(seeds))
        assert 0 <= mean_score(finished, recipe, 4) <= 100
    assert len(due_runs(Finished(here), recipe, 4)) == 4
