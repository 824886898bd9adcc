"""Folds by group: every labelled example is tested once, and nobody is on both sides."""

import json

import numpy as np
import pytest

from selfpretrain.cli.app import run
from selfpretrain.data.importing.importer import import_arrays
from selfpretrain.data.spec import SPLITS
from selfpretrain.data.splits import LEFT_OUT, fold_splits
from selfpretrain.errors import DataError, SpecError
from selfpretrain.tasks.imported import Imported
from selfpretrain.training.recipe import fingerprint

FOLDS = 5


def people(random, number=12, each=20):
    """Groups of unequal sizes, three classes, some rows without a label."""
    groups = np.repeat(np.arange(number), random.randint(each // 2, each, number))
    strata = random.randint(0, 3, len(groups))
    return np.where(random.rand(len(groups)) < 0.2, -1, strata), groups


def divided(strata, groups, equal=None, folds=FOLDS):
    equal = np.arange(len(strata)) if equal is None else equal
    return np.stack([fold_splits(strata, groups, equal, folds, fold) for fold in range(folds)])


def test_every_group_is_tested_once_and_whole(random):
    strata, groups = people(random)
    split = divided(strata, groups)
    assert ((split == 2).sum(0) == 1).all()
    for fold in split:
        assert all(len(np.unique(fold[groups == group])) == 1 for group in np.unique(groups))
        assert {*SPLITS} == {SPLITS[number] for number in np.unique(fold)}
        assert 0.1 < (fold == 2).mean() < 0.3


def test_one_group_a_fold(random):
    strata, groups = people(random, number=6)
    split = divided(strata, groups, folds=6)
    assert [len(np.unique(groups[fold == 2])) for fold in split] == [1] * 6
    with pytest.raises(DataError, match="6 groups cannot fill 7 folds"):
        divided(strata, groups, folds=7)


def test_groups_without_a_label_are_never_tested(random):
    strata, groups = people(random)
    strata = np.where(groups == 3, -1, strata)
    assert (divided(strata, groups)[:, groups == 3] == 0).all()


def test_a_copy_of_what_is_tested_is_not_trained_on(random):
    strata, groups = people(random)
    equal = np.arange(len(strata))
    a, b = np.flatnonzero(groups == 0)[0], np.flatnonzero(groups == 5)[0]
    equal[b] = equal[a]
    for fold, plain in zip(divided(strata, groups, equal), divided(strata, groups), strict=True):
        assert {*fold[[a, b]]} - {LEFT_OUT} in ({plain[a]}, {plain[b]}, {max(plain[a], plain[b])})
        assert LEFT_OUT in fold[[a, b]] or plain[a] == plain[b]


def test_a_class_of_one_group_cannot_be_tested(random):
    strata, groups = people(random)
    with pytest.raises(DataError, match="without 1 classes"):
        divided(np.where(groups == 7, 3, strata), groups)


@pytest.fixture
def walks(home, random):
    _, groups = people(random)
    import_arrays("walks", random.rand(len(groups), 30), np.arange(len(groups)) % 3, groups=groups)
    import_arrays("nobody", random.rand(60, 30), np.arange(60) % 3)
    return Imported("walks")


def test_imported_data_come_in_folds(walks):
    folds = walks.with_folds(FOLDS).parts()
    tested = [fold.load("test") for fold in folds]
    assert sum(map(len, tested)) == len(walks.data().whole)
    assert {len(fold.load(split)) > 0 for fold in folds for split in SPLITS} == {True}
    assert len({fold for fold in folds}) == FOLDS and {fold.name for fold in folds} == {"walks"}
    assert walks.parts() == (walks,)
    with pytest.raises(SpecError, match="nobody has no groups"):
        Imported("nobody").with_folds(FOLDS)


def test_a_plan_has_as_many_stages_a_fold(walks, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    asked = ["compare", "--task", "walks", "--mixers", "s4d", "--scale", "smoke", "--dry-run", "--json"]
    assert run([*asked, "--seeds", "2", "--group-folds", "4"]) == 0
    assert [stage["times"] for stage in json.loads(capsys.readouterr().out)["stages"]] == ["8"] * 4
    assert run([*asked, "--task", "digits", "--group-folds", "4"]) == 2
    assert "digits cannot be divided into folds" in " ".join(capsys.readouterr().err.split())


def test_settings_of_imported_data_hold_in_every_fold(walks):
    from selfpretrain.api import comparison

    settings = {"task.labels": 9, "finetune.batch": 4, "scratch.batch": 4}
    study = comparison(walks.with_folds(3), ("s4d",), None, 1, "small", settings)
    recipes = [cell.recipe for cell in study.cells()]
    assert {int(recipe.task.load("train").labelled.sum()) for recipe in recipes} == {9}
    assert len({fingerprint(recipe) for recipe in recipes}) == len(recipes) == 3 * 3
