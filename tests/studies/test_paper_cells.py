"""One cell per paper and kind of file, end to end: small releases, and two steps of one of its blocks."""

from dataclasses import replace

import numpy as np
import pytest

import paper_data
import releases
from engines import run_experiment
from selfpretrain import registry
from selfpretrain.config import from_dict, to_dict
from selfpretrain.mixers.pythia import Pythia
from selfpretrain.report.results import read
from selfpretrain.runner.experiment import Experiment
from selfpretrain.runner.workspace import Workspace, run_context
from selfpretrain.tasks.common import images
from selfpretrain.tasks.text import Text
from selfpretrain.training.recipe import Budget


def test_pythia_is_finetuned_from_a_checkpoint_on_this_machine(tmp_path, monkeypatch):
    """A tiny network in the format of Pythia 70M, in its place; the texts are made up."""
    folder, row = tmp_path / "pythia", "Text/Pythia, weights of the Pile"
    releases.write_pythia(folder)
    monkeypatch.setattr(Pythia, "is_available", True)
    width = releases.SIZES["hidden_size"]
    settings = {f"{row}/mixer.checkpoint": str(folder), f"{row}/model.width": width}
    study = registry.find("studies", "amos-table-2").at_scale("paper", 1)
    with paper_data.stubbed(tmp_path / "nothing") as planner:
        changed = study.with_settings(settings)
        cells = changed.task_cells("Text", Text(made_up=True), planner)
        (planned,) = (cell for cell in cells if cell.row == row.partition("/")[2])
    assert planned.column == "pretrained on text" and len(planned.recipe.stages) == 1
    assert run_short(planned, "paper", tmp_path).reported.row == "Pythia 70M"


RELEASES = {
    "listops": lambda data: releases.write_listops(data / "listops-1000"),
    "cifar": lambda data: releases.write_cifar(data / "cifar-10-batches-py"),
    "speech": lambda data: releases.write_speech(data / "raw" / "speech_commands_v0.02"),
    "bidmc": lambda data: releases.write_physionet(
        data / "bidmc-ppg-and-respiration-dataset-1.0.0" / "bidmc_csv", releases.bidmc_recordings(2)
    ),
}
CELLS = [
    ("listops", "amos-table-1", {"task.source": "lra"}, "ListOps", "Transformer", "SPT, masked"),
    ("listops", "gu-table-10", {"task.source": "lra"}, "ListOps", "S4", "scratch"),
    ("cifar", "coser-table-1", {}, "Image", "Transformer", "SPT"),
    ("speech", "amos-table-3", {"task.words": 10}, "SC", "S4, bidirectional", "SPT"),
    ("bidmc", "amos-table-3", {}, "BIDMC HR", "S4, bidirectional", "SPT"),
]
LONG = ("amos-table-3", "coser-table-1", "amos-table-1")
"""Sequences of thousands of positions, or wide networks: a minute and more."""
BATCH = 2
"""What two cores can take of them in seconds."""


@pytest.mark.parametrize(
    "cell",
    [pytest.param(c, marks=[pytest.mark.slow] * (c[1] in LONG), id=f"{c[1]}-{c[3]}") for c in CELLS],
)
def test_a_cell_runs_from_the_release(cell, tmp_path, monkeypatch):
    release, name, settings, label, row, column = cell
    monkeypatch.setenv("SELFPRETRAIN_DATA", str(tmp_path))
    monkeypatch.setattr(images, "VAL", 50)
    RELEASES[release](tmp_path)
    study = registry.find("studies", name).at_scale("paper", 1)
    with paper_data.stubbed(tmp_path / "nothing") as planner:
        cells = (study.with_settings(settings) if settings else study).cells(planner)
        planned = next(cell for cell in cells if (cell.label, cell.row, cell.column) == (label, row, column))
    run_short(planned, "paper", tmp_path)


def run_short(planned, scale, tmp_path):
    """The cell after two steps of every stage with one block, on data instead of the stub of its plan."""
    recipe = from_dict(to_dict(planned.recipe))
    train = len(recipe.task.load("train"))
    stages = tuple(
        replace(stage, budget=Budget(steps=2), evals=1, batch=min(stage.batch, train, BATCH))
        for stage in recipe.stages
    )
    recipe = replace(recipe, model=replace(recipe.model, depth=1), stages=stages)
    short, column = replace(planned, recipe=recipe), planned.column
    experiment = Experiment("one-cell", "One cell", (short,), ((column, column),), scale)
    with run_context(replace(Workspace.of(tmp_path / "runs", "cpu", "1"), quiet=True)) as here:
        (found,) = read(run_experiment(experiment, here).path).cells
    assert found.reported is not None and np.isfinite(found.score)
    assert [stage.steps for stage in found.stages] == [2] * len(stages)
    return found
