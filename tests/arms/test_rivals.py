"""The settings that the study of rivals chose keep what makes its arms comparable."""

import csv
from collections import defaultdict
from pathlib import Path

import pytest

from scripts import script
from selfpretrain.registry import find, name_of, names
from selfpretrain.studies.arms.base import Arm
from selfpretrain.studies.common.table_study import IMAGE, PATHFINDER
from selfpretrain.studies.rivals import ARMS, FURTHER, SERIES, TRANSFORMER, TUNED, Rivals
from selfpretrain.training.cost import COUNTED

LOG = Path(__file__).parents[2] / "docs" / "log.tsv"
tried = script("rivals")
PAID = {arm.column for arm in ARMS if arm.compute == "matched"}


def test_tasks_rows_and_arms_that_are_tuned_exist():
    study = Rivals("small", 1)
    rows = {(label, row.row) for label in study.small_tasks for row in study.rows(label)}
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


def test_on_a_series_every_arm_has_the_best_of_its_trials():
    for row, mixer in ((TRANSFORMER.row, "attention"), ("S4D", "s4d")):
        best = best_of_trials(f"ucr {mixer} ")
        arms = {name_of(arm) for arm in Rivals("small", 1).arms_on(SERIES, row)} - {"scratch"}
        assert best.keys() == {arm for arm in arms if tried.MIXER.get(arm, mixer) == mixer}
        assert best == dict.fromkeys(best, ()) | TUNED[SERIES, row]


def best_of_trials(start):
    """The settings of the best trial of each arm whose lines start so; of two as good the usual ones."""
    found = defaultdict(list)
    with LOG.open() as lines:
        for line in csv.DictReader(lines, delimiter="\t"):
            arm, *settings = line["trial"].removeprefix(start).split()
            if line["trial"].startswith(start) and f" {tried.SERIES} " in line["trial"]:
                own = tuple(each for each in settings if each not in (*tried.SERIES.split(), "seed=1000"))
                found[arm].append((-float(line["val"]), own))
    return {arm: min(trials)[1] for arm, trials in found.items()}


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
