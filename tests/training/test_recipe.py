"""Recipes: complete, comparable, and safe to read back."""

import dataclasses
import json

import pydantic
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import toys
from selfpretrain.config import explain, from_dict, to_dict, with_setting
from selfpretrain.errors import SpecError, UnknownName
from selfpretrain.mixers.attention import Attention
from selfpretrain.objectives.causal import Causal
from selfpretrain.objectives.classify import Classify
from selfpretrain.objectives.masked import Masked
from selfpretrain.registry import find, name_of
from selfpretrain.training import recipe as recipes
from selfpretrain.training.model import Model
from selfpretrain.training.optim import Optim
from selfpretrain.training.recipe import Budget, Recipe, Stage, fingerprint
from selfpretrain.training.transfer import QUERIES_AND_KEYS

RECIPE = Recipe(
    toys.Majority(),
    Model(Attention()),
    (Stage(Masked(), Budget(steps=5)), Stage(Classify(), Budget(epochs=2))),
)
rates = st.floats(1e-6, 1.0, allow_nan=False)


@given(lr=rates, rate=rates, seed=st.integers(0, 2**31), width=st.integers(1, 512))
@settings(max_examples=30, deadline=None)
def test_recipes_survive_json_and_keep_their_fingerprint(lr, rate, seed, width):
    stage = Stage(Masked(rate), Budget(steps=3), Optim(lr=lr), transfer=QUERIES_AND_KEYS, freeze=("head.*",))
    recipe = Recipe(toys.Majority(), Model(Attention(), width=width), (stage, RECIPE.last), seed)
    back = from_dict(json.loads(json.dumps(to_dict(recipe))), ("toys",))
    assert back == recipe
    assert fingerprint(back) == fingerprint(recipe)


def every_change(thing, path=()):
    """Every recipe that differs from the given one in one number, word or switch."""
    for field in dataclasses.fields(thing):
        value = getattr(thing, field.name)
        if dataclasses.is_dataclass(value):
            for changed in every_change(value):
                yield dataclasses.replace(thing, **{field.name: changed})
        elif type(value) is bool:
            yield dataclasses.replace(thing, **{field.name: not value})
        elif type(value) in (int, float):
            with_change = {field.name: value / 2 if value and type(value) is float else value + 1}
            try:
                yield dataclasses.replace(thing, **with_change)
            except pydantic.ValidationError:
                continue


def test_every_change_changes_the_fingerprint():
    changed = list(every_change(RECIPE)) + [
        dataclasses.replace(RECIPE, stages=(s,)) for s in every_change(RECIPE.last)
    ]
    prints = {fingerprint(r) for r in [RECIPE, *changed]}
    assert len(changed) > 15
    assert len(prints) == len(changed) + 1


def test_data_and_source_count_too(monkeypatch):
    before = fingerprint(RECIPE)
    monkeypatch.setattr(toys.Majority, "version", lambda self: "new data")
    data = fingerprint(RECIPE)
    monkeypatch.setattr(recipes.code_hash, "digest", lambda module: "edited")
    assert len({before, data, fingerprint(RECIPE)}) == 3


@pytest.mark.parametrize(
    ("plain", "said"),
    [
        ({"is": "selfpretrain.mixers.attention:Nothing"}, "cannot be found"),
        ({"is": "selfpretrain.system.files:write_text"}, "not a spec"),
        ({"is": "os:system", "command": "true"}, "comes from outside"),
        ({"is": "selfpretrain.objectives.masked:Masked", "rate": 1.5}, "rate=1.5"),
        ({"is": "selfpretrain.objectives.masked:Masked", "rat": 0.5}, "rat"),
    ],
)
def test_bad_json_is_explained(plain, said):
    with pytest.raises(SpecError, match=said):
        from_dict(plain)
    with pytest.raises(SpecError, match="--trust toys"):
        from_dict(to_dict(RECIPE))


def test_mistakes_are_explained_field_by_field():
    with pytest.raises(pydantic.ValidationError, match="would cheat"):
        Recipe(toys.Majority(), Model(Attention()), (Stage(Causal(), Budget(steps=1)),))
    for units in ({}, {"steps": 3, "epochs": 1.0}):
        with pytest.raises(pydantic.ValidationError, match="exactly one"):
            Budget(**units)
    with pytest.raises(pydantic.ValidationError) as caught:
        Optim(lr="fast", warmup=2)
    said = explain(caught.value)
    assert "lr='fast'" in said
    assert "warmup=2" in said


def test_amending_keeps_types_and_offers_names():
    changed = with_setting(RECIPE.last, "optim.lr", "3e-3")
    assert changed.optim.lr == 0.003
    assert with_setting(RECIPE.model, "positions", "none").positions == "none"
    with pytest.raises(UnknownName, match="did you mean 'optim'"):
        with_setting(RECIPE.last, "optm.lr", "1")
    with pytest.raises(pydantic.ValidationError):
        with_setting(RECIPE.last, "optim.lr", "fast")


def test_names_on_shelves_and_elsewhere():
    assert find("mixers", "attention") is Attention
    assert find("tasks", "toys:Majority") is toys.Majority
    assert name_of(Attention()) == "attention"
    assert name_of(toys.Majority) == "majority"
    with pytest.raises(UnknownName, match="did you mean 'attention'"):
        find("mixers", "atention")
    with pytest.raises(UnknownName, match="did you mean 'Majority'"):
        find("tasks", "toys:Majorty")
    with pytest.raises(UnknownName, match="cannot import"):
        find("tasks", "no_such_module:Thing")
