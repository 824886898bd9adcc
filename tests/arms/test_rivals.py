"""The settings that the study of rivals chose keep what makes its arms comparable."""

from collections import defaultdict

import pytest

from selfpretrain.registry import find, name_of, names
from selfpretrain.studies.arms.base import Arm
from selfpretrain.studies.common.table_study import IMAGE, PATHFINDER
from selfpretrain.studies.rivals import ARMS, FURTHER, TRANSFORMER, TUNED, Rivals
from selfpretrain.training.cost import COUNTED

PAID = {arm.column for arm in ARMS if arm.compute == "matched"}


def test_tasks_rows_and_arms_that_are_tuned_exist():
    study = Rivals("small", 1)
    rows = {(label, row.row) for label in study.tasks for row in study.rows(label)}
    assert TUNED.keys() <= rows
    for arms in TUNED.values():
        assert all(isinstance(find("arms", name)(), Arm) for name in arms)
        # SPT and its augmented form have the settings that were chosen for SPT.
        assert not arms.keys() & {"scratch", "spt", "spt-augmented"}


def test_further_arms_are_left_out_on_small_photographs_alone():
    for scale, label in (("small", IMAGE), ("small", PATHFINDER), ("paper", IMAGE)):
        found = {name_of(arm) for arm in Rivals(scale, 1).arms_on(label)}
        left_out = {*FURTHER} if (scale, label) == ("small", IMAGE) else set()
        assert found == {*names("arms")} - left_out


def test_on_curves_every_arm_but_those_of_pretraining_is_tuned():
    of_row = TUNED[PATHFINDER, TRANSFORMER.row].keys() | TUNED[PATHFINDER, "S4D"].keys()
    untuned = {name_of(arm) for arm in ARMS} - of_row
    assert untuned == {"scratch", "spt", "spt-augmented"}


@pytest.mark.parametrize(
    "label",
    [
        pytest.param(label, marks=[pytest.mark.slow] * (label != "Text"))
        for label in dict.fromkeys(label for label, _ in TUNED)
    ],
)
def test_tuned_arms_spend_what_self_pretraining_spends(label):
    study = Rivals("small", 1)
    tasks = study.available_tasks(COUNTED)
    if label not in tasks:
        pytest.skip(f"{label} needs data that are not here")
    flops = defaultdict(dict)
    for cell in study.task_cells(label, tasks[label]):
        flops[cell.row][cell.column] = COUNTED.total(cell.recipe)
    for of_row in flops.values():
        for column in of_row.keys() & PAID:
            assert of_row[column] == pytest.approx(of_row["SPT"], rel=0.01), column
