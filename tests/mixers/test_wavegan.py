"""The discriminator: as large as was published, one answer per sequence, training from scratch only."""

import json

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

import toys
from selfpretrain.api import comparison
from selfpretrain.cli import app
from selfpretrain.config import to_dict
from selfpretrain.mixers.attention import Attention
from selfpretrain.mixers.base import LayerContext
from selfpretrain.mixers.wavegan import WaveGAN
from selfpretrain.objectives.classify import Classify
from selfpretrain.objectives.masked import Masked
from selfpretrain.objectives.token_classify import TokenClassify
from selfpretrain.runner.run_dir import RunDir
from selfpretrain.studies.recipes.arms import MATCHED, SCRATCH, SPT
from selfpretrain.tasks.state_tracking import StateTracking
from selfpretrain.training import cost
from selfpretrain.training.model import Model
from selfpretrain.training.recipe import Budget, Recipe, Stage

SMALL = WaveGAN(channels=2, stages=2)


def test_it_has_the_parameters_that_were_published():
    with torch.device("meta"):
        layer = WaveGAN(channels=64).build(LayerContext(1, 16_000))
    without_answers = sum(p.numel() for name, p in layer.named_parameters() if not name.startswith("out."))
    assert layer.out.in_features == 16 * 1024
    assert without_answers + 10 * (16 * 1024 + 1) == 26_286_310


@given(length=st.integers(1, 40), rows=st.integers(1, 3))
@settings(max_examples=5, deadline=None)
def test_every_position_has_the_one_answer_whatever_the_padding(length, rows):
    toys.settle()
    layer, x = SMALL.build(LayerContext(4, 40)), torch.randn(rows, 40, 4)
    padding_mask = (torch.arange(40) < length).expand(rows, 40)
    y = layer(x[:, :length])
    assert torch.equal(y, y[:, :1].expand_as(y))
    torch.testing.assert_close(layer(x, padding_mask)[:, :length], y)


def test_it_stands_in_its_block_alone_and_denoising_and_causality_are_refused():
    form, model, one = toys.Majority().form, Model(SMALL, 4, 1, 0), Budget(steps=1)
    network = model.build(form, Classify().head(form, 4, "mean"))
    names = {name.rpartition(".")[0] for name, _ in network.named_parameters() if ".mixer." not in name}
    assert names == {"embed", "embed.symbol", "norm.norm", "head.before", "head.linear"}
    assert Recipe(toys.Majority(), model, (Stage(Classify(), one),)).model == model
    with pytest.raises(ValidationError, match="once per sequence"):
        Recipe(toys.Majority(), model, (Stage(Masked(), one), Stage(Classify(), one)))
    with pytest.raises(ValidationError, match="use a bidirectional model or another mixer"):
        Model(SMALL, 4, 1, 0, causal=True)


@pytest.mark.parametrize("objective", ["masked", "causal"])
def test_a_comparison_has_its_scratch_arms_and_says_why(objective):
    study = comparison(toys.Majority(), (Attention(heads=2), SMALL), objective, 2, "smoke", {})
    found = {(cell.row, cell.column) for cell in study.cells()}
    assert found == {("attention", c) for c in (SCRATCH, MATCHED, SPT)} | {
        ("wavegan", c) for c in (SCRATCH, MATCHED)
    }
    steps = {cell.column: cost.plan(cell.recipe).steps for cell in study.cells() if cell.row == "wavegan"}
    assert steps == {SCRATCH: 4, MATCHED: 8}, "the tied arm has the steps of both stages"
    assert next(line for line in study.notes() if "no SPT" in line).startswith("wavegan: ")
    models = {cell.recipe.model for cell in study.cells() if cell.row == "wavegan"}
    assert {(m.depth, m.expand, m.causal) for m in models} == {(1, 0, False)}


def test_a_recipe_that_pretrains_it_ends_with_one_line_and_a_check_says_so(tmp_path, capsys):
    stages = (Stage(Masked(), Budget(steps=1)), Stage(Classify(), Budget(steps=1)))
    plain = to_dict(Recipe(toys.Majority(), Model(Attention(heads=2), 4, 1, 0), stages))
    plain["model"]["mixer"] = to_dict(SMALL)
    RunDir(tmp_path).write("recipe.json", plain)
    assert app.run(["run", str(tmp_path / "recipe.json"), "--trust", "toys", "--runs", str(tmp_path)]) == 2
    error = capsys.readouterr().err
    assert "leave out the masked stage and train it from scratch" in error
    assert error.count("\n") == 1
    command = ["check", "wavegan", "--width", "4", "--length", "40"]
    assert app.run(command) == 0
    assert "no, it answers once per sequence; from scratch: classify, regress" in capsys.readouterr().out
    assert app.run([*command, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["checks"][0]["objectives"] == []
    assert app.run(["check", "wavegan", "--causal"]) == 2


def test_labels_of_positions_are_refused():
    """All positions have the same output."""
    stage = Stage(TokenClassify(), Budget(steps=1))
    with pytest.raises(ValidationError, match="answers once per sequence, and token-classify asks at every"):
        Recipe(StateTracking().tiny(), Model(WaveGAN()), (stage,))
