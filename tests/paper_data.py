"""The papers' data as far as a plan needs them: what sequences look like, and how many there are.

Typed from the papers and the releases that they name. ``stand_in`` puts them in the place of the real data,
so that every cell of every study can be planned at the papers' scale without a file.
"""

from dataclasses import dataclass

import pytest
import torch

from selfpretrain.data.examples import Examples
from selfpretrain.data.schema import Classes, Form, Reals, Tokens, Values
from selfpretrain.registry import name_of
from selfpretrain.tasks._prepared import Prepared
from selfpretrain.tasks._shuffled import Shuffled
from selfpretrain.tasks.base import Task
from selfpretrain.tasks.listops import ListOps
from selfpretrain.training import cost
from selfpretrain.training.build import build_network


@dataclass(frozen=True)
class Data:
    """Form and number of examples of a task."""

    form: Form
    train: int
    val: int
    test: int


def classes(number: int) -> Classes:
    return Classes(tuple(map(str, range(number))))


PIXELS = Values(levels=256, low=0.0, high=255.0, centre=(120.0,), spread=(60.0,))
COLOURS = Values(3, levels=256, low=0.0, high=255.0, centre=(120.0,) * 3, spread=(60.0,) * 3)
PAPERS = {
    "listops": Data(Form(Tokens(15), 1_999, classes(10)), 96_000, 2_000, 2_000),
    "text": Data(Form(Tokens(136), 4_096, classes(2)), 22_500, 2_500, 25_000),
    "retrieval": Data(Form(Tokens(97), 4_000, classes(2), views=2), 147_086, 18_090, 17_437),
    "image": Data(Form(PIXELS, 1_024, classes(10)), 45_000, 5_000, 10_000),
    "scifar": Data(Form(COLOURS, 1_024, classes(10)), 45_000, 5_000, 10_000),
    "pathfinder": Data(Form(PIXELS, 32**2, classes(2)), 160_000, 20_000, 20_000),
    "pathx": Data(Form(PIXELS, 128**2, classes(2)), 160_000, 20_000, 20_000),
    "pathx256": Data(Form(PIXELS, 256**2, classes(2)), 160_000, 20_000, 20_000),
    "speech": Data(Form(Values(), 16_000, classes(35)), 84_843, 9_981, 11_005),
    "speech-mfcc": Data(Form(Values(20), 161, classes(10)), 24_482, 5_246, 5_247),
    "bidmc": Data(
        Form(Values(2, centre=(0.0,) * 2, spread=(1.0,) * 2), 4_000, Reals("HR")), 5_538, 1_200, 1_200
    ),
}


def of(task: Task) -> Data:
    """What stands in for a task of the papers."""
    name = name_of(task)
    return PAPERS.get(f"{name}-{getattr(task, 'features', '')}", PAPERS[name])


def examples(task: Task, split: str) -> Examples:
    """A split without a position in memory; sequences are as long as they can be."""
    data = of(task)
    number = {"train": data.train, "val": data.val, "test": data.test}[split]
    lengths = torch.full((data.form.views, number), data.form.length)
    targets = torch.arange(number) % 2
    real = isinstance(data.form.target, Reals)
    return Examples(torch.empty(0), lengths * 0, lengths, targets.float() if real else targets)


def stand_in(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the papers' tasks be there, as form and sizes; a step costs what its network has in parameters."""
    for kind in (Prepared, ListOps):
        monkeypatch.setattr(kind, "form", property(lambda task: of(task).form))
        monkeypatch.setattr(kind, "load", examples)
        monkeypatch.setattr(kind, "version", lambda task: "")
        monkeypatch.setattr(kind, "symbols", lambda task: None)
    monkeypatch.setattr(Shuffled, "load", lambda task, split: task.task.load(split))
    monkeypatch.setattr(cost, "known", KNOWN)
    monkeypatch.setattr(cost, "build_network", _sketched)
    monkeypatch.setattr(cost, "_flops_per_step", _per_step)


KNOWN: dict[str, cost.Plan] = {}
"""Plans of recipes on the data that stand in."""


def _sketched(recipe):
    """The network without memory for its weights, where it can be made so."""
    try:
        with torch.device("meta"):
            return build_network(recipe)
    except (RuntimeError, NotImplementedError, TypeError):  # some of its weights are worked out elsewhere
        return build_network(recipe)


def _per_step(recipe, network, data, order) -> float:
    """6 FLOPs per parameter and position, as of a network that is nothing but matrices."""
    parameters = sum(p.numel() for p in network.parameters())
    return 6.0 * parameters * order.size * data.views * float(data.longest[0])
