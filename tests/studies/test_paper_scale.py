"""At the papers' scale every study plans what the papers did, with their data stubbed: form and sizes only.

``golden/paper_scale.tsv`` is typed from the papers (Tables 4 to 6 and appendices C and D of Amos et al.,
appendix B of Coser & Orvieto, Table 11 of Gu et al.) and, for warm-up, schedules and S4 from scratch, the
published code.
"""

import csv
import functools
from pathlib import Path

import pytest

import paper_data
from selfpretrain import registry
from selfpretrain.studies.recipes.arms import MATCHED, SPT
from selfpretrain.studies.recipes.reported import paper_arms
from selfpretrain.training import cost
from selfpretrain.training.cost import Planner
from selfpretrain.training.recipe import Recipe, build_network


def golden(name):
    with (Path(__file__).parent / "golden" / name).open(encoding="utf-8") as file:
        return list(csv.DictReader(file, delimiter="\t"))


LINES = golden("paper_scale.tsv")
SPOTS = golden("paper_cells.tsv")
"""Cells by their numbers stage by stage: parts of the data (appendix C.1.4), shares of a budget (Table 8),
lengths of pretraining, PathX as it was run, PathX-256."""
CELLS = {line["study"]: int(line["cells"]) for line in golden("paper_studies.tsv")}
"""How many cells a study has: tasks, rows and arms of the paper's table."""
UNPRINTED = ("compare", "label-fraction", "long-images", "objectives", "s4d-or-mamba", "s4d-or-mamba-longer")
"""Studies that have no paper scale."""
LONG = ("amos-table-7", "lra-zoo", "modern-zoo", "ranking", "rivals")
"""Studies of the most networks; their plans at smoke scale are among the laws of studies."""
STUDIES = [
    pytest.param(name, marks=[pytest.mark.slow] * (name in LONG))
    for name in registry.names("studies")
    if name not in UNPRINTED
]
PLANNER = Planner(0, stubs=True)


@pytest.fixture(autouse=True, scope="module")
def data(tmp_path_factory):
    with paper_data.stubbed(tmp_path_factory.mktemp("nothing")):
        yield


@functools.cache
def planned(name):
    """The cells of a study, by task, row and column."""
    cells = registry.find("studies", name).at_scale("paper", seeds=1).cells(PLANNER)
    return {(cell.label, registry.name_of(cell.recipe.task), cell.row, cell.column): cell for cell in cells}


def cell(name, label, row, column):
    (found,) = (c for (task, _, r, c_), c in planned(name).items() if (task, r, c_) == (label, row, column))
    return found.recipe


def steps(made):
    return [PLANNER.plan(prefix).steps for prefix in made.prefixes()]


@pytest.mark.parametrize("line", LINES, ids=lambda line: "-".join(list(line.values())[:5]))
def test_recipes_have_the_numbers_of_the_papers(line, monkeypatch):
    arms = paper_arms(line["paper"], line["task"], line["family"], line["objective"])
    model = arms.scratch_model if line["stage"] == "scratch" else arms.model
    stage = getattr(arms, line["stage"])
    optim = stage.optim
    assert (optim.lr, stage.batch) == (float(line["lr"]), int(line["batch"]))
    assert (optim.weight_decay, optim.warmup_steps) == (float(line["decay"]), int(line["warmup"]))
    assert (optim.schedule, optim.cosine_steps) == (line["schedule"], int(line["cosine"] or 0) or None)
    assert (stage.budget.epochs, stage.budget.hours) == tuple(
        float(line[unit]) if line[unit] else None for unit in ("epochs", "hours")
    )
    assert (model.width, model.depth) == (int(line["width"]), int(line["depth"]))
    planner = Planner(0, stubs=True)
    monkeypatch.setattr(cost, "_parameters", lambda recipe: 1)  # steps do not depend on it
    task = planner.task(of(line["task"]))
    assert planner.plan(Recipe(task, model, (stage,))).steps == int(line["steps"])


def of(name):
    """The task of a recipe."""
    plain, _, part = name.partition("-")
    settings = {"mfcc": {"features": "mfcc", "words": 10, "split": "papers"}} | {
        t: {"target": t.upper()} for t in ("hr", "rr")
    }
    return registry.find("tasks", plain)(**(settings | {"spo2": {"target": "SpO2"}}).get(part, {}))


@pytest.mark.parametrize("name", STUDIES)
def test_all_cells_are_built(name):
    """They can be planned, each once; and what is matched costs as much as what it is matched to."""
    cells = planned(name)
    assert len(cells) == CELLS[name]
    for (label, task, row, column), made in cells.items():
        assert all(number >= 1 for number in steps(made.recipe))
        spt = cells.get((label, task, row, SPT))
        if column == MATCHED:
            assert made.recipe.last.optim.cosine_steps is None, "its cosine spans its own budget"
        if column == MATCHED and spt:
            total, step = PLANNER.total(spt.recipe), PLANNER.plan(made.recipe).flops_per_step
            assert abs(PLANNER.plan(made.recipe).flops - total) <= step
            hours = [stage.budget.hours for stage in spt.recipe.stages]
            assert made.recipe.last.budget.hours == (None if None in hours else sum(hours))


@pytest.mark.parametrize("line", SPOTS, ids=lambda line: "-".join(list(line.values())[:4]))
def test_cells_have_the_lengths_that_the_papers_describe(line):
    made = cell(*(line[name] for name in ("study", "label", "row", "column")))
    found = {
        "steps": steps(made),
        "epochs": [stage.budget.epochs for stage in made.stages],
        "hours": [stage.budget.hours for stage in made.stages],
        "lr": [stage.optim.lr for stage in made.stages],
        "batch": [stage.batch for stage in made.stages],
        "warmup": [stage.optim.warmup_steps for stage in made.stages],
        "evals": [stage.evals for stage in made.stages],
    }
    for name, numbers in found.items():
        for number, said in zip(numbers, line[name].split(","), strict=True) if line[name] else ():
            assert said == "-" or number == float(said), name


def test_sizes_fit_the_labels_of_table_9():
    label = {"100K": 1e5, "300K": 3e5, "1M": 1e6, "3M": 3e6, "10M": 1e7}
    for (_, _, row, column), made in planned("amos-table-9").items():
        if column == SPT:
            count = sum(p.numel() for p in build_network(made.recipe).parameters())
            assert count == pytest.approx(label[row.partition(" · ")[2]], rel=0.35)


def test_pathfinder_is_swapped_at_four_layers():
    rows = {(label, row) for label, _, row, _ in planned("coser-table-5")}
    layers = {"Image": ("1 layer", "2 layers", "3 layers"), "Pathfinder": ("1 layer", "2 layers", "4 layers")}
    assert rows == {(label, f"Transformer · {each}") for label, known in layers.items() for each in known}
    made = planned("coser-table-5")["Pathfinder", "pathfinder", "Transformer · 4 layers", "SPT, own data"]
    assert made.reported.value == 0.85
