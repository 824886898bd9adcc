"""A recipe gives what it gave: draws, batches, steps and rates are what its fingerprint stands for.

``golden/exact.tsv`` keeps what is equal to the bit on every machine. ``golden/losses.tsv`` keeps the loss
after four steps, which is another one on another processor, with the tolerance that was measured for it:
``MARGIN`` times the farthest it went when initial weights were moved by a rounding, or other kernels run.

Whoever changes these numbers on purpose raises ``RESULTS`` (training/recipe.py) and writes both files again:
PYTHONPATH=tests/support python tests/training/test_golden.py
"""

import csv
import dataclasses
import functools
import json
import math
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

import toys
from scripts import script
from selfpretrain import registry
from selfpretrain.mixers.attention import Attention
from selfpretrain.objectives.classify import Classify
from selfpretrain.objectives.masked import Masked
from selfpretrain.objectives.regress import Regress
from selfpretrain.training.model import Model
from selfpretrain.training.recipe import Budget, Recipe, Stage
from witness import Witness, witnessed

LOSSES = Path(__file__).parent / "golden" / "losses.tsv"
EXACT = LOSSES.with_name("exact.tsv")
NUDGES = range(1, 5)
KERNELS = ("default",)
"""Lanes of tools/machines.py: vector kernels of the newest processor and of the oldest differ the most."""
MARGIN, LEAST = 5, 1e-4
"""How many times the measured spread a loss may be off; and what it may be off in any case, relatively: some
spreads are the same few roundings here and a thousand of them where an operation is not smooth."""
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
        for name in ("masked", "causal", "diffusion", "spans"):
            objective = registry.find("objectives", name)()
            network = model(Attention(heads=2), causal=objective.needs_causal)
            yield f"{name} {signal}", task(signal=signal), network, stages(objective)
    yield "masked, then classify", task(), model(Attention(heads=2)), stages(Masked(0.5), Classify())


def heads():
    for pooling in ("mean", "max", "last", "attention"):
        yield f"pooling {pooling}", task(), model(Attention(heads=2), pooling=pooling), stages(Classify())
    for style in ("linear", "norm", "mlp", "mlp-relu"):
        for target, labelled in {"classes": Classify, "reals": Regress}.items():
            last = stages(labelled(style=style))
            yield f"head {style} {target}", task(target=target), model(Attention(heads=2)), last


CASES = {name: Recipe(*rest) for make in (mixers, objectives, heads) for name, *rest in make()}


@functools.cache
def found(recipe, nudge=0):
    """What a recipe draws and gives, trained once."""
    with tempfile.TemporaryDirectory() as runs:
        return witnessed(recipe, Path(runs), nudge)


def golden(path):
    """The lines of a golden file by case."""
    with path.open(newline="", encoding="utf-8") as file:
        return {line.pop("case"): line for line in csv.DictReader(file, delimiter="\t")}


@pytest.mark.parametrize("path", [LOSSES, EXACT], ids=lambda path: path.stem)
def test_every_case_has_its_numbers(path):
    assert list(golden(path)) == list(CASES)


@pytest.mark.parametrize("name", CASES)
def test_a_recipe_gives_what_it_gave(name):
    witness, exact, kept = found(CASES[name]), golden(EXACT)[name], golden(LOSSES)[name]
    assert witness.weights == pytest.approx(float(exact.pop("weights")), abs=witness.spread)
    assert witness.exact() == exact
    assert witness.loss == pytest.approx(float(kept["loss"]), rel=float(kept["tolerance"]))


def test_another_seed_draws_something_else():
    witness, exact = (
        found(dataclasses.replace(CASES["masked tokens"], seed=1)),
        golden(EXACT)["masked tokens"],
    )
    assert witness.weights != pytest.approx(float(exact["weights"]), abs=100 * witness.spread)
    changed = {key for key, value in witness.exact().items() if value != exact[key]}
    assert changed == {"batches", "masks", "draws"}


def test_another_seed_is_told_from_a_rounding_where_roundings_count_most():
    name, kept = max(golden(LOSSES).items(), key=lambda item: float(item[1]["tolerance"]))
    other = found(dataclasses.replace(CASES[name], seed=1))
    assert other.loss != pytest.approx(float(kept["loss"]), rel=10 * float(kept["tolerance"]))


def spreads(losses):
    """How far the loss of every case goes from the one that is kept, relatively; also on other processors."""
    runs = [losses_of_all(nudge) for nudge in (0, *NUDGES)]
    for lane in KERNELS:
        environment = os.environ | dict(script("machines").LANES[lane].variables)
        command = [sys.executable, __file__, "--print"]
        said = subprocess.run(command, env=environment, check=True, capture_output=True, text=True).stdout
        runs.append(json.loads(said.splitlines()[-1]))
    return {name: max(abs(run[name] / losses[name] - 1) for run in runs) for name in CASES}


def losses_of_all(nudge=0):
    return {name: found(recipe, nudge).loss for name, recipe in CASES.items()}


def rounded_up(x):
    """The next number with one digit."""
    unit = 10.0 ** math.floor(math.log10(x))
    return math.ceil(x / unit - 1e-9) * unit


def write():
    """Write both files; a loss that is what it was within its tolerance keeps its number."""
    kept = golden(LOSSES) if LOSSES.exists() else {}
    losses = losses_of_all()
    for name, old in kept.items():
        if name in losses and losses[name] == pytest.approx(float(old["loss"]), rel=float(old["tolerance"])):
            losses[name] = float(old["loss"])
    lines = ["case\tloss\ttolerance"]
    for name, spread in spreads(losses).items():
        lines.append(f"{name}\t{losses[name]:.6g}\t{rounded_up(max(LEAST, MARGIN * spread)):.1g}")
        print(f"{name}: {spread:.1e}")
    LOSSES.write_text("\n".join([*lines, ""]), encoding="utf-8")
    lines = ["\t".join(["case", "weights", *Witness(next(iter(CASES.values()))).exact()])]
    for name, recipe in CASES.items():
        witness = found(recipe)
        lines.append("\t".join([name, f"{witness.weights:.9g}", *witness.exact().values()]))
    EXACT.write_text("\n".join([*lines, ""]), encoding="utf-8")


if __name__ == "__main__":
    if "--print" in sys.argv:
        print(json.dumps(losses_of_all()))
    else:
        write()
