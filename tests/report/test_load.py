"""Study folders are read as they are, and broken ones are told apart."""

import json
import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from selfpretrain.errors import ForeignRun, StoreError
from selfpretrain.report import old_results as results
from selfpretrain.report.analysis import analyse
from selfpretrain.report.caveats import remarks


def result(folder: Path, name: str = "toy-attention-SPT-0-classify") -> Path:
    return folder.parent / "stages" / name / "result.json"


def test_a_whole_study(make: Callable, scene: type) -> None:
    study = results.study(make(scene()))
    assert study.rows == ["attention", "s4d"]
    assert study.columns == ["scratch", "scratch, tied", "SPT"]
    assert (len(study.cells), study.missing) == (18, 0)
    cell = study.at("attention", "SPT")[1]
    assert [stage.objective for stage in cell.stages] == ["masked", "classify"]
    assert cell.flops == pytest.approx(2.3e12) and cell.seconds == pytest.approx(22.4 + 32.2)
    assert len(cell.scored.curve) == 20 and cell.scored.curve[-1].step == 600
    assert cell.scored.environment["device"] == "cpu"
    kept = cell.scored.predictions
    assert kept is not None and (kept.prediction == kept.target).mean() == cell.score


def test_missing_cells_are_counted(make: Callable, scene: type) -> None:
    study = results.study(make(scene(missing=frozenset({("s4d", "SPT", 1)}))))
    assert study.missing == 1
    assert sorted(study.at("s4d", "SPT")) == [0, 2]


def test_a_cell_counts_only_with_all_its_stages(make: Callable, scene: type) -> None:
    folder = make(scene())
    result(folder, "toy-attention-SPT-0-masked").unlink()
    assert results.study(folder).missing == 1


@pytest.mark.parametrize("text", ['{"format": 1, "cel', "[1, 2]", ""])
@pytest.mark.parametrize("which", ["study", "result"])
def test_broken_json(make: Callable, scene: type, which: str, text: str) -> None:
    folder = make(scene())
    path = folder / "study.json" if which == "study" else result(folder)
    path.write_text(text)
    with pytest.raises(StoreError, match="is broken") as caught:
        results.study(folder)
    assert str(path.name) in str(caught.value) and "\n" not in str(caught.value)


def test_a_missing_field_is_named(make: Callable, scene: type, edit: Callable) -> None:
    folder = make(scene())
    edit(folder / "study.json", lambda content: content["metric"].pop("tie"))
    with pytest.raises(StoreError, match=r"study\.json: metric\.tie: Field required"):
        results.study(folder)


@pytest.mark.parametrize("which", ["study", "result"])
def test_another_format_is_foreign(make: Callable, scene: type, edit: Callable, which: str) -> None:
    folder = make(scene())
    path = folder / "study.json" if which == "study" else result(folder)
    edit(path, lambda content: content.update(format=2))
    with pytest.raises(ForeignRun, match="has format 2, this version reads 1"):
        results.study(folder)


def test_no_study_and_no_cells(tmp_path: Path, make: Callable, scene: type, edit: Callable) -> None:
    with pytest.raises(StoreError, match=r"holds no study\.json"):
        results.study(tmp_path)
    folder = make(scene())
    edit(folder / "study.json", lambda content: content.update(cells=[]))
    with pytest.raises(StoreError, match="at least one cell"):
        results.study(folder)


def test_studies_are_found_newest_first(tmp_path: Path) -> None:
    for age, name in enumerate(["new", "old", "older"]):
        path = tmp_path / name / "study.json"
        path.parent.mkdir()
        path.write_text("{}")
        os.utime(path, (1000 - age, 1000 - age))
    (tmp_path / "stages").mkdir()
    assert [path.name for path in results.studies(tmp_path)] == ["new", "old", "older"]
    assert results.studies(tmp_path / "old") == [tmp_path / "old"]


def test_no_studies_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="run one first"):
        results.studies(tmp_path)
    with pytest.raises(StoreError, match="there is no folder"):
        results.studies(tmp_path / "nothing")


def test_a_relative_folder_finds_its_stages(
    make: Callable, scene: type, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = make(scene(seeds=1))
    monkeypatch.chdir(folder)
    assert results.study(Path(".")).missing == 0


def test_a_log_survives_a_kill_and_a_repeat(make: Callable, scene: type) -> None:
    folder = make(scene(seeds=1))
    log = result(folder).with_name("log.jsonl")
    again = json.dumps({"kind": "val", "step": 600, "score": 0.5})
    log.write_text(log.read_text() + '{"kind": "val", "st\n' + again + "\n")
    curve = results.study(folder).at("attention", "SPT")[0].scored.curve
    assert len(curve) == 20 and curve[-1] == results.Point(600, 0.5)


def test_broken_predictions(make: Callable, scene: type) -> None:
    folder = make(scene())
    result(folder).with_name("predictions.safetensors").write_bytes(b"no")
    with pytest.raises(StoreError, match=r"predictions\.safetensors is broken"):
        analyse(results.study(folder))


def test_arms_tested_on_different_examples_are_not_compared(make: Callable, scene: type) -> None:
    folder = make(scene())
    path = result(folder).with_name("predictions.safetensors")
    kept = load_file(path)
    moved = {name: np.ascontiguousarray(np.roll(values, 1)) for name, values in kept.items()}
    save_file(moved, path)  # the same score on the same examples in another order
    with pytest.raises(StoreError, match="tested on different examples"):
        analyse(results.study(folder))


def test_predictions_that_do_not_give_the_score_are_not_used(
    make: Callable, scene: type, edit: Callable
) -> None:
    folder = make(scene())
    edit(result(folder), lambda content: content["scores"]["test"].update(score=0.9))
    analysis = analyse(results.study(folder))
    found = {(gain.a[0], gain.b[1]): gain.estimate for gain in analysis.gains}
    assert found["attention", "scratch"].example_error is None
    assert found["s4d", "scratch"].example_error > 0
    assert any("choice of test examples is not counted" in line for line in remarks(analysis))


@pytest.mark.parametrize("kind", ["classes", "reals"])
def test_example_error_adds_to_the_interval(make: Callable, scene: type, kind: str) -> None:
    gain = analyse(results.study(make(scene(kind=kind)))).headline[0].estimate
    assert gain.example_error is not None and 0.002 < gain.example_error < 0.03
    assert gain.half > gain.over_seeds
