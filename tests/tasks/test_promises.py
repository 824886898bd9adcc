"""What the pages promise of tasks, of their commands and of simple methods."""

import json

import numpy as np
import pytest
import torch

from selfpretrain import import_arrays, load_task
from selfpretrain.cli.app import run
from selfpretrain.config import amended
from selfpretrain.data import download, paths
from selfpretrain.data.importing.options import ImportOptions
from selfpretrain.errors import DataError, SpecError
from selfpretrain.tasks.genes import Genes
from selfpretrain.tasks.imported import Imported
from selfpretrain.tasks.inspect import baselines
from selfpretrain.tasks.inspect.checks import check_data
from selfpretrain.tasks.pathfinder import Pathfinder

pytestmark = pytest.mark.usefixtures("home")

RANDOM = np.random.default_rng(0)


def findings(task, compare=False):
    return {finding.what: finding for finding in check_data(task, compare)}


def test_simple_scores_of_folds_are_those_of_all_answers():
    """Folds of 8, 2 and 4 answers, with 8, 1 and 1 hits."""
    sizes = np.array([8, 2, 4])
    groups = np.repeat(np.arange(3), sizes)
    import_arrays("walks", RANDOM.random((14, 9)), np.arange(14) % 2, groups=groups)
    folds = Imported("walks").with_folds(3).parts()
    tested = np.array([len(fold.load("test")) for fold in folds])
    assert sorted(tested) == sorted(sizes)
    hits = np.array([[3, 1, 1], [2, 0, 2]])
    np.testing.assert_allclose(baselines.pooled(hits / tested, folds), hits.sum(1) / 14)


def test_a_download_that_failed_can_be_repeated(monkeypatch, capsys, home):
    asked = []

    def get(wish, wait):
        asked.append(wish.name)
        paths.writable_path("raw", wish.file).with_name(f".{wish.name}.lock").touch()
        raise DataError("it cannot be reached")

    monkeypatch.setattr(download, "get", get)
    for _ in range(2):
        assert run(["data", "get", "fashion-mnist"]) != 0
    assert len(asked) == 2 and (home / "raw" / "fashion-mnist").is_dir()
    (home / "raw" / "fashion-mnist" / asked[0]).touch()  # the first of four files
    assert run(["data", "get", "fashion-mnist"]) != 0 and len(asked) == 3


def test_another_data_folder_comes_before_the_usual_one(monkeypatch, tmp_path, capsys):
    monkeypatch.delenv(paths.VARIABLE)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "share"))
    import_arrays("visits", RANDOM.random((40, 9)), np.arange(40) % 2)
    assert run(["data", "show", "visits", "--data-root", str(tmp_path / "other")]) == 0


def test_methods_that_learn_from_few_of_many_need_two_classes_there(monkeypatch):
    monkeypatch.setattr(baselines, "MAX_EXAMPLES", 30)
    y = np.array([["a"], ["b"]], dtype=object).repeat([590, 10])[:, None].ravel().tolist()
    y[300:400] = [None] * 100
    import_arrays("rare", RANDOM.integers(0, 9, (600, 12)), y)
    monkeypatch.setattr(baselines, "_at_most", lambda rows, limit, split: rows[:limit])
    assert "simple methods" not in {
        found.what for found in check_data(Imported("rare")) if found.level == "wrong"
    }


def test_changed_files_of_a_prepared_task_are_found(home):
    for part in ("TRAIN", "TEST"):
        file = home / "UCRArchive_2018" / "Waves" / f"Waves_{part}.tsv"
        file.parent.mkdir(parents=True, exist_ok=True)
        np.savetxt(file, np.c_[np.arange(40) % 2, RANDOM.random((40, 9))], delimiter="\t")
    task = load_task("ucr:Waves")
    assert findings(task)["files"].level == "fine"
    file = next(task.folder.glob("targets*"))
    file.write_bytes(file.read_bytes()[:-1] + b"\7")
    assert findings(task)["files"].level == "wrong"


def test_examples_that_contradict_the_commonest_label_are_counted():
    x = RANDOM.integers(0, 9, (40, 12))
    x[:10] = x[0]
    y = np.arange(40) % 2
    import_arrays("odd", x, y, split=["train"] * 20 + ["val"] * 10 + ["test"] * 10)
    assert findings(Imported("odd"))["contradictions"].said.startswith("5 examples have another label")


def test_a_small_run_of_genes_keeps_its_labelled_loci():
    few = Genes(loci=5).tiny()
    assert few.load("train").labelled.sum() < Genes().tiny().load("train").labelled.sum()
    assert Genes(loci=100).tiny().loci == 24 and len(Genes(loci=100).tiny().load("train"))


def test_settings_are_listed_without_data(capsys, monkeypatch):
    monkeypatch.setattr(Pathfinder, "write", None)
    for task in ("pathfinder", "text", "ucr:FordA"):
        assert run(["list", "settings", task, "--json"]) == 0
        assert "pretrain.budget.steps" in json.loads(capsys.readouterr().out)


def test_settings_that_go_together_are_accepted_in_any_order():
    for first, second in (("size", "patch"), ("patch", "size")):
        task = load_task(
            "paths", {first: {"size": 9, "patch": 1}[first], second: {"size": 9, "patch": 1}[second]}
        )
        assert (task.size, task.patch) == (9, 1)
    with pytest.raises(SpecError, match="size=9 is not a multiple of patch=2"):
        load_task("paths", {"size": 9, "seed": 1})
    assert amended(task, {}) is task


def test_a_set_and_the_places_of_its_files_are_shown(capsys):
    assert run(["list", "tasks", "ucr:FordA", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["setting set"] == "'FordA'" and "UCRArchive_2018" in found["files"]


def test_sets_without_validation_are_refused_before_they_are_read(capsys):
    assert run(["compare", "--task", "ucr:PigCVP", "--mixers", "s4d", "--dry-run"]) == 2
    assert "none can be held out for validation" in " ".join(capsys.readouterr().err.split())
    for known, advised in (("FordA", True), ("FordC", False)):
        with pytest.raises(DataError) as caught:
            load_task(f"ucr:{known}").load("train")
        assert ("--from pypi" in str(caught.value)) == advised


def test_labels_beyond_the_longest_position_are_not_counted():
    x = RANDOM.random((40, 9)).astype(np.float32)
    y = np.full((40, 9), None)
    y[:, :4] = np.arange(4) % 2
    y[:20, :4], y[:20, 8] = None, 1
    import_arrays("marks", x, y.tolist(), options=ImportOptions(target="positions"))
    whole, cut = (Imported("marks", longest=longest).load("train") for longest in (None, 5))
    assert whole.labelled.all() and 0 < int(cut.labelled.sum()) < len(cut)
    assert torch.equal(cut.targets, whole.targets[:, :5])
