"""The schema of recipes takes what ``spt run`` takes, and refuses what it refuses."""

import copy
import json
from typing import Any

import jsonschema
import pytest

from selfpretrain import registry
from selfpretrain.cli import app
from selfpretrain.config import id_of, to_dict
from selfpretrain.training.cost import Planner
from selfpretrain.training.schema import json_schema

NAMES = ["amos-table-1", "coser-table-4"]


@pytest.fixture(scope="module")
def schema() -> jsonschema.Draft202012Validator:
    made = json_schema()
    jsonschema.Draft202012Validator.check_schema(made)
    return jsonschema.Draft202012Validator(made)


def recipes(study: str) -> list[Any]:
    cells = registry.find("studies", study).at_scale("smoke", 1).cells(Planner("rough"))
    return [json.loads(json.dumps(to_dict(cell.recipe))) for cell in cells]


@pytest.mark.parametrize("study", NAMES)
def test_every_recipe_of_a_study_fits(study: str, schema: jsonschema.Draft202012Validator) -> None:
    for plain in {json.dumps(found): found for found in recipes(study)}.values():
        schema.validate({"format": 1} | plain)


def test_what_is_wrong_is_refused(schema: jsonschema.Draft202012Validator) -> None:
    (right, *_) = recipes("amos-table-1")
    for where, wrong in {
        ("seed",): -1,
        ("model", "width"): "wide",
        ("model", "mixer"): {"is": "selfpretrain.mixers.nosuch:NoSuch"},
        ("stages",): 3,
        ("colour",): "blue",
    }.items():
        broken = copy.deepcopy(right)
        place = broken
        for step in where[:-1]:
            place = place[step]
        place[where[-1]] = wrong
        assert not schema.is_valid(broken), where
    right["model"]["mixer"] = {"is": "mylab.mixers:Mean", "anything": 1}
    schema.validate(right)


def test_all_of_every_shelf_is_there(schema: jsonschema.Draft202012Validator) -> None:
    text = json.dumps(schema.schema)
    for shelf in ("mixers", "tasks", "objectives"):
        assert all(f'"{id_of(registry.find(shelf, name))}"' in text for name in registry.names(shelf))


def test_the_verb_writes_it(tmp_path, capsys) -> None:
    assert app.run(["schema", "--output", str(tmp_path / "recipe.json")]) == 0
    assert json.loads((tmp_path / "recipe.json").read_text()) == json_schema()
    capsys.readouterr()
