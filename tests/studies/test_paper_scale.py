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
import toys
from selfpretrain import registry
from selfpretrain.report.paper_numbers import look_up
from selfpretrain.studies.recipes.arms import MATCHED, SCRATCH, SPT
from selfpretrain.studies.recipes.lookup import paper_arms
from selfpretrain.training import cost
from selfpretrain.training.build import build_network
from selfpretrain.training.cost import Planner
from selfpretrain.training.recipe import Recipe

TABLE = Path(__file__).parent / "golden" / "paper_scale.tsv"
LINES = list(csv.DictReader(TABLE.open(encoding="utf-8"), delimiter="\t"))
STUDIES = [
    name for name in registry.names("studies") if name not in ("compare", "label-fraction")
]  # these print no paper's numbers
CELLS = {
    "amos-figure-3": 2 * 6 * 3,  # tasks, parts, arms
    "amos-figure-4": 4 * 2,
    "amos-figure-5": 2 * 2,
    "amos-table-1": 6 * 5,
    "amos-table-2": 6 * 4 * 3 + 3 + 5 * 3,  # PathX-256 of S4 alone; Pythia on five tasks
    "amos-table-3": 2 * 2 * 3 + 2 * 3 + 6 * 2 * 3,  # two directions on speech; both divisions of BIDMC
    "amos-table-7": 4 * 4 * 3,
    "amos-table-8": 2 * 2 * 4,
    "amos-table-9": 2 * 5 * 3,
    "attention-distance": 3 * 2,
    "coser-table-1": 5 * 3,
    "coser-table-2": 3 * 8,
    "coser-table-3": 5 * 3,
    "coser-table-4": 3 * 2 * 4,
    "coser-table-5": 2 * 3 * 4,
    "failed-seeds": 6 * 3,
    "growth": 2 * 2 * 5,
    "gu-table-10": 6 * 2 * 2,
    "gu-table-5": 5 * 3 + 3 * 3 + 2,  # MFCC; raw samples, where WaveGAN is not pretrained
    "identical-start": 2 * 2 * 3,
    "locality": 5 * 2,
    "lra-zoo": 15 * 2,
    "modern-zoo": 2 * 23 * 3,
    "pooling": 2 * 4 * 2,
    "ranking": 6 * 4 * 2,
    "rivals": 4 * (13 + 11) - 2,  # two arms are of full attention alone, and speech has local attention
}


PLANNER = Planner("rough", stubs=True)


@pytest.fixture(autouse=True, scope="module")
def data(tmp_path_factory):
    toys.settle()
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
    assert optim.schedule == line["schedule"]
    assert (stage.budget.epochs, stage.budget.hours) == tuple(
        float(line[unit]) if line[unit] else None for unit in ("epochs", "hours")
    )
    assert (model.width, model.depth) == (int(line["width"]), int(line["depth"]))
    planner = Planner("rough", stubs=True)  # its plans are of a network that is none
    monkeypatch.setattr(cost, "_weightless", lambda recipe: toys.Leak(1))  # steps do not depend on it
    task = planner.task(of(line["task"]))
    assert planner.plan(Recipe(task, model, (stage,))).steps == int(line["steps"])


def of(name):
    """The task of a recipe."""
    plain, _, part = name.partition("-")
    settings = {"mfcc": {"features": "mfcc"}} | {t: {"target": t.upper()} for t in ("hr", "rr")}
    return registry.find("tasks", plain)(**(settings | {"spo2": {"target": "SpO2"}}).get(part, {}))


def test_every_study_of_the_paper_scale_is_counted():
    assert set(CELLS) == set(STUDIES)


@pytest.mark.parametrize("name", STUDIES)
def test_all_cells_are_built(name):
    """They can be planned, each once; and what is matched costs as much as what it is matched to."""
    cells = planned(name)
    assert len(cells) == CELLS[name]
    for (label, task, row, column), made in cells.items():
        assert all(number >= 1 for number in steps(made.recipe))
        if made.printed:
            look_up(registry.find("studies", name).paper, made.printed)
        spt = cells.get((label, task, row, SPT))
        if column == MATCHED and spt:
            total, step = PLANNER.total(spt.recipe), PLANNER.plan(made.recipe).flops_per_step
            assert abs(PLANNER.plan(made.recipe).flops - total) <= step
            hours = [stage.budget.hours for stage in spt.recipe.stages]
            assert made.recipe.last.budget.hours == (None if None in hours else sum(hours))


def test_parts_of_the_data_have_the_settings_of_appendix_c_1_4():
    """225 images in batches of 50 are four steps an epoch, and pretraining has 10,000 all the same."""
    for part, per_epoch in (("0.5 %", 4), ("10 %", 90), ("100 %", 900)):
        made = cell("amos-figure-3", "Image", f"S4 · {part}", SPT)
        assert steps(made) == [10_000, 200 * per_epoch]
        assert [(s.optim.lr, s.batch) for s in made.stages] == [(1e-2, 50), (2e-3, 50)]
        assert steps(cell("amos-figure-3", "Image", f"S4 · {part}", SCRATCH)) == [200 * per_epoch]
    made = cell("amos-figure-3", "Text", "S4 · 0.5 %", SPT)
    assert steps(made) == [40_000, 200 * 7]
    assert [(s.optim.lr, s.batch) for s in made.stages] == [(5e-4, 8), (5e-4, 16)]


def test_shares_of_a_budget_keep_their_warm_up():
    """Table 8: 30 epochs of text and 150 of images; warm-up is as long whatever the share."""
    for column, epochs in {"20 %": (30, 120), "40 %": (60, 90), "60 %": (90, 60)}.items():
        made = cell("amos-table-8", "Image", "Transformer", column)
        assert [stage.budget.epochs for stage in made.stages] == list(epochs)
        assert [stage.optim.warmup_steps for stage in made.stages] == [2500, 2000]
        assert [stage.evals for stage in made.stages] == [2 * epochs[0], epochs[1]]
        assert steps(made) == [epochs[0] * 1406, epochs[1] * 703]
    made = cell("amos-table-8", "Text", "Transformer", "20 %")
    assert [stage.budget.epochs for stage in made.stages] == [6, 24]
    assert [stage.optim.warmup_steps for stage in made.stages] == [5000, 2000]
    assert steps(cell("amos-table-8", "Text", "S4", "0 %")) == [30 * 1406]


def test_lengths_of_pretraining_keep_their_warm_up_but_for_a_single_epoch():
    for column, epochs, warmup in (("1 epoch", 1, 140), ("10 epochs", 10, 2500), ("200 epochs", 200, 2500)):
        first, second = cell("coser-table-2", "Image", "Transformer", column).stages
        assert (first.budget.epochs, first.optim.warmup_steps, first.evals) == (epochs, warmup, 2 * epochs)
        assert (second.budget.epochs, second.optim.warmup_steps) == (100, 2000)


def test_pathx_has_the_epochs_that_were_run():
    for row in ("Table 1", "Table 2"):
        name = row.lower().replace(" ", "-")
        scratch, spt = (
            cell(f"amos-{name}", "PathX", "Transformer", column)
            for column in (SCRATCH, "SPT, masked" if row == "Table 1" else SPT)
        )
        assert [(s.budget.epochs, s.budget.hours) for s in scratch.stages] == [(8, 48)]
        assert [(s.budget.epochs, s.budget.hours) for s in spt.stages] == [(4, 24), (4, 24)]


def test_plain_scratch_stands_beside_the_papers_scratch_and_tied_beside_nothing():
    for name in ("amos-table-2", "amos-table-3", "amos-table-9", "gu-table-5", "gu-table-10"):
        for (label, _, row, column), made in planned(name).items():
            if column == MATCHED:
                assert made.printed is None
            elif not row.startswith("Pythia") and "apart" not in label:
                ours = row in ("MEGA", "SPADE") or name == "gu-table-5"
                assert made.printed or (ours and column == SPT)
    table = {
        row: made.printed for (_, _, row, column), made in planned("gu-table-10").items() if column == SCRATCH
    }
    assert {row: place[1] for row, place in table.items()} == {
        "S4": "S4 (original)",
        "S4, updated": "S4 (updated)",
    }


def test_the_longest_task_is_s4_s_alone():
    cells = {
        (row, column): made
        for (label, _, row, column), made in planned("amos-table-2").items()
        if label == "PathX-256"
    }
    assert set(cells) == {("S4", column) for column in (SCRATCH, MATCHED, SPT)}
    numbers = {
        column: look_up("amos2024", made.printed).value for (_, column), made in cells.items() if made.printed
    }
    assert numbers == {SCRATCH: 67.82, SPT: 87.11}
    assert cells["S4", SPT].recipe.task.form.length == 65_536
    assert [(s.optim.lr, s.batch) for s in cells["S4", SPT].recipe.stages] == [(1e-3, 8), (1e-3, 64)]
    assert (cells["S4", SCRATCH].recipe.last.optim.lr, cells["S4", SCRATCH].recipe.last.batch) == (1e-4, 16)


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
    assert look_up("coser2025", made.printed).value == 0.85
