"""The study of objectives: equal compute for every column, and a control of its own direction for each."""

import pytest

import toys
from selfpretrain.errors import SpecError
from selfpretrain.studies.objectives import BOTH_WAYS, CONTROLS, OBJECTIVES, Objectives
from selfpretrain.studies.recipes.arms import MATCHED
from selfpretrain.training.cost import COUNTED


def test_every_column_has_the_compute_of_causal_pretraining_and_a_control_of_its_direction():
    study = Objectives.at_scale("small", 1)
    row = study.architectures[0]
    task = toys.Majority(length=16, shortest=16, examples=120)
    found = study.recipes("Pathfinder", task, row, COUNTED)
    assert list(found) == [*CONTROLS, *OBJECTIVES]
    spent = {column: COUNTED.total(recipe) for column, recipe in found.items()}
    assert spent == pytest.approx(dict.fromkeys(found, spent[MATCHED]), rel=0.01)
    assert len(study.contrasts) == len(OBJECTIVES)
    for column, control in study.contrasts:
        assert found[column].model.causal == found[control].model.causal == (control != BOTH_WAYS)


def test_there_is_no_paper_scale():
    with pytest.raises(SpecError, match="use --scale small"):
        Objectives.at_scale("paper", 1)
