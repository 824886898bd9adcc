"""Laws that every objective on the shelf keeps; a new file is tested without being named here."""

import json
import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from sklearn.metrics import accuracy_score, f1_score, matthews_corrcoef

import several
import toys
from selfpretrain import registry
from selfpretrain.config import from_dict, to_dict
from selfpretrain.data.dataset import Batch, SequenceDataset, generator
from selfpretrain.data.spec import PositionClasses, SequenceSpec, Tokens
from selfpretrain.errors import SpecError
from selfpretrain.mixers.attention import Attention
from selfpretrain.objectives.base import Objective, objective_for
from selfpretrain.objectives.classify import Classify
from selfpretrain.objectives.common.heads import pool_features
from selfpretrain.objectives.common.joint import Joint
from selfpretrain.objectives.common.masked_inputs import MaskedInputs
from selfpretrain.objectives.masked import Masked
from selfpretrain.objectives.token_classify import MAX_COUNTED, matthews
from selfpretrain.registry import name_of
from selfpretrain.report.analysis import _correct
from selfpretrain.report.stage_results import Predictions
from selfpretrain.report.statistics import example_half_width
from selfpretrain.training.evaluate import evaluate
from selfpretrain.training.model import Model

NAMES = registry.names("objectives")
OBJECTIVES = {name: registry.find("objectives", name) for name in NAMES}
every_objective = pytest.mark.parametrize("name", NAMES)
TARGETS = ("classes", "reals", "sets", "positions")
TASKS = [several.majority(t, signal=s) for s in ("tokens", "values") for t in TARGETS]


def suits(objective, task):
    if objective.needs_tokens and task.signal != "tokens":
        return False
    if not objective.labelled:  # what is to be told of the inputs does not depend on labels
        return task.target == "classes"
    return objective.target_type is type(task.form.target)


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
    return net(targets.batch.inputs, targets.batch.padding_mask, targets.masked, targets.loss_mask)


@every_case
def test_answers_do_not_see_what_they_must_tell(objective, task):
    """Change the inputs only where an answer is wanted: the answers there must stay."""
    if objective.labelled:
        pytest.skip("labels are not among the inputs")
    if objective.sees_answers:
        pytest.skip("asks about the inputs that it shows")
    data, net = task.load("train"), network(objective, task)
    batch = data.batch(torch.arange(8))
    targets = objective.make_targets(batch, task.form, generator("test"))
    wanted = targets.loss_mask.roll(1, 1) if objective.needs_causal else targets.loss_mask
    if objective.needs_causal:  # change only the very last answer of each sequence: nothing later may use it
        last = wanted & ~wanted.roll(-1, 1)
        wanted = last
    flipped = torch.where(
        wanted.view(*wanted.shape, *[1] * (batch.inputs.ndim - 2)), 1 - batch.inputs, batch.inputs
    )
    other = Batch(flipped, batch.padding_mask, batch.targets)
    changed = objective.make_targets(other, task.form, generator("test"))
    torch.testing.assert_close(answers(net, targets), answers(net, changed))
    assert not torch.equal(targets.labels[targets.loss_mask], changed.labels[changed.loss_mask])


def test_labels_beyond_the_end_and_unknown_ones_are_not_scored():
    task, objective = several.Several(target="positions"), OBJECTIVES["token-classify"]()
    data = task.load("train")
    shorter = replace(data, lengths=data.lengths.clamp(max=10), targets=data.targets.clone())
    shorter.targets[:, 3] = -1
    targets = objective.make_targets(shorter.batch(torch.arange(16)), task.form, generator("test"))
    assert targets.size == sum(min(int(n), 10) - 1 for n in data.lengths[0, :16])
    outputs = torch.randn(int(targets.loss_mask.sum()), 2, generator=generator("outputs"))
    outputs[targets.selected_labels() == -1] = 1e9
    assert torch.isfinite(objective.loss(outputs, targets, task.form))
    right = (outputs.argmax(1) == targets.selected_labels()).sum()
    assert objective.metric_sums(outputs, targets, task.form)["right"] == right


@pytest.mark.parametrize("classes", [2, 5, MAX_COUNTED + 1])
def test_the_correlation_is_that_of_scikit_learn_over_known_positions(classes):
    objective = OBJECTIVES["token-classify"]()
    form = SequenceSpec(Tokens(2), 50, PositionClasses(tuple(map(str, range(classes)))))
    random = np.random.RandomState(0)
    y_true = random.randint(-1, classes, (8, 50)).astype(np.int16)
    data = SequenceDataset.from_array(np.zeros((8, 50), np.uint8), y_true)
    targets = objective.make_targets(data.batch(torch.arange(8)), form, generator("test"))
    outputs = torch.randn(400, classes, generator=generator("outputs"))
    outputs[torch.arange(400), torch.from_numpy(y_true.ravel()).clamp(min=0).long()] += 1.0
    sums = {k: float(v) for k, v in objective.metric_sums(outputs, targets, form).items()}
    known, y_pred = y_true.ravel() >= 0, outputs.argmax(1).numpy()
    expected = matthews_corrcoef(y_true.ravel()[known], y_pred[known])
    found = objective.scores(sums)
    assert found.get("MCC") == (pytest.approx(expected) if classes <= MAX_COUNTED else None)
    assert expected > 0.1
    assert matthews([300.0, 100.0], [400.0, 0.0], 300.0) == 0.0 == matthews([0.0, 0.0], [0.0, 0.0], 0.0)


@pytest.mark.parametrize("target", TARGETS)
def test_every_kind_of_target_has_an_objective_and_others_say_which(target):
    form = several.majority(target).form
    suited = objective_for(form.target)
    assert suited.target_type is type(form.target)
    for name, other in OBJECTIVES.items():
        if other.labelled and other is not suited:
            with pytest.raises(
                SpecError, match=f"{name} does not suit .* are {target}; use {name_of(suited)}"
            ):
                other().head(form, 8, "mean")


def test_micro_f1_counts_all_classes_of_all_examples_together():
    task, objective = several.Several(), OBJECTIVES["multilabel"]()
    targets = objective.make_targets(task.load("train").batch(torch.arange(40)), task.form, generator("test"))
    outputs = torch.randn(40, 2, generator=generator("outputs"))
    sums = {k: float(v) for k, v in objective.metric_sums(outputs, targets, task.form).items()}
    found, right = (outputs > 0).numpy(), targets.labels.numpy()
    assert objective.scores(sums)["score"] == pytest.approx(f1_score(right, found, average="micro"))
    assert objective.scores(sums)["exact match"] == pytest.approx(accuracy_score(right, found))
    nothing = dict.fromkeys(sums, 0.0) | {"examples": 40.0, "equal": 40.0}
    assert objective.scores(nothing)["score"] == 1.0


@every_case
def test_only_objectives_that_pool_have_other_heads_with_another_pooling(objective, task):
    mean, learned = (objective.head(task.form, 8, pooling).state_dict() for pooling in ("mean", "attention"))
    assert objective.pools == (mean.keys() != learned.keys())


@every_case
def test_sequences_are_embedded_as_the_head_sees_them(objective, task):
    head = objective.head(task.form, 8, "attention")
    x = torch.randn(2, 5, 8, generator=generator("x"))
    query = torch.zeros(8)
    for name, weight in head.named_parameters():
        if name.endswith("query"):
            query = weight.data.normal_(generator=generator("query"))
    expected = ((x @ query).softmax(1)[..., None] * x).sum(1)
    torch.testing.assert_close(pool_features(head, x, None, "attention"), expected)


@every_case
def test_loss_and_tallies_add_up_over_batches_and_reach_every_trained_parameter(objective, task):
    data, net = task.load("train"), network(objective, task)
    batch = data.batch(torch.arange(16))
    whole = objective.make_targets(batch, task.form, generator("test"))
    if whole.loss_mask is not None:  # padding is never asked
        assert not (whole.loss_mask & ~batch.real()).any()
        assert whole.size == whole.loss_mask.sum()
    parts = [whole.part(rank, 4) for rank in range(4)]
    outputs = answers(net, whole)
    loss = objective.loss(outputs, whole, task.form)
    with torch.no_grad():
        total = objective.metric_sums(outputs, whole, task.form)
        sums = [objective.metric_sums(answers(net, part), part, task.form) for part in parts]
        losses = sum(objective.loss(answers(net, part), part, task.form) for part in parts)
    torch.testing.assert_close(losses, loss.detach())
    for key in set(total) - {"examples"}:  # the size of a part counts the whole
        added = sum(s[key].double() for s in sums)
        torch.testing.assert_close(added, total[key].double(), rtol=1e-5, atol=1e-5)
    scores = objective.scores({key: float(value) for key, value in total.items()})
    assert {"score", "loss"} <= set(scores)
    assert all(math.isfinite(value) for value in scores.values())
    loss.backward()
    missing = {n for n, p in net.named_parameters() if p.grad is None}
    assert missing <= (set() if objective.masks_inputs else {"embed.mask_token"})


@every_objective
def test_a_uniform_guess_costs_the_logarithm_of_the_choices(name):
    objective = OBJECTIVES[name]()
    assert isinstance(objective, Objective)
    assert from_dict(json.loads(json.dumps(to_dict(objective)))) == objective
    task = next(task for task in TASKS if suits(objective, task))
    if task.target == "reals":
        return  # not a choice
    targets = objective.make_targets(task.load("train").batch(torch.arange(16)), task.form, generator("test"))
    if targets.labels.is_floating_point():
        return
    count = int(targets.size)
    loss = objective.loss(torch.zeros(count, 2), targets, task.form) / count
    assert float(loss) == pytest.approx(math.log(2), rel=1e-5)


@pytest.mark.parametrize("target", ["sets", "positions"])
def test_what_examples_add_gives_the_score_again(target):
    """And to first order the same where some examples are drawn again, as its standard error assumes."""
    task = several.majority(target)
    objective = objective_for(task.form.target)()
    net = network(objective, task)
    found = evaluate(net, objective, task.load("train"), task.form)
    right, asked, labels = found.shares.long().T.numpy()
    kept = Predictions(right, labels, asked=asked)
    assert kept.score() == pytest.approx(found.scores["score"])
    assert _correct(kept).mean() == pytest.approx(found.scores["score"])
    rows = np.random.default_rng(0).integers(len(right), size=(200, len(right)))
    resampled = right[rows].sum(1) / asked[rows].sum(1)
    assert example_half_width(_correct(kept)) == pytest.approx(1.96 * resampled.std(), rel=0.2)
    assert found.predictions is None


@pytest.mark.parametrize("target", TARGETS)
def test_confidence_is_the_probability_of_the_answer(target):
    task = several.majority(target)
    objective = objective_for(task.form.target)()
    net, data = network(objective, task), task.load("train")
    found = evaluate(net, objective, data, task.form)
    if target != "classes":
        assert found.confidence is None
        return
    batch = data.batch(torch.arange(len(data)))
    with torch.no_grad():
        probabilities = net(batch.inputs, batch.padding_mask).softmax(1)
    assert (found.predictions == probabilities.argmax(1)).all()
    torch.testing.assert_close(found.confidence, probabilities.amax(1).double(), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("name", "target"),
    [("classify", "classes"), ("regress", "reals"), ("multilabel", "sets"), ("token-classify", "positions")],
)
def test_a_weight_of_two_is_an_example_twice(name, target):
    """In the sum of losses, whose gradient training follows."""
    task, objective = several.majority(target), OBJECTIVES[name]()
    data = task.load("train")
    rows, twice = torch.arange(4), torch.tensor([0, 1, 2, 3, 3])
    asked = objective.make_targets(data.batch(rows), task.form, generator("weights"))
    weighed = replace(asked, batch=replace(asked.batch, weights=torch.tensor([1.0, 1.0, 1.0, 2.0])))
    repeated = objective.make_targets(data.batch(twice), task.form, generator("weights"))
    answers = len(asked.selected_labels())
    outputs = torch.randn(answers, task.form.target.outputs, generator=generator("weights"))
    again = outputs[answers - (1 if asked.loss_mask is None else int(asked.loss_mask[-1].sum())) :]
    loss = objective.loss(outputs, weighed, task.form)
    both = objective.loss(torch.cat([outputs, again]), repeated, task.form)
    assert loss.item() == pytest.approx(both.item())


@pytest.mark.parametrize(
    ("name", "target"), [("classify", "classes"), ("multilabel", "sets"), ("token-classify", "positions")]
)
def test_weights_of_classes_must_be_as_many(name, target):
    task, objective = several.majority(target), OBJECTIVES[name]
    with pytest.raises(SpecError, match="3 class weights for 2 classes"):
        objective(weights=(1.0, 1.0, 1.0)).head(task.form, 8, "mean")
    asked = objective().make_targets(task.load("train").batch(torch.arange(8)), task.form, generator("w"))
    outputs = torch.zeros(len(asked.selected_labels()), 2)
    one, two = (float(objective(weights=w).loss(outputs, asked, task.form)) for w in ((), (1.0, 3.0)))
    assert two > one


# ---- labels and denoising at once


@pytest.mark.parametrize("name", [n for n in NAMES if getattr(OBJECTIVES[n], "rebuilds", False)])
def test_every_parameter_that_joint_training_trains_gets_a_gradient(name):
    denoise = OBJECTIVES[name]()
    task = next(task for task in TASKS if suits(denoise, task))
    data = task.load("train")
    objective = Joint(Classify(), denoise).measured(data)
    net = network(objective, task)
    targets = objective.make_targets(data.batch(torch.arange(16)), task.form, generator("test"))
    objective.loss(answers(net, targets), targets, task.form).backward()
    missing = {name for name, p in net.named_parameters() if p.grad is None}
    assert missing == (set() if objective.masks_inputs else {"embed.mask_token"})


@pytest.fixture
def joint():
    task = toys.Majority()
    objective = Joint(Classify(), Masked(0.5), 0.25)
    torch.manual_seed(0)
    network = Model(Attention(2), 8, 1).build(task.form, objective.head(task.form, 8, "mean"))
    return objective, task.form, network, task.load("train").batch(torch.arange(6))


def test_the_loss_is_the_sum_of_both(joint):
    objective, form, network, batch = joint
    targets = objective.make_targets(batch, form, generator(1))
    whole = objective.loss(answers(network, targets), targets, form)
    x = network.features(batch.inputs, batch.padding_mask, targets.masked)
    masked = objective.denoise.make_targets(batch, form, generator(1))
    rebuilt = objective.denoise.loss(
        network.head.rebuild(x, batch.padding_mask, masked.loss_mask), masked, form
    )
    asked = objective.labels.make_targets(batch, form, generator(1))
    answered = objective.labels.loss(network.head.labels(x, batch.padding_mask), asked, form)
    torch.testing.assert_close(whole, answered + 0.25 * 6 * rebuilt / masked.size)
    assert int(targets.size) == 6
    whole.backward()
    assert all(p.grad is not None and p.grad.abs().sum() > 0 for p in network.head.parameters())
    assert from_dict(to_dict(objective)) == objective


def test_nothing_is_hidden_where_nothing_is_trained(joint):
    objective, form, network, batch = joint
    with torch.no_grad():
        targets = objective.make_targets(batch, form, generator(1))
        outputs = answers(network, targets)
    assert targets.masked is None and outputs.shape == (6, 2)
    sums = objective.metric_sums(outputs, targets, form)
    assert sums == objective.labels.metric_sums(outputs, targets, form)
    assert objective.predict(outputs).shape == (6,)


# ---- labels with masked inputs


@pytest.mark.parametrize("signal", ["tokens", "values"])
def test_labels_with_masked_inputs_do_not_depend_on_what_is_masked(signal):
    task, objective = toys.Majority(signal=signal), MaskedInputs(Classify(), 1.0)
    net, batch = network(objective, task), task.load("train").batch(torch.arange(16))
    targets = objective.make_targets(batch, task.form, generator("test"))
    hidden = targets.masked.view(*targets.masked.shape, *[1] * (batch.inputs.ndim - 2))
    other = replace(batch, inputs=torch.where(hidden, 1 - batch.inputs, batch.inputs))
    changed = objective.make_targets(other, task.form, generator("test"))
    assert torch.equal(answers(net, targets), answers(net, changed))
    shares = (targets.masked.sum(1) / batch.real().sum(1)).tolist()
    assert not (targets.masked & ~batch.real()).any()
    assert min(shares) < 0.3 and max(shares) > 0.7  # a rate for each example
    parts = [answers(net, targets.part(rank, 4)) for rank in range(4)]
    torch.testing.assert_close(torch.stack(parts, 1).flatten(0, 1), answers(net, targets))


def test_a_wrapped_objective_pools_if_the_objective_does():
    assert MaskedInputs(Classify()).pools and not MaskedInputs(Masked()).pools


def test_inputs_are_masked_in_training_alone():
    task, objective = toys.Majority(), MaskedInputs(Classify())
    assert objective.masks_inputs and objective.labelled and name_of(objective) == "noisy-classify"
    with torch.no_grad():
        batch = task.load("train").batch(torch.arange(4))
        assert objective.make_targets(batch, task.form, generator("test")).masked is None
