"""Reported recipes are those of the papers, can be run, and say where every number stands."""

import dataclasses
import json
import re
from pathlib import Path

import pydantic
import pytest
from torch import nn

from scripts import script
from selfpretrain import registry
from selfpretrain.config import from_dict, settings_of, to_dict
from selfpretrain.errors import SpecError, UnknownName
from selfpretrain.mixers.attention import Attention
from selfpretrain.mixers.dlr import DLR
from selfpretrain.mixers.local import Local
from selfpretrain.mixers.s4 import S4
from selfpretrain.mixers.s4d import S4D
from selfpretrain.studies.recipes import tables
from selfpretrain.studies.recipes.arms import STAGES
from selfpretrain.studies.recipes.defaults import denoising_objective
from selfpretrain.studies.recipes.reported import (
    PAPERS,
    match_recipe,
    paper_arms,
    paper_recipe,
    recipe_keys,
    task_name,
)
from selfpretrain.studies.recipes.tables import DEFAULT, OURS, RecipeKey
from selfpretrain.tasks.bidmc import Bidmc
from selfpretrain.tasks.image import Image
from selfpretrain.tasks.listops import ListOps
from selfpretrain.tasks.pathfinder import Pathfinder
from selfpretrain.tasks.pathx import PathX
from selfpretrain.tasks.speech import Speech
from selfpretrain.tasks.stdlib import Stdlib
from selfpretrain.training.recipe import Recipe, build_network

ROOT = Path(__file__).resolve().parents[2]
KEYS = [key for name in PAPERS for key in recipe_keys(name)]
every_recipe = pytest.mark.parametrize("key", KEYS, ids="-".join)

SIZES = Path(__file__).parent / "golden" / "published_sizes.tsv"
"""Parameters of blocks and final norm in the published code, counted there."""


def tiny(key):
    """The smallest form of the task of a recipe."""
    plain, _, part = key.task.partition("-")
    given = {"bidmc": {"target": {"hr": "HR", "rr": "RR", "spo2": "SpO2"}.get(part)}, "speech": {}}
    options = given.get(plain, {}) | ({"features": "mfcc"} if part == "mfcc" else {})
    return registry.find("tasks", plain)(**options).tiny()


def leaves(path, plain):
    if not isinstance(plain, dict):
        yield path, plain
        return
    for name, value in plain.items():
        yield from leaves(f"{path}.{name}".lstrip("."), value)


# ---- what they are


@every_recipe
def test_a_recipe_is_two_recipes_that_can_be_built(key):
    arms = paper_arms(*key)
    assert from_dict(json.loads(json.dumps(to_dict(arms)))) == arms
    small = [
        dataclasses.replace(model, width=16, depth=1, mixer=narrow(model.mixer))
        for model in (arms.model, arms.scratch_model)
    ]
    if key.family == "pythia":  # its weights are as wide as they are; from scratch it has none
        assert arms.model.mixer.pretrained and not arms.scratch_model.mixer.pretrained
        return
    assert dataclasses.replace(arms.scratch_model, dropout=arms.model.dropout) == arms.model
    assert arms.model.causal == (key.objective == "causal")
    task = tiny(key)
    assert task_name(task) == key.task
    denoised = (arms.pretrain,) if arms.model.mixer.denoises else ()
    for stages, model in (((*denoised, arms.finetune), small[0]), ((arms.scratch,), small[1])):
        for prefix in Recipe(task, model, stages).prefixes():
            build_network(prefix)


def test_a_shortened_recipe_keeps_the_shape_of_its_schedule():
    """As --minutes shortens it: a warm-up of thousands of steps would be longer than what is left."""
    for key in KEYS:
        arms = paper_arms(*key)
        for name in STAGES:
            whole, half = (getattr(each, name).optim for each in (arms, arms.scale_budget(0.5)))
            for step in (2, 1_000, 40_000):
                assert half.lr_factor(0.3, step // 2) == pytest.approx(whole.lr_factor(0.3, step))
            assert (half.plateau_wait_epochs or 0) == (whole.plateau_wait_epochs or 0) / 2


def narrow(mixer):
    """The same with fewer states and copies, as far as it has them."""
    fields = {f.name for f in dataclasses.fields(mixer)}
    smaller = {"states": 8, "copies": None, "heads": 2}
    return dataclasses.replace(mixer, **{name: value for name, value in smaller.items() if name in fields})


@pytest.mark.parametrize("line", SIZES.read_text().splitlines()[1:])
def test_networks_are_as_large_as_in_the_published_code(line):
    family, task, expected = line.split("\t")
    arms = paper_arms("amos", task, family)
    network = arms.model.build(tiny(RecipeKey("amos", task, family, "masked")).form, nn.Identity())
    count = sum(p.numel() for name, p in network.named_parameters() if not name.startswith(("embed", "head")))
    assert count == pytest.approx(int(expected), rel=2e-3)


@every_recipe
def test_every_number_has_a_source(key):
    made = paper_recipe(*key)
    told = {path: made.source(path) for path, _ in leaves("", to_dict(made.arms))}
    for arm in ("pretrain", "finetune", "scratch"):
        for field in ("optim.lr", "batch", "optim.weight_decay", "budget.epochs", "optim.schedule"):
            assert told[f"{arm}.{field}"] != DEFAULT
        patience = told[f"{arm}.early_stopping_patience"]
        assert patience == DEFAULT or patience.startswith(OURS)
    for field in ("width", "depth", "pooling", "norm", "placement", "causal", "expand"):
        assert told[f"model.{field}"] != DEFAULT
        assert told[f"scratch_model.{field}"] == told[f"model.{field}"] or field == "dropout"
    assert told["finetune.optim.lr"].startswith((*PAPERS.values(), "Table", "appendix")) or key.paper == "gu"
    fields = dict(settings_of(made.arms)) | told  # some fields are left out of JSON at their defaults
    assert set(made.sources) <= parents(fields), "a source of no field"


def parents(paths):
    found = set()
    for path in paths:
        parts = path.split(".")
        found |= {".".join(parts[:i]) for i in range(1, len(parts) + 1)}
    return found


def test_s4_drops_out_twice_in_a_layer_and_slows_down_as_in_the_published_code():
    """Dropout inside the layer and on its residual branch, in Image and sCIFAR; 5e-4 for A, B, P on PathX."""
    for task in ("image", "scifar"):
        model = paper_arms("amos", task, "s4").model
        layers = [m for m in built(model, task).modules() if isinstance(m, nn.Dropout)]
        assert [layer.p for layer in layers] == [0.1] * 2 * model.depth
    for task, rate in (("image", 1e-3), ("pathx", 5e-4), ("pathx256", 5e-4)):
        arms = paper_arms("amos", task, "s4")
        network = built(arms.model, task)
        groups = arms.finetune.optim.build(network, arms.model.mixer.slow()).param_groups
        rates = {id(p): group["lr"] for group in groups for p in group["params"]}
        named = network.named_parameters()
        slow = [p for name, p in named if re.search(r"\.(P|B|log_decay|frequency)$", name)]
        assert len(slow) == 4 * arms.model.depth and {rates[id(p)] for p in slow} == {rate}


def built(model, task):
    return model.build(tiny(RecipeKey("amos", task, "s4", "masked")).form, nn.Identity())


# ---- asking for one


NO_RECIPE = r"^\S+ .*\(20\d\d\) report no recipe for .*; there, they have [^\n]+$"


@pytest.mark.parametrize(
    ("key", "error", "said"),
    [
        (("amos2024", "image", "s4"), UnknownName, "called 'amos2024'; did you mean 'amos'"),
        (("mylab", "image", "s4"), UnknownName, "a TableStudy may name another paper in paper_recipes"),
        (("amos", "imag", "s4"), UnknownName, "no task called 'imag'; did you mean 'image'"),
        (("amos", "image", "s4-rand"), UnknownName, "called 's4-rand'; did you mean 's4-random'"),
        (("amos", "image", "s4", "mask"), UnknownName, "called 'mask'; did you mean 'masked'"),
        (("amos", "retrieval", "dlr"), SpecError, NO_RECIPE),
        (("amos", "pathx256", "transformer-rotary"), SpecError, NO_RECIPE),
        (("amos", "image", "transformer-rotary", "causal"), SpecError, NO_RECIPE),
        (("amos", "pathx", "pythia", "causal"), SpecError, NO_RECIPE),
        (("gu", "image", "s4", "causal"), SpecError, NO_RECIPE),
    ],
)
def test_what_was_not_trained_is_refused_in_one_line(key, error, said):
    with pytest.raises(error, match=said) as caught:
        paper_arms(*key)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("task", "mixer", "objective", "key"),
    [
        (ListOps(), Attention(), "masked", ("amos", "listops", "transformer-rotary")),
        (ListOps(), Attention(), "causal", ("amos", "listops", "transformer-dagger", "causal")),
        (Image(), S4(), "masked", ("amos", "image", "s4")),
        (Image(), DLR(), "masked", ("amos", "image", "dlr")),
        (PathX(), Attention(), "masked", ("amos", "pathx", "transformer-rotary")),
        (PathX(), Local(), "causal", ("amos", "pathx", "transformer-dagger", "causal")),
        (Speech(), Local(), "causal", ("amos", "speech", "transformer-rotary", "causal")),
        (Speech(), S4(), "causal", ("amos", "speech", "s4", "causal")),
        (Bidmc(target="SpO2"), S4(), "masked", ("amos", "bidmc-spo2", "s4")),
    ],
)
def test_the_scale_of_the_paper_is_its_recipe(task, mixer, objective, key):
    denoise = denoising_objective(task.tiny(), objective)
    assert match_recipe(task, mixer, denoise) == paper_arms(*key)


@pytest.mark.parametrize(
    ("task", "mixer", "objective", "said"),
    [
        (Stdlib(), Attention(), "causal", "no reported recipe for attention on stdlib (causal)"),
        (Image(), S4D(), "masked", "no reported recipe for s4d on image (masked); use --scale small"),
        (Image(), S4(), "causal", "no reported recipe for s4 on image (causal); there are some for speech"),
        (Pathfinder(), DLR(), "masked", "there are some for listops, text, image, pathx; use"),
        (Image(), Local(), "masked", "on image attends to all positions; use --mixers attention"),
        (Image(), S4(states=32), "masked", "the reported recipe sets s4 itself; name it without settings"),
    ],
)
def test_what_the_paper_does_not_print_is_refused(task, mixer, objective, said):
    with pytest.raises(SpecError) as caught:
        match_recipe(task, mixer, denoising_objective(task.tiny(), objective))
    assert said in str(caught.value) and "\n" not in str(caught.value)


def test_the_page_lists_every_recipe_and_where_its_numbers_stand():
    page = script("recipes_page").page()
    assert all(f"### {key.family}\n" in page and f"**{key.task}, {key.objective}**\n" in page for key in KEYS)
    stands = "- Table 4, ListOps, Masked SPT†: `model` mixer.is attention, mixer.heads 8, width 512, depth 6,"
    assert stands in page
    assert "<!-- recipes -->" in (ROOT / "docs" / "recipes.md").read_text()


# ---- the tables


OTHER_TABLES = {"tasks", "amos2024_table_9_sizes", "rivals", "lra_zoo", "modern_zoo", "s4d_or_mamba"}
"""Tables of one study or of tasks, which are no recipes."""


@pytest.mark.parametrize("name", tables.TABLES)
def test_every_row_is_about_a_recipe_and_has_a_source(name):
    for line, row in enumerate(tables.read_table(name), 2):
        where = f"{name}.tsv, line {line}"
        assert any(tables._selects(row, key) for key in KEYS), f"{where}: no recipe"
        assert None not in row.values(), f"{where}: a cell is missing"
        if row["source"] == "":
            assert not any(text for path, text in row.items() if path not in tables.NOT_FIELDS), where
            assert row.get("note") or row["settings"] == "scratch=finetune", where


def test_every_table_is_read():
    found = {path.stem for path in tables.FOLDER.glob("*.tsv")}
    assert found == set(tables.TABLES) | OTHER_TABLES and len(set(tables.TABLES)) == len(tables.TABLES)


def draft(*rows):
    made = tables._Draft()
    for settings, source in rows:
        made.apply({"recipes": "", "settings": settings, "source": source})
    return made


@pytest.mark.parametrize(
    ("rows", "values", "sources"),
    [
        pytest.param(
            [("stage.batch=8", "a"), ("finetune.batch=16", "b")],
            {"pretrain.batch": 8, "finetune.batch": 16, "scratch.batch": 8},
            {"pretrain.batch": "a", "finetune.batch": "b", "scratch.batch": "a"},
            id="later rows win",
        ),
        pytest.param(
            [("model.mixer.is=s4 model.mixer.states=64", "a"), ("model.mixer.is=dlr", "b")],
            {"model.mixer.is": "dlr"},
            {"model.mixer.is": "b"},
            id="another mixer has none of the settings",
        ),
        pytest.param(
            [("scratch.budget.epochs=200 scratch.budget.hours=24", "a"), ("scratch.budget.steps=9", "b")],
            {"scratch.budget.steps": 9},
            {"scratch.budget": "b"},
            id="a budget is replaced as a whole",
        ),
        pytest.param(
            [("model.width=512 model.hidden=1024 scratch.optim.patience=10", "a")],
            {"model.width": 512, "model.expand": 2, "scratch.optim.plateau_wait_epochs": 11},
            {"model.width": "a", "model.expand": "a", "scratch.optim.plateau_wait_epochs": "a"},
            id="papers' own columns",
        ),
        pytest.param(
            [("finetune.batch=8 finetune.objective.style=mlp", "a"), ("pretrain=finetune", "b")],
            {"finetune.batch": 8, "finetune.objective.style": "mlp", "pretrain.batch": 8},
            {"finetune.batch": "a", "finetune.objective.style": "a", "pretrain": "b"},
            id="a stage like another keeps its objective",
        ),
        pytest.param(
            [("finetune.batch=8", "a"), ("scratch=finetune", "")],
            {"finetune.batch": 8, "scratch.batch": 8},
            {"finetune.batch": "a", "scratch.batch": "a"},
            id="a stage that the same cell is about",
        ),
        pytest.param([("model.dropout", "a")], {}, {"model.dropout": "a"}, id="a default with a source"),
    ],
)
def test_rows_are_applied_in_order(rows, values, sources):
    made = draft(*rows)
    assert (made.values, made.sources) == (values, sources)


def test_unknown_field_is_rejected():
    wrong = {"settings": "model.size=64", "source": "x"}
    rows = [row for name in tables.TABLES for row in tables.read_table(name)]
    key = RecipeKey("amos", "image", "s4", "masked")
    with pytest.raises(pydantic.ValidationError, match="size"):
        tables._read_recipe(key, [*(each for each in rows if tables._selects(each, key)), wrong])
