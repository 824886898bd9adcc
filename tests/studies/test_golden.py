"""What the studies plan at the small scale is what was measured: cells in their order, and stages by name.

python tests/studies/test_golden.py    writes the golden file again, where the data of all tasks are
"""

import functools
import lzma
import os
from pathlib import Path

import pytest

import paper_data
from selfpretrain import registry
from selfpretrain.data.paths import folders
from selfpretrain.runner.archive import Archive
from selfpretrain.runner.plan import plan_recipes
from selfpretrain.runner.workspace import Workspace
from selfpretrain.studies.base import SHIPPED
from selfpretrain.tasks.ucr import Ucr
from selfpretrain.training import cost

RUNS = Workspace(Path("runs"))
GOLDEN = Path(__file__).parent / "golden" / "cells.tsv"
DOCS = Path(__file__).parents[2] / "docs" / "studies"
DATA = Path(os.environ.get("SELFPRETRAIN_TEST_DATA", Path(__file__).parents[3] / "shared" / "data"))
NAMES = [name for name in registry.names("studies") if name not in ("compare", *paper_data.UNMEASURED)]
LONG = {
    "amos-figure-3",
    "amos-table-1",
    "amos-table-2",
    "amos-table-3",
    "amos-table-7",
    "amos-table-9",
    "attention-distance",
    "coser-table-5",
    "growth",
    "gu-table-5",
    "long-images",
    "lra-zoo",
    "modern-zoo",
    "objectives",
    "pooling",
    "ranking",
    "rivals",
    "s4d-or-mamba",
    "s4d-or-mamba-longer",
}
"""Of many matched arms, whose length has to be worked out, or of many images."""
FOLDERS = {
    "spoken-digits": ("fsdd",),
    "image-patches": ("cifar10_jpeg",),
    "image-jpeg": ("cifar10_jpeg",),
    "ucr": ("raw/ucr-wheels", *Ucr.places),
}
"""Where data are that have to be fetched, by the task that needs them."""
every_study = pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] * (name in LONG)) for name in NAMES]
)


@functools.cache
def planned(name):
    """The cells of a study at the small scale, and the names of its stages."""
    kind = registry.find("studies", name)
    cells = list(kind.at_scale("small", kind.bundled_seeds).cells())
    recipes = [cell.recipe for cell in cells]
    return cells, {stage.id for stage in plan_recipes(recipes)}


def lines(name):
    """A line per cell of the first seed: task, row, column, place in the paper, fingerprints of stages."""
    for cell in planned(name)[0]:
        if cell.recipe.seed == 0:
            stages = [RUNS.stage(prefix).name.rpartition("-")[2] for prefix in cell.recipe.prefixes()]
            task = f"{cell.label}: {registry.name_of(cell.recipe.task)}"
            found = cell.reported
            reported = f"{found.table} | {found.row} | {found.column}" if found else ""
            yield "\t".join([name, task, cell.row, cell.column, reported, " ".join(stages)])


@every_study
def test_cells_are_those_that_were_measured(name, here):
    found = [line for line in GOLDEN.read_text().splitlines() if line.startswith(f"{name}\t")]
    assert list(lines(name)) == [line for line in found if here(line)]
    assert found


@every_study
def test_every_planned_stage_ships_and_no_other(name, here):
    page = DOCS / f"{name}-small" / "report.md"
    if "wait to be measured again" in page.read_text():
        pytest.skip("waits to be measured again")
    kept = SHIPPED / f"{name}.small.jsonl.xz"
    lines = lzma.decompress(kept.read_bytes()).decode().splitlines()[1:]
    ships = {line.rpartition('"stage": "')[2].partition('"')[0] for line in lines}
    found = {stage for stage in ships if here(stage)}
    assert found <= planned(name)[1]
    assert found == planned(name)[1] or name in paper_data.UNFINISHED


@pytest.mark.slow
def test_a_stage_that_several_studies_share_has_one_result():
    found = {}
    for file in sorted(SHIPPED.glob("*.small.jsonl.xz")):
        for stage, score in Archive(file).scores().items():
            assert found.setdefault(stage, score) == score, f"{stage} of {file.name}"


def counts_that_ship():
    """The lines of the table of FLOPs per step with which shipped results were measured."""
    return [line.split("\t") for line in cost.SHIPPED_COUNTS.read_text().splitlines()[1:]]


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted({line[3] for line in counts_that_ship()}))
def test_arms_that_ship_have_the_compute_of_spt_to_a_percent_by_the_mean_of_masks(name, here, monkeypatch):
    recipes = [cell.recipe for cell in planned(name)[0] if cell.recipe.seed == 0]
    steps = [[plan.steps for plan in map(cost.plan, recipe.prefixes())] for recipe in recipes]
    spent = [cost.COUNTED.total(recipe) for recipe in recipes]
    monkeypatch.setattr(cost, "_of_shipped_results", dict)
    monkeypatch.setattr(cost, "COUNTED", cost.Planner())
    pairs, moved = 0, 0
    for matched, its_steps in zip(recipes, steps, strict=True):
        for spt, spt_steps, before in zip(recipes, steps, spent, strict=True):
            if len(matched.stages) == 1 and len(spt.stages) == 2 and matched.last.budget.flops == before:
                now = [
                    sum(
                        cost.plan(prefix).flops_per_step * n
                        for prefix, n in zip(one.prefixes(), of, strict=True)
                    )
                    for one, of in ((matched, its_steps), (spt, spt_steps))
                ]
                assert now[0] == pytest.approx(now[1], rel=0.01)
                pairs += 1
                moved += now[1] != before
    assert not pairs or moved


def absent():
    """The tasks whose data are not here."""
    places = [DATA, *folders()]
    there = lambda names: any((place / name).exists() for place in places for name in names)  # noqa: E731
    return [task for task, names in FOLDERS.items() if not there(names)]


@pytest.fixture
def here(monkeypatch, tmp_path):
    """Whether a line is about data that can be had here."""
    monkeypatch.setenv(
        "SELFPRETRAIN_DATA", os.pathsep.join([os.environ.get("SELFPRETRAIN_DATA", str(tmp_path)), str(DATA)])
    )
    return lambda line: not any(task in line for task in absent())


if __name__ == "__main__":
    if absent():
        raise SystemExit(
            f"the cells of {', '.join(absent())} would be lost: set SELFPRETRAIN_TEST_DATA to their data"
        )
    os.environ["SELFPRETRAIN_DATA"] = os.pathsep.join(map(str, [*folders(), DATA]))
    GOLDEN.write_text("".join(f"{line}\n" for name in NAMES for line in lines(name)), encoding="utf-8")
