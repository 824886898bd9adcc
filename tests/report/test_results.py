"""Folders of experiments are read as they are, and broken ones are told apart."""

import json
import os
import shutil
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from selfpretrain.cli.app import run
from selfpretrain.errors import ForeignRun, StoreError
from selfpretrain.report import results
from selfpretrain.report.analysis import TaskAnalysis, analyse_task
from selfpretrain.report.caveats import caveats
from selfpretrain.system.files import read_json, write_json


def result(folder, name="toy-attention-SPT-0-classify"):
    return folder.parent / "stages" / name / "result.json"


def alone(folder):
    (task,) = results.read(folder).tasks
    return task


def test_a_whole_study(make, scene):
    study = alone(make(scene()))
    assert study.rows == ["attention", "s4d"]
    assert study.columns == ["scratch", "scratch (matched)", "SPT"]
    assert (len(study.cells), study.missing) == (18, 0)
    cell = study.at("attention", "SPT")[1]
    assert [stage.objective for stage in cell.stages] == ["masked", "classify"]
    assert cell.flops == pytest.approx(2.3e12) and cell.seconds == pytest.approx(22.4 + 32.2)
    assert len(cell.scored.curve) == 20 and cell.scored.curve[-1].step == 600
    assert cell.scored.environment["device"] == "cpu"
    kept = cell.scored.predictions
    assert kept is not None and (kept.prediction == kept.target).mean() == cell.score


def test_missing_cells_are_counted(make, scene):
    study = alone(make(scene(missing=frozenset({("s4d", "SPT", 1)}))))
    assert study.missing == 1
    assert sorted(study.at("s4d", "SPT")) == [0, 2]
    folder = make(scene())
    result(folder, "toy-attention-SPT-0-masked").unlink()  # a cell counts only with all its stages
    assert results.read(folder).missing == 1


DAMAGE = [
    ('{"format": 1, "cel', "is damaged"),
    ("[1, 2]", "is damaged"),
    ('{"format": 99}', "written in format 99"),
]


@pytest.mark.parametrize(("text", "said"), DAMAGE)
@pytest.mark.parametrize("which", ["study", "result"])
def test_broken_and_foreign_json(make, scene, which, text, said):
    folder = make(scene())
    path = folder / "study.json" if which == "study" else result(folder)
    path.write_text(text)
    with pytest.raises(StoreError if "damaged" in said else ForeignRun, match=said) as caught:
        results.read(folder)
    assert str(path.name) in str(caught.value) and "\n" not in str(caught.value)


def test_studies_are_found_newest_first(tmp_path):
    for age, name in enumerate(["new", "old", "older"]):
        path = tmp_path / name / "study.json"
        path.parent.mkdir()
        path.write_text("{}")
        os.utime(path, (1000 - age, 1000 - age))
    (tmp_path / "stages").mkdir()
    assert [path.name for path in results.experiments(tmp_path)] == ["new", "old", "older"]
    assert results.experiments(tmp_path / "old") == [tmp_path / "old"]
    for name, said in {"stages": "run one first", "nothing": "there is no folder"}.items():
        with pytest.raises(StoreError, match=said):
            results.experiments(tmp_path / name)
    with pytest.raises(StoreError, match=r"holds no study\.json"):
        results.read(tmp_path)


def test_a_relative_folder_finds_its_stages(make, scene, monkeypatch):
    folder = make(scene(seeds=1))
    monkeypatch.chdir(folder)
    assert results.read(Path(".")).missing == 0


def test_a_folder_moved_away_from_its_stages_is_refused_and_its_report_kept(make, scene, tmp_path, capsys):
    folder = make(scene(seeds=1))
    assert run(["report", str(folder)]) == 0
    alone = tmp_path / "elsewhere" / "alone"
    shutil.copytree(folder, alone)
    before = (alone / "report.html").read_bytes()
    assert run(["report", str(alone)]) == 1
    assert "none of its stages is in" in capsys.readouterr().err
    assert (alone / "report.html").read_bytes() == before
    (alone / "report.html").unlink()  # as a run leaves it that was stopped at once
    assert results.read(alone).state == "not run"


def test_a_damaged_study_does_not_keep_the_pages_of_others_from_being_written(make, scene, capsys):
    folder = make(scene(seeds=1))
    broken = folder.with_name("broken")
    broken.mkdir()
    (broken / "study.json").write_text("{")
    assert run(["report", str(folder.parent)]) == 1
    assert str(broken) in capsys.readouterr().err
    assert (folder / "report.html").exists()


def test_a_log_survives_a_kill_and_a_repeat(make, scene):
    folder = make(scene(seeds=1))
    log = result(folder).with_name("log.jsonl")
    again = json.dumps({"kind": "val", "step": 600, "score": 0.5})
    log.write_text(log.read_text() + '{"kind": "val", "st\n' + again + "\n")
    curve = alone(folder).at("attention", "SPT")[0].scored.curve
    assert len(curve) == 20 and (curve[-1].step, curve[-1].score) == (600, 0.5)


def test_broken_predictions(make, scene):
    folder = make(scene())
    result(folder).with_name("predictions.safetensors").write_bytes(b"no")
    with pytest.raises(StoreError, match=r"predictions\.safetensors is damaged"):
        analyse_task(alone(folder))


def test_arms_tested_on_different_examples_are_not_compared(make, scene):
    folder = make(scene())
    path = result(folder).with_name("predictions.safetensors")
    kept = load_file(path)
    moved = {name: np.ascontiguousarray(np.roll(values, 1)) for name, values in kept.items()}
    save_file(moved, path)  # the same score on the same examples in another order
    with pytest.raises(StoreError, match="tested on different examples"):
        analyse_task(alone(folder))


@pytest.mark.parametrize(
    "change",
    [
        lambda task: task["metric"].update(digits=10**9),
        lambda task: task["metric"].update(digits=-1),
        lambda task: task["metric"].update(factor=float("inf")),
        lambda task: task["metric"].update(tie=float("nan")),
        lambda task: task["cells"][0].update(folders=["/etc"]),
        lambda task: task["cells"][0].update(folders=["stages/../../another"]),
    ],
)
def test_what_a_stranger_claims_is_not_believed(make, scene, edit, change):
    folder = make(scene())
    edit(folder / "study.json", lambda content: change(content["tasks"][0]))
    with pytest.raises(StoreError, match=r"cannot be shown with|no stages in its folder"):
        results.read(folder)


@pytest.mark.parametrize("kind", ["classes", "reals"])
@pytest.mark.parametrize("name", ["score", "accuracy", "r2"])
def test_a_score_that_its_predictions_do_not_give_is_refused(make, scene, edit, kind, name):
    folder = make(scene(kind=kind))
    edit(result(folder), lambda content: content["scores"]["test"].update({name: 0.99}))
    if (name, kind) in (("r2", "classes"), ("accuracy", "reals")):
        assert results.read(folder).missing == 0  # nobody claims that it is what is measured
        return
    with pytest.raises(StoreError, match=f"it says {name} 0.99, its predictions give 0") as caught:
        results.read(folder)
    assert "delete this one file, result.json, and run again" in str(caught.value)


def test_the_result_of_another_stage_is_refused(make, scene):
    folder = make(scene())
    shutil.copy(result(folder, "toy-s4d-SPT-0-classify"), result(folder))
    with pytest.raises(StoreError, match="it is the result of another stage"):
        results.read(folder)


def test_files_of_another_training_are_refused(make, scene):
    folder = make(scene())
    recipe = result(folder).with_name("recipe.json")
    write_json(recipe, read_json(recipe))  # with a digest, as every file beside a result that names digests
    for name in ("log.jsonl", "predictions.safetensors"):
        write_json(result(folder), read_json(result(folder)) | {"files": {name: "0" * 64}})
        with pytest.raises(StoreError, match=rf"{name} is damaged"):
            _ = alone(folder).at("attention", "SPT")[0].scored.curve


def test_predictions_of_another_metric_are_not_used(make, scene, edit):
    folder = make(scene())
    edit(result(folder), lambda content: content.update(objective="mylab:Ranked"))
    edit(result(folder), lambda content: content["scores"]["test"].update(score=0.9))
    analysis: TaskAnalysis = analyse_task(alone(folder))
    found = {(gain.a[0], gain.b[1]): gain.estimate for gain in analysis.gains}
    assert found["attention", "scratch"].over_examples is None
    assert found["s4d", "scratch"].over_examples > 0
    assert any("choice of test examples is not counted" in line for line in caveats([analysis]))


@pytest.mark.parametrize("kind", ["classes", "reals"])
def test_the_choice_of_examples_adds_to_the_interval(make, scene, kind):
    gain = analyse_task(alone(make(scene(kind=kind)))).headline[0].estimate
    assert gain.over_examples is not None and 0.004 < gain.over_examples < 0.06
    assert gain.half > gain.over_seeds


@pytest.mark.parametrize(
    ("groups", "said"), [(0, False), (1, True), (4, True), (5, False)], ids=["none", "one", "few", "enough"]
)
def test_few_groups_in_the_test_split_are_told(make, scene, groups, said):
    lines = " ".join(caveats([analyse_task(alone(make(scene(groups=groups))))]))
    assert said == (f"The 1600 test examples are of {groups} group" in lines)
    assert (said and groups > 1) == ("take each group as one observation, so they are wide" in lines)
    assert (groups == 1) == ("Intervals hold for seeds alone: of one group" in lines)
    assert "test predictions were not kept" not in lines


def test_the_class_that_is_written_is_the_class_that_is_read(make, scene):
    folder = make(scene(task="digits", seeds=1), scene(task="bidmc", seeds=1, label="BIDMC"))
    before = results.read(folder)
    write_json(folder / "study.json", before.to_json())
    assert results.read(folder) == before and results.read_plan(folder) != before
    assert [task.label for task in results.read(folder).tasks] == ["digits", "BIDMC"]


def test_numbers_of_papers_are_shown(make, scene, edit, paper):
    number = paper("S4", 87.72)
    folder = make(scene(seeds=2, test=50, reported={("s4d", "SPT"): number}), name="toy-table")
    stage_results = results.read(folder).cells
    assert {cell.reported.value for cell in stage_results if cell.reported} == {87.72}
    assert results.read(folder).tasks[0].reported("s4d", "SPT").table == "Table 8"
    edit(folder / "study.json", lambda content: content["tasks"][0]["cells"][-1]["reported"].pop("table"))
    with pytest.raises(StoreError, match=r"reported\.table: Field required"):
        results.read(folder)


MEASURE = {"title": "Distance", "x": "block", "y": "positions"}
UNEQUAL = MEASURE | {"series": [{"label": "a", "x": [1], "y": []}]}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda c: c.update(figure="pie"), "figure: Input should be 'none', 'bars' or 'lines'"),
        (lambda c: c.update(tasks=[]), "at least one task"),
        (lambda c: c["tasks"][0].update(cells=[]), "at least one cell"),
        (lambda c: c["tasks"][0]["metric"].pop("tie"), r"study\.json: tasks\.0\.metric\.tie: Field required"),
        (lambda c: c.update(measures=[{"title": "x"}]), r"measures\.0\.x: Field required"),
        (lambda c: c.update(measures=[UNEQUAL]), "as many x as y"),
    ],
)
def test_broken_records(make, scene, edit, change, words):
    folder = make(scene(seeds=1, test=50))
    edit(folder / "study.json", change)
    with pytest.raises(StoreError, match=words) as caught:
        results.read(folder)
    assert "\n" not in str(caught.value)


def test_optional_fields_may_be_left_out(make, scene, edit):
    """Curves may be lists of whole numbers, too."""
    measure = MEASURE | {"series": [{"label": "before", "x": [0, 1], "y": [3, 4.1]}]}
    folder = make(scene(seeds=1, test=50), measures=[measure])
    edit(folder / "study.json", lambda content: content.pop("about"))
    found = results.read(folder)
    assert found.measures[0].series[0].y == (3.0, 4.1) and (found.asked, found.about) == (0, {})
