"""Tables of the papers: further mixers as rows of any of them."""

import pydantic
import pytest

import paper_data
from selfpretrain import registry
from selfpretrain.mixers.attention import Attention
from selfpretrain.mixers.gru import GRU
from selfpretrain.mixers.linear import Linear
from selfpretrain.mixers.wavegan import WaveGAN
from selfpretrain.runner.experiment import Finished
from selfpretrain.runner.workspace import Workspace
from selfpretrain.studies import amos_figure_3, rivals
from selfpretrain.studies.arms.base import USUAL, resolve_arms
from selfpretrain.tasks.image_jpeg import ImageJpeg
from selfpretrain.tasks.paths import Paths

SMALL_GRU = GRU(states=8)


def table(name, mixers=(), scale="smoke", planner=paper_data.ROUGH):
    study = registry.find("studies", name).at_scale(scale, seeds=1)
    cells = list(study.with_mixers(mixers).cells(planner))
    return {(cell.label, registry.name_of(cell.recipe.task), cell.row, cell.column): cell for cell in cells}


@pytest.mark.parametrize(
    ("name", "first", "rows"),
    [
        ("amos-table-7", "S4", {"gru", "gru, random"}),
        ("amos-table-8", "Transformer", {"gru"}),
        pytest.param(
            *("amos-table-9", "Transformer", {f"gru · {size}" for size in ("10K", "35K", "70K", "140K")}),
            marks=pytest.mark.slow,
        ),
        ("coser-table-4", "independent start", {"gru"}),
        pytest.param("locality", "attention to all", {"gru"}, marks=pytest.mark.slow),
    ],
)
def test_a_further_mixer_is_treated_as_the_first_row(name, first, rows):
    before, after = table(name), table(name, (SMALL_GRU,))
    assert {place: cell.recipe for place, cell in after.items() if place in before} == {
        place: cell.recipe for place, cell in before.items()
    }
    added = {place: cell for place, cell in after.items() if place not in before}
    assert {row for _, _, row, _ in added} == rows
    assert all(cell.recipe.model.mixer == SMALL_GRU and cell.reported is None for cell in added.values())
    own = [place for place in before if place[2] == first or place[2].startswith((f"{first} ", f"{first},"))]
    on_one_task = {(label, column) for label, _, _, column in own}
    assert {(label, column) for label, _, _, column in added} == on_one_task


def test_a_further_mixer_has_what_the_first_row_has_at_the_small_scale(monkeypatch):
    monkeypatch.setattr(rivals, "ARMS", resolve_arms(USUAL))
    monkeypatch.setattr(rivals, "TUNED", {})  # what was chosen for one architecture and arm
    images = ImageJpeg(made_up=True)
    paths = Paths(train=160, val=40, test=40)
    for name, label, task in (("long-images", "Image", images), ("rivals", "Pathfinder", paths)):
        study = registry.find("studies", name).at_scale("small", seeds=1).with_mixers((SMALL_GRU,))
        cells = list(study.task_cells(label, task, paper_data.ROUGH))
        first, ours = ([c.recipe for c in cells if c.row == row] for row in ("Transformer", "gru"))
        for theirs, own in zip(first, ours, strict=True):
            assert own.model.mixer == SMALL_GRU and own.model.width == theirs.model.width
            assert [stage.optim for stage in own.stages] == [stage.optim for stage in theirs.stages]
            assert own.stages[0].budget.steps == theirs.stages[0].budget.steps


def test_a_further_mixer_keeps_what_it_was_given():
    study = registry.find("studies", "pooling").at_scale("small", seeds=1).with_mixers((Attention(heads=8),))
    cells = study.task_cells("Pathfinder", Paths(train=160, val=40, test=40), paper_data.ROUGH)
    assert {cell.recipe.model.mixer.heads for cell in cells if cell.row == "attention"} == {8}


def test_several_are_told_apart():
    after = table("coser-table-1", (Linear(), SMALL_GRU, GRU(states=4)))
    assert {"linear", "gru, states 8", "gru, states 4"} <= {row for _, _, row, _ in after}


def test_at_the_papers_scale_it_has_the_first_row_s_network(tmp_path):
    with paper_data.stubbed(tmp_path) as planner:
        cells = table("amos-table-2", (SMALL_GRU,), "paper", planner)
    ours = cells["Image", "image", "gru", "SPT"].recipe
    theirs = cells["Image", "image", "Transformer", "SPT"].recipe
    assert (ours.model.width, ours.model.depth) == (theirs.model.width, theirs.model.depth) == (256, 6)
    assert [stage.optim for stage in ours.stages] == [stage.optim for stage in theirs.stages]
    assert ours.model.mixer == SMALL_GRU and ours.model.encoding == "none"


@pytest.mark.parametrize("name", ["coser-table-1", "amos-table-1"])
def test_what_cannot_be_pretrained_has_the_arms_from_scratch(name):
    after = table(name, (WaveGAN(),))
    columns = {column for _, _, row, column in after if row == "wavegan"}
    assert columns == {"scratch", "scratch (matched)"}
    with pytest.raises(pydantic.ValidationError, match="answers once per sequence"):
        table("amos-table-8", (WaveGAN(),))


def test_what_cannot_be_pretrained_has_no_gain_to_be_drawn(monkeypatch):
    monkeypatch.setattr(amos_figure_3, "mean_score", lambda *given: 50.0)
    study = amos_figure_3.DataScale.at_scale("smoke", seeds=1)
    ours = table("amos-figure-3", (WaveGAN(),)).values()
    by_task = {"Text": [cell for cell in ours if cell.label == "Text"]}
    monkeypatch.setattr(amos_figure_3.DataScale, "cells_by_task", lambda self: by_task)
    (drawn,) = study.measures(Finished(Workspace.of(".", "cpu", "1")))
    assert [curve["label"] for curve in drawn["series"]] == ["Transformer", "S4D"]
