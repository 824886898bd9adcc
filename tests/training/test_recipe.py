"""Recipes: complete, comparable, safe to read back; their fingerprints and sources."""

import dataclasses
import importlib
import json
import sys
from types import ModuleType

import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st

import toys
from selfpretrain.config import explain, from_dict, to_dict, with_setting
from selfpretrain.errors import SpecError, UnknownName
from selfpretrain.mixers.attention import Attention
from selfpretrain.objectives.causal import Causal
from selfpretrain.objectives.classify import Classify
from selfpretrain.objectives.masked import Masked
from selfpretrain.registry import find, name_of
from selfpretrain.runner.stage import run
from selfpretrain.runner.workspace import Workspace
from selfpretrain.system.files import read_json
from selfpretrain.training import code_hash, cost
from selfpretrain.training.model import Model
from selfpretrain.training.optim import Optim
from selfpretrain.training.recipe import Budget, Recipe, Stage, fingerprint
from selfpretrain.training.trace import trace_key
from selfpretrain.training.transfer import QUERIES_AND_KEYS

RECIPE = Recipe(
    toys.Majority(),
    Model(Attention()),
    (Stage(Masked(), Budget(steps=5)), Stage(Classify(), Budget(epochs=2))),
)
rates = st.floats(1e-6, 1.0, allow_nan=False)


@given(lr=rates, rate=rates, seed=st.integers(0, 2**31), width=st.integers(1, 512))
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
    stages = [*every_change(RECIPE.last), dataclasses.replace(RECIPE.last, precision="bf16")]
    changed = list(every_change(RECIPE)) + [dataclasses.replace(RECIPE, stages=(s,)) for s in stages]
    prints = {fingerprint(r) for r in [RECIPE, *changed]}
    assert len(changed) > 15
    assert len(prints) == len(changed) + 1


def test_networks_that_differ_in_pooling_alone_share_their_pretraining(tmp_path):
    other = dataclasses.replace(RECIPE, model=dataclasses.replace(RECIPE.model, pooling="attention"))
    assert fingerprint(other.upto(0)) == fingerprint(RECIPE.upto(0))
    assert fingerprint(other) != fingerprint(RECIPE)
    of_equal_lengths = (
        dataclasses.replace(each, task=toys.Majority(shortest=24)) for each in (RECIPE, other)
    )
    finetuned = {run(recipe, Workspace(tmp_path, quiet=True)) for recipe in of_equal_lengths}
    assert len(finetuned) == 2
    assert len(list((tmp_path / "stages").iterdir())) == 3


def test_data_and_source_count_too(monkeypatch):
    before = fingerprint(RECIPE)
    monkeypatch.setattr(toys.Majority, "version", lambda self: "new data")
    data = fingerprint(RECIPE)
    monkeypatch.setattr(code_hash, "digest", lambda module: "edited")
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
    with pytest.raises(SpecError, match="lr='fast': Input should be a valid number"):
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


def test_a_script_that_ends_the_program_is_told_so(tmp_path, monkeypatch):
    (tmp_path / "ending_script.py").write_text("raise SystemExit(2)\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(SpecError, match="'ending_script' fails while being imported: SystemExit: 2"):
        find("mixers", "ending_script:Net")


FILES = {
    "__init__.py": "",
    "mixer.py": "import numpy\nfrom torch import nn\nfrom selfpretrain.mixers.base import Mixer\n"
    "from selfpretrain.config import spec\nfrom .inner.scale import SCALE\nimport besides\n\n"
    "@spec\nclass Scaled(Mixer):\n    def build(self, context):\n        from labpkg import late\n"
    "        return Layer()\n\n"
    "class Layer(nn.Module):\n    def forward(self, x, valid=None):\n        return SCALE * x\n",
    "late.py": "LATE = 1\n",
    "unused.py": "import labpkg.mixer\n",
    "inner/__init__.py": "",
    "inner/scale.py": "from . import deepest\nSCALE = 1\n",
    "inner/deepest.py": "from .. import mixer\n",  # in a circle
}
USED = ["besides", "labpkg", "labpkg.inner", "labpkg.inner.deepest", "labpkg.inner.scale", "labpkg.late",
        "labpkg.mixer"]  # fmt: skip


@pytest.fixture
def labpkg(tmp_path, monkeypatch):
    """A package of several modules; its folder."""
    for name, content in FILES.items():
        (tmp_path / "labpkg" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "labpkg" / name).write_text(content)
    (tmp_path / "besides.py").write_text("WIDTH = 3\n")
    monkeypatch.syspath_prepend(tmp_path)
    forget()
    yield tmp_path / "labpkg"
    forget()


def forget():
    """As a new process would find it."""
    for name in [name for name in sys.modules if name.partition(".")[0] in ("labpkg", "besides")]:
        del sys.modules[name]
    importlib.invalidate_caches()
    code_hash._sources.clear()
    code_hash._is_user_code.cache_clear()


def recipe():
    forget()
    stage = Stage(Classify(), Budget(steps=2), batch=8, evals=1)
    mixer = importlib.import_module("labpkg.mixer").Scaled()
    return Recipe(toys.Majority(), Model(mixer, width=8, depth=1), (stage,))


def test_all_that_a_mixer_imports_of_its_own_counts(labpkg):
    before = fingerprint(recipe())
    assert sorted(code_hash.own_modules("labpkg.mixer")) == USED
    assert fingerprint(recipe()) == before
    for name in ("inner/scale.py", "inner/deepest.py", "late.py", "../besides.py"):
        (labpkg / name).write_text((labpkg / name).read_text() + "MORE = 1\n")
        after = fingerprint(recipe())
        assert after != before, name
        before = after
    (labpkg / "unused.py").write_text("NOT = 'imported'\n")
    assert fingerprint(recipe()) == before


def test_a_module_that_is_edited_and_loaded_again_is_another(labpkg):
    """As notebooks reload modules: results, costs and checks of before are not those of the new code."""
    first = recipe()
    known = [fingerprint(first), cost.network_key(first), cost._key(first), trace_key(first, 24, False)]
    (labpkg / "mixer.py").write_text(FILES["mixer.py"] + "# edited\n")
    assert fingerprint(first) == known[0], "the code in memory is still the old one"
    importlib.reload(sys.modules["labpkg.mixer"])
    found = [fingerprint(first), cost.network_key(first), cost._key(first), trace_key(first, 24, False)]
    assert not set(found) & set(known)


def test_code_that_is_typed_has_no_fingerprint(monkeypatch):
    monkeypatch.setitem(sys.modules, "__main__", ModuleType("__main__"))
    monkeypatch.setattr(toys.Majority, "__module__", "__main__")
    with pytest.raises(SpecError, match=r"save it in a file .*, and import that$"):
        fingerprint(
            Recipe(toys.Majority(), Model(Attention(), width=8), (Stage(Classify(), Budget(steps=1)),))
        )


def test_modules_of_libraries_do_not_count():
    assert code_hash.own_modules("toys") == ["toys"]


def test_a_fingerprint_of_one_module_is_that_of_before():
    stage = Stage(Classify(), Budget(steps=1))
    assert fingerprint(Recipe(toys.Majority(), Model(Attention(), width=8), (stage,))) == "e244477973"


def test_a_run_keeps_the_sources(labpkg, tmp_path):
    folder = run(recipe(), Workspace(tmp_path / "runs"))
    kept = read_json(folder / "sources.json")["modules"]
    assert sorted(kept) == sorted([*USED, "toys"])
    assert kept["labpkg.inner.scale"] == FILES["inner/scale.py"]
