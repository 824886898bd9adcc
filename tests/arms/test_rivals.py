"""The settings that the study of rivals chose keep what makes its arms comparable."""

from collections import defaultdict

import pytest

from selfpretrain.registry import find, name_of
from selfpretrain.studies.arms.base import Arm
from selfpretrain.studies.common.table_study import PATHFINDER
from selfpretrain.studies.rivals import ARMS, LONGER, TRANSFORMER, TUNED, Rivals
from selfpretrain.training.cost import COUNTED

PAID = {arm.column for arm in ARMS if arm.compute == "matched"}


def test_every_arm_that_is_tuned_exists():
    assert TUNED.keys() == {TRANSFORMER.row, LONGER.row}
    for arms in TUNED.values():
        assert all(isinstance(find("arms", name)(), Arm) for name in arms)
    # SPT and its augmented form have the settings of the demonstration, which were chosen for SPT.
    untuned = {name_of(arm) for arm in ARMS} - TUNED[TRANSFORMER.row].keys()
    assert untuned == {"scratch", "spt", "spt-augmented"}


def test_tuned_arms_spend_what_self_pretraining_spends():
    study = Rivals("small", 1)
    task = study.available_tasks()[PATHFINDER]
    flops = defaultdict(dict)
    for cell in study.task_cells(PATHFINDER, task):
        flops[cell.row][cell.column] = COUNTED.total(cell.recipe)
    for of_row in flops.values():
        for column in of_row.keys() & PAID:
            assert of_row[column] == pytest.approx(of_row["SPT"], rel=0.01), column
