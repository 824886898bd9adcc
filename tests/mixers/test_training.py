"""Every mixer learns what a network cannot learn without mixing: a few examples by heart, from one position.

The head sees the last position alone, which is nearly the same in all digits (a pixel of the margin) and
quite the same in all expressions (a closing bracket): without mixing, little more can be learned than how
frequent the classes are.
"""

from dataclasses import dataclass
from functools import cache

import pytest
import torch
from torch import nn

import toys
from selfpretrain import registry
from selfpretrain.data.dataset import Batch
from selfpretrain.mixers.base import Mixer
from selfpretrain.mixers.common.own_network import own_mixer
from selfpretrain.objectives.classify import Classify
from selfpretrain.tasks.base import Task
from selfpretrain.tasks.digits import Digits
from selfpretrain.tasks.listops import ListOps
from selfpretrain.training.model import Model
from selfpretrain.training.optim import Optim, set_lr_factor

pytestmark = pytest.mark.slow

WIDTH, STEPS, LAST = 32, 50, 5


@dataclass(frozen=True)
class Lesson:
    """A task, and the loss to be reached: between the slowest learner's and that without mixing."""

    task: Task
    rate: float
    enough: float


# Losses seen: without mixing 2.25 and 1.56, of the slowest learners 1.70 (luna) and 0.53 (pythia).
LESSONS = {
    "digits": Lesson(Digits(train=16), rate=1e-2, enough=1.9),
    "listops": Lesson(ListOps(min_length=400, max_length=513, train=8, val=1, test=1), rate=5e-3, enough=1.0),
}
SHORT = {("wavegan", "digits"): {"stages": 3}}
"""Settings for 64 positions, less than its five strides by four need."""
every_lesson = pytest.mark.parametrize("lesson", LESSONS)


class Still(nn.Module):
    """A layer that does not mix."""

    def __init__(self, width):
        super().__init__()
        self.out = nn.Linear(width, width)

    def forward(self, x, padding_mask=None):
        return self.out(x)


@cache
def examples(task: Task) -> Batch:
    data = task.load("train")
    return data.batch(torch.arange(len(data)))


def learned(mixer: Mixer, lesson: Lesson) -> float:
    """The loss per example in the last steps of training on all of them at once."""
    toys.settle()
    form, objective, optim = lesson.task.form, Classify(), Optim(lr=lesson.rate)
    model = Model(mixer, width=WIDTH, depth=1, expand=0 if mixer.whole else 2, pooling="last")
    network = model.build(form, objective.head(form, WIDTH, model.pooling))
    optimizer = optim.build(network, mixer.slow())
    batch = examples(lesson.task)
    targets = objective.make_targets(batch, form, torch.Generator())
    found = []
    for step in range(STEPS):
        loss = objective.loss(network(batch.inputs, batch.padding_mask), targets, form) / targets.size
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(network.parameters(), optim.clip)
        set_lr_factor(optimizer, optim.lr_factor((step + 1) / STEPS, step + 1))
        optimizer.step()
        found.append(loss.item())
    return sum(found[-LAST:]) / LAST


@every_lesson
@pytest.mark.parametrize("name", registry.names("mixers"))
def test_learns(name, lesson):
    mixer = registry.find("mixers", name)(**SHORT.get((name, lesson), {}))
    assert learned(mixer, LESSONS[lesson]) < LESSONS[lesson].enough


@every_lesson
def test_without_mixing_it_cannot_be_learned(lesson):
    assert learned(own_mixer(f"{__name__}:Still", Still), LESSONS[lesson]) > 1.1 * LESSONS[lesson].enough
