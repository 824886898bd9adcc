"""A recipe gives the numbers it gave: draws, batches, steps and rates are what its fingerprint stands for.

Whoever changes these numbers on purpose raises ``RESULTS`` (training/recipe.py) and writes the file again:
python tests/training/test_golden.py
"""

import tempfile
from pathlib import Path

import pytest

import toys
from selfpretrain import registry
from selfpretrain.mixers.attention import Attention
from selfpretrain.objectives.classify import Classify
from selfpretrain.objectives.masked import Masked
from selfpretrain.objectives.regress import Regress
from selfpretrain.runner.stage import run
from selfpretrain.runner.workspace import Workspace
from selfpretrain.training.model import Model
from selfpretrain.training.recipe import Budget, Recipe, Stage
from selfpretrain.training.run_dir import RunDir

GOLDEN = Path(__file__).parent / "golden" / "losses.tsv"
WIDTH = 8


def model(mixer, **settings):
    return Model(mixer, width=WIDTH, depth=2, dropout=0.1, **settings)


def stages(*objectives):
    return tuple(Stage(objective, Budget(steps=4), batch=16, evals=1) for objective in objectives)


def small(mixer):
    return mixer(heads=2) if "heads" in mixer.__dataclass_fields__ else mixer()


def task(**settings):
    """Of equal lengths: a step's operations are counted once for each length."""
    return toys.Majority(length=16, shortest=16, **settings)


def mixers():
    for name in registry.names("mixers"):
        mixer = small(registry.find("mixers", name))
        yield f"mixer {name}", task(), model(mixer), stages(Classify())


def objectives():
    for signal in ("tokens", "values"):
        for name in ("masked", "causal"):
            objective = registry.find("objectives", name)()
            network = model(Attention(heads=2), causal=objective.needs_causal)
            yield f"{name} {signal}", task(signal=signal), network, stages(objective)
    yield "masked, then classify", task(), model(Attention(heads=2)), stages(Masked(0.5), Classify())


def heads():
    for pooling in ("mean", "max", "last"):
        yield f"pooling {pooling}", task(), model(Attention(heads=2), pooling=pooling), stages(Classify())
    for style in ("linear", "norm", "mlp", "mlp-relu"):
        for target, labelled in {"classes": Classify, "reals": Regress}.items():
            last = stages(labelled(style=style))
            yield f"head {style} {target}", task(target=target), model(Attention(heads=2)), last


CASES = {name: Recipe(*rest) for make in (mixers, objectives, heads) for name, *rest in make()}


def loss(recipe, runs):
    """Of the last stage, on the validation examples."""
    toys.settle()
    return RunDir(run(recipe, Workspace(Path(runs)))).read("result.json")["scores"]["val"]["loss"]


def golden():
    return dict(line.split("\t") for line in GOLDEN.read_text().splitlines())


def test_every_case_has_its_number():
    assert list(golden()) == list(CASES)


@pytest.mark.parametrize("name", CASES)
def test_a_recipe_gives_the_numbers_it_gave(name, tmp_path):
    assert loss(CASES[name], tmp_path) == pytest.approx(float(golden()[name]), rel=1e-4)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as runs:
        written = "".join(f"{name}\t{loss(recipe, runs):.6g}\n" for name, recipe in CASES.items())
    GOLDEN.write_text(written)
