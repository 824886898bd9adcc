"""Printed recipes are those of the papers, can be run, and say where every number stands."""

import dataclasses
import json
import os
import re
from pathlib import Path

import pytest
from torch import nn

from scripts import script
from selfpretrain import registry
from selfpretrain.config import from_dict, to_dict
from selfpretrain.errors import SpecError, UnknownName
from selfpretrain.mixers.attention import Attention
from selfpretrain.mixers.dlr import DLR
from selfpretrain.mixers.local import Local
from selfpretrain.mixers.s4 import S4
from selfpretrain.mixers.s4d import S4D
from selfpretrain.studies.recipes.amos2024_tables import TABLE_4
from selfpretrain.studies.recipes.defaults import denoising_objective
from selfpretrain.studies.recipes.gu2022 import TABLE_11
from selfpretrain.studies.recipes.lookup import (
    PAPERS,
    match_recipe,
    paper_arms,
    paper_recipe,
    recipe_keys,
    task_name,
)
from selfpretrain.studies.recipes.printed import DEFAULT, OURS, TASKS, RecipeKey
from selfpretrain.tasks.bidmc import Bidmc
from selfpretrain.tasks.image import Image
from selfpretrain.tasks.listops import ListOps
from selfpretrain.tasks.pathfinder import Pathfinder
from selfpretrain.tasks.pathx import PathX
from selfpretrain.tasks.speech import Speech
from selfpretrain.tasks.stdlib import Stdlib
from selfpretrain.training.build import build_network
from selfpretrain.training.recipe import Recipe

ROOT = Path(__file__).resolve().parents[2]
KEYS = [key for name in PAPERS for key in recipe_keys(name)]
every_recipe = pytest.mark.parametrize("key", KEYS, ids="-".join)

SIZES = Path(__file__).parent / "golden" / "published_sizes.tsv"
"""Parameters of blocks and final norm in the published code, counted there."""


@pytest.fixture
def papers():
    data = Path(os.environ.get("SPT_TEST_DATA", ROOT.parent / "shared" / "data"))
    folder = data.parent / "papers"
    if not folder.is_dir():
        pytest.skip("needs the texts of the papers")
    return folder


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
    assert {path for path, _ in made.sources} <= parents(told), "a source of no field"


def parents(paths):
    found = set()
    for path in paths:
        parts = path.split(".")
        found |= {".".join(parts[:i]) for i in range(1, len(parts) + 1)}
    return found


# ---- against the papers


def test_table_4_is_the_paper_s(papers):
    text = (papers / "amos-2024-never-train-from-scratch.txt").read_text()
    lines = [line.split("\t")[-10:] for line in text[: text.index("Table 4:")].splitlines()]
    found, label = [], ""
    for line in lines:
        if line[1:2] == ["Features"]:
            label = line[0]
        elif len(line) == 10 and line[0].startswith("Transformer"):
            found.append((label, *row_of(line)))
    mine = [
        (*TASKS[row.task].label.split("-")[:1], *as_printed(row)) for row in TABLE_4 if row.task != "scifar"
    ]
    assert sorted(found) == sorted(mine)


def row_of(line):
    """Everything but the name of a row, as numbers; 1e03 is a misprint."""
    width, depth, heads, hidden = map(int, line[1:5])
    lr = tuple(float(x.replace("1e03", "1e-3")) for x in line[6].split(","))
    batch = tuple(int(x) for x in line[7].split(","))
    kind = ("Rotary" in line[0], width, depth, heads, hidden, line[5].lower())
    return (*kind, lr, batch, float(line[8]), line[9])


def as_printed(row):
    kind = (row.positions == "rotary", row.width, row.depth, row.heads, row.hidden, row.pooling)
    return (*kind, row.lr, row.batch, row.weight_decay, TASKS[row.task].loss)


def test_table_11_is_the_paper_s(papers):
    text = (papers / "gu-2022-s4-appendix-d.txt").read_text()
    lines = [
        [c.strip() for c in line.strip("|").split("|")] for line in text.splitlines() if line.startswith("|")
    ]
    found = {line[0]: line[1:] for line in lines if len(line) == 11 and line[1].isdigit()}
    assert len(found) == len(TABLE_11)
    for row in TABLE_11.values():
        depth, width, norm, prenorm, *numbers = found[row.label]
        norms = {"BN": "batch", "LN": "layer"}
        assert (row.depth, row.width, row.norm) == (int(depth), int(width), norms[norm])
        assert row.prenorm == (prenorm == "True")
        mine = (row.dropout, row.lr, row.batch, row.epochs, row.weight_decay, row.patience)
        assert mine == tuple(float(x) for x in numbers)


def test_appendix_b_of_coser_is_the_paper_s(papers):
    text = (papers / "coser-orvieto-2025-understanding-self-pretraining.txt").read_text()
    text = " ".join(text[text.index("## B. Experimental details") : text.index("## C. Further")].split())
    for name in ("ListOps", "Text", "Retrieval", "CIFAR10", "Pathfinder"):
        task = name.lower().replace("cifar10", "image")
        said = text[text.index(f"**{name}**") :].partition(" - ")[0]
        arms = paper_arms("coser", task, "transformer")
        rates = [float(f"{a}e{b}") for a, b in re.findall(r"(\d) \\times 10\^\{(-\d)\}", said)]
        assert rates[0] == arms.finetune.optim.lr
        assert rates[-1] == arms.pretrain.optim.lr
        for number in (arms.finetune.batch, arms.pretrain.batch):
            assert re.search(rf"batch sizes.*\b{number}\b", said)
        if task != "text":  # "remains similar to ListOps"
            assert re.search(rf"size of {arms.model.width}\b", said)
            assert re.search(rf"\b{arms.model.mixer.heads} attention heads", said)
            assert re.search(rf"size of {arms.model.width * arms.model.expand}\b", said)
            assert re.search(rf"\b{arms.model.depth} (transformer )?layers", said)


# ---- asking for one


@pytest.mark.parametrize(
    ("key", "said"),
    [
        (("amos2024", "image", "s4"), "no recipes of a paper called 'amos2024'; did you mean 'amos'?"),
        (("amos", "imag", "s4"), "no task called 'imag'; did you mean 'image'?"),
        (("amos", "image", "s4-rand"), "no family called 's4-rand'; did you mean 's4-random'?"),
        (("amos", "image", "s4", "mask"), "no objective called 'mask'; did you mean 'masked'?"),
    ],
)
def test_an_unknown_word_gets_one_line(key, said):
    with pytest.raises(UnknownName) as caught:
        paper_arms(*key)
    assert said in str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "key",
    [
        ("amos", "retrieval", "dlr"),
        ("amos", "pathx256", "transformer-rotary"),
        ("amos", "image", "transformer-rotary", "causal"),
        ("amos", "pathx", "pythia", "causal"),
        ("gu", "image", "s4", "causal"),
    ],
)
def test_what_was_not_trained_is_refused(key):
    with pytest.raises(
        SpecError, match=r"^\S+ .*\(20\d\d\) print no recipe for .*; there, they have [^\n]+$"
    ):
        paper_arms(*key)


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
        (
            Stdlib(),
            Attention(),
            "causal",
            "no printed recipe for attention on stdlib (causal); there are some",
        ),
        (Image(), S4D(), "masked", "no printed recipe for s4d on image (masked); use --scale small"),
        (
            Image(),
            S4(),
            "causal",
            "no printed recipe for s4 on image (causal); there are some for speech",
        ),
        (Pathfinder(), DLR(), "masked", "there are some for listops, text, image, pathx; use"),
        (
            Image(),
            Local(),
            "masked",
            "on image attends to all positions; use --mixers attention",
        ),
        (Image(), S4(states=32), "masked", "the printed recipe sets s4 itself; name it without settings"),
    ],
)
def test_what_the_paper_does_not_print_is_refused(task, mixer, objective, said):
    with pytest.raises(SpecError) as caught:
        match_recipe(task, mixer, denoising_objective(task.tiny(), objective))
    assert said in str(caught.value) and "\n" not in str(caught.value)


def test_the_page_is_that_of_the_recipes():
    made = script("recipes_page").page()
    assert (ROOT / "docs" / "recipes.md").read_text() == made, "run python tools/recipes_page.py"
