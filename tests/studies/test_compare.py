"""Rows of a comparison: a mixer that comes twice is told apart by its settings."""

import inspect

import pytest

import toys
from selfpretrain.api import compare, comparison
from selfpretrain.cli.compare import compare as command
from selfpretrain.mixers.s4d import S4D
from selfpretrain.studies.compare import Compare, build_comparison
from selfpretrain.training.cost import Planner


def study(*mixers):
    return build_comparison(toys.Majority(), mixers, "causal", "smoke", 1)


def test_the_study_is_what_the_command_compares_where_nothing_is_chosen():
    chosen = inspect.signature(compare).parameters
    names = ("task", "mixers", "objective", "seeds")
    asked = comparison(*(chosen[name].default for name in names), "smoke", {})
    assert Compare.at_scale("smoke", chosen["seeds"].default) == asked
    given = {name: inspect.signature(command).parameters[name].default for name in names}
    usual = {name: chosen[name].default for name in names}
    assert given == usual | {"mixers": ",".join(usual["mixers"]), "seeds": str(usual["seeds"])}


@pytest.mark.parametrize(
    ("mixers", "rows"),
    [
        ([S4D(init="random")], ["s4d"]),
        ([S4D(), S4D(init="random")], ["s4d", "s4d, init random"]),
        ([S4D(), S4D()], ["s4d 1", "s4d 2"]),
    ],
)
def test_twins_are_told_apart_by_what_is_unusual_or_numbered(mixers, rows):
    assert study(*mixers).rows == rows


def test_the_second_of_two_twins_can_be_amended_alone():
    changed = study(S4D(), S4D()).with_settings({"s4d 2.mixer.init": "random", "s4d 2.model.init": "random"})
    assert [arms.model.mixer.init for arms in changed.arms] == ["lin", "random"]
    assert changed.rows == ["s4d", "s4d, init random, every parameter random"]
    assert {cell.row for cell in changed.cells(Planner("rough"))} == set(changed.rows)
