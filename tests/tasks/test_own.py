"""Imported data under their names: in every command, in parts, and when they are gone."""

import dataclasses

import numpy as np
import pytest

from selfpretrain import registry
from selfpretrain.data.importing.importer import import_arrays
from selfpretrain.data.paths import imported_datasets
from selfpretrain.data.spec import SPLITS
from selfpretrain.errors import DataError, SpecError
from selfpretrain.tasks.imported import Imported

pytestmark = pytest.mark.usefixtures("home")


def waves(random, n=400, length=600):
    return {"x": random.rand(n, length), "y": np.arange(n) % 4}


def test_a_name_works_like_that_of_a_task_and_its_tiny_form_is_a_part(random):
    import_arrays("waves", **waves(random))
    task = registry.find("tasks", "waves")()
    assert task == Imported("waves")
    assert registry.name_of(task) == "waves"
    assert [len(task.load(split)) for split in SPLITS] == [280, 60, 60]
    with pytest.raises(SpecError, match="did you mean 'waves'"):
        registry.find("tasks", "wave")
    tiny = task.tiny()
    assert tiny.form == dataclasses.replace(task.form, length=512)
    assert [len(tiny.load(split)) for split in SPLITS] == [200, 50, 50]
    for split in SPLITS:
        assert tiny.load(split).targets.bincount().float().std() < 2
        whole = {task.load(split).sequence(row)[:512].tobytes() for row in range(len(task.load(split)))}
        assert all(tiny.load(split).sequence(row).tobytes() in whole for row in range(50))
    assert tiny.version() == f"{task.version()} of train alone"


def test_a_label_budget_must_fit(random):
    import_arrays("waves", **waves(random, 60, 5))
    assert int(Imported("waves", labels=7).load("train").labelled.sum()) == 7
    with pytest.raises(SpecError, match="44 training examples"):
        Imported("waves", labels=45).load("train")
    with pytest.raises(SpecError, match="at least 4"):
        Imported("waves", labels=2).load("train")


def test_the_version_follows_the_data_in_whatever_folder(random, home, tmp_path, monkeypatch):
    arrays = waves(random, 60, 5)
    import_arrays("waves", **arrays)
    version = Imported("waves").version()
    monkeypatch.setenv("SELFPRETRAIN_DATA", f"{tmp_path / 'other'}:{home}")
    assert Imported("waves").version() == version
    monkeypatch.setenv("SELFPRETRAIN_DATA", str(home))
    import_arrays("waves", **arrays)
    assert Imported("waves").version() == version
    import_arrays("waves", **arrays | {"x": arrays["x"] + 1})
    assert Imported("waves").version() != version


def test_data_that_are_not_there(random, home):
    with pytest.raises(DataError, match=r"no data called 'waves' have been imported"):
        Imported("waves").load("train")
    import_arrays("waves", **waves(random, 60, 5))
    with pytest.raises(DataError, match="did you mean 'waves'"):
        Imported("wave").load("train")
    (home / "own" / "half.part").mkdir()
    (home / "own" / "half.part" / "meta.json").write_text("{}")
    assert list(imported_datasets()) == ["waves"]
