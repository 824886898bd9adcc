"""Laws that every objective on the shelf keeps; a new file is tested without being named here."""

import json
import math
from dataclasses import replace

import pytest
import torch

import toys
from selfpretrain import registry
from selfpretrain.data.examples import Batch, generator
from selfpretrain.errors import SpecError
from selfpretrain.mixers.attention import Attention
from selfpretrain.objectives.base import Objective
from selfpretrain.objectives.masked import Masked
from selfpretrain.spec import describe, revive
from selfpretrain.training.model import Model

NAMES = registry.names("objectives")
OBJECTIVES = {name: registry.find("objectives", name) for name in NAMES}
every_objective = pytest.mark.parametrize("name", NAMES)
TASKS = [toys.Majority(signal=s, target=t) for s in ("tokens", "values") for t in ("classes", "reals")]


def suits(objective, task):
    target = {"Classify": "classes", "Regress": "reals"}.get(type(objective).__name__)
    return target in (None, task.target)


def cases():
    return [
        pytest.param(kind(), task, id=f"{name}-{task.signal}-{task.target}")
        for name, kind in OBJECTIVES.items()
        for task in TASKS
        if suits(kind(), task)
    ]


every_case = pytest.mark.parametrize(("objective", "task"), cases())


def network(objective, task):
    toys.settle()
    head = objective.head(task.form, 8, "mean")
    model = Model(Attention(heads=2), width=8, depth=1, causal=objective.needs_causal)
    return model.build(task.form, head).eval()


def answers(net, targets):
    return net(targets.batch.inputs, targets.batch.valid, targets.hidden, targets.counts)


@every_case
def test_answers_do_not_see_what_they_must_tell(objective, task):
    """Change the inputs only where an answer is wanted: the answers there must stay."""
    if objective.labelled:
        pytest.skip("labels are not among the inputs")
    data, net = task.load("train"), network(objective, task)
    batch = data.batch(torch.arange(8))
    targets = objective.make_targets(batch, task.form, generator("test"))
    wanted = targets.counts.roll(1, 1) if objective.needs_causal else targets.counts
    if objective.needs_causal:  # change only the very last answer of each sequence: nothing later may use it
        last = wanted & ~wanted.roll(-1, 1)
        wanted = last
    flipped = torch.where(
        wanted.view(*wanted.shape, *[1] * (batch.inputs.ndim - 2)), 1 - batch.inputs, batch.inputs
    )
    other = Batch(flipped, batch.valid, batch.targets)
    changed = objective.make_targets(other, task.form, generator("test"))
    torch.testing.assert_close(answers(net, targets), answers(net, changed))
    assert not torch.equal(targets.answer[targets.counts], changed.answer[changed.counts])


@every_case
def test_padding_is_never_asked(objective, task):
    batch = task.load("train").batch(torch.arange(16))
    targets = objective.make_targets(batch, task.form, generator("test"))
    if targets.counts is not None:
        assert not (targets.counts & ~batch.real()).any()
        assert targets.size == targets.counts.sum()


@every_case
def test_tallies_add_up_over_batches(objective, task):
    data, net = task.load("train"), network(objective, task)
    whole = objective.make_targets(data.batch(torch.arange(16)), task.form, generator("test"))
    parts = [whole.part(rank, 4) for rank in range(4)]
    with torch.no_grad():
        total = objective.metric_sums(answers(net, whole), whole, task.form)
        sums = [objective.metric_sums(answers(net, part), part, task.form) for part in parts]
        loss = objective.loss(answers(net, whole), whole, task.form)
        losses = sum(objective.loss(answers(net, part), part, task.form) for part in parts)
    torch.testing.assert_close(losses, loss)
    for key in total:
        if key != "examples":  # the size of a part counts the whole
            torch.testing.assert_close(
                sum(s[key].double() for s in sums), total[key].double(), rtol=1e-5, atol=1e-5
            )


@every_case
def test_scores_have_score_and_loss(objective, task):
    data, net = task.load("train"), network(objective, task)
    targets = objective.make_targets(data.batch(torch.arange(16)), task.form, generator("test"))
    with torch.no_grad():
        metric_sums = {
            k: float(v) for k, v in objective.metric_sums(answers(net, targets), targets, task.form).items()
        }
    scores = objective.scores(metric_sums)
    assert {"score", "loss"} <= set(scores)
    assert all(math.isfinite(value) for value in scores.values())


@every_case
def test_loss_reaches_every_trained_parameter(objective, task):
    data, net = task.load("train"), network(objective, task)
    targets = objective.make_targets(data.batch(torch.arange(16)), task.form, generator("test"))
    objective.loss(answers(net, targets), targets, task.form).backward()
    missing = {n for n, p in net.named_parameters() if p.grad is None}
    assert missing <= (set() if objective.hides else {"embed.hole"})


@every_objective
def test_spec_survives_json(name):
    objective = OBJECTIVES[name]()
    assert isinstance(objective, Objective)
    assert revive(json.loads(json.dumps(describe(objective)))) == objective


@every_objective
def test_a_uniform_guess_costs_the_logarithm_of_the_choices(name):
    objective, task = OBJECTIVES[name](), toys.Majority()
    if not suits(objective, task):
        pytest.skip("not a choice")
    targets = objective.make_targets(task.load("train").batch(torch.arange(16)), task.form, generator("test"))
    count = int(targets.size)
    loss = objective.loss(torch.zeros(count, 2), targets, task.form) / count
    assert float(loss) == pytest.approx(math.log(2), rel=1e-5)


@pytest.mark.parametrize("rate", [0.1, 0.5, 1.0])
def test_masking_rate_is_kept(rate):
    task = toys.Majority(length=200, shortest=100, examples=64)
    batch = task.load("train").batch(torch.arange(64))
    targets = Masked(rate).make_targets(batch, task.form, generator("test"))
    n = int(batch.real().sum())
    assert abs(int(targets.size) - rate * n) <= 4 * (rate * (1 - rate) * n) ** 0.5


@pytest.mark.parametrize(("name", "target"), [("classify", "classes"), ("regress", "reals")])
def test_a_weight_of_two_is_an_example_twice(name, target):
    """In the sum of losses, whose gradient training follows."""
    task, objective = toys.Majority(target=target), OBJECTIVES[name]()
    data = task.load("train")
    rows, twice = torch.arange(4), torch.tensor([0, 1, 2, 3, 3])
    outputs = torch.randn(4, 2 if target == "classes" else 1, generator=generator("weights"))
    asked = objective.make_targets(data.batch(rows), task.form, generator("weights"))
    weighed = replace(asked, batch=replace(asked.batch, weights=torch.tensor([1.0, 1.0, 1.0, 2.0])))
    repeated = objective.make_targets(data.batch(twice), task.form, generator("weights"))
    loss = objective.loss(outputs, weighed, task.form)
    assert loss.item() == pytest.approx(objective.loss(outputs[twice], repeated, task.form).item())


def test_weights_of_classes_must_be_as_many():
    classify = OBJECTIVES["classify"]
    form = toys.Majority(target="classes").form
    with pytest.raises(SpecError, match="3 class weights for 2 classes"):
        classify(weights=(1.0, 1.0, 1.0)).head(form, 8, "mean")
