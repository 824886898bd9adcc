"""Targets of n-gram statistics are those of all training sequences, at the boundaries of each position."""

import math
from collections import Counter
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
import torch

import toys
from selfpretrain.config import to_dict
from selfpretrain.data.dataset import SequenceDataset, generator
from selfpretrain.data.ngrams import BOUNDARIES
from selfpretrain.errors import SpecError
from selfpretrain.mixers.attention import Attention
from selfpretrain.objectives.classify import Classify
from selfpretrain.objectives.common.joint import Joint
from selfpretrain.objectives.ngram_statistics import OUTPUTS, NgramStatistics
from selfpretrain.runner.experiment import Finished
from selfpretrain.runner.stage import run
from selfpretrain.runner.workspace import Workspace
from selfpretrain.system.files import read_json
from selfpretrain.training.evaluate import evaluate
from selfpretrain.training.model import Model
from selfpretrain.training.recipe import Budget, Recipe, Stage, fingerprint, measured

SEQUENCES = [[1, 2, 1, 2, 3], [2, 1, 2], [3, 3, 1, 2], [1], [2, 3, 1]]
N = len(BOUNDARIES)


@pytest.fixture
def form():
    return toys.Majority(signal="tokens").form


def dataset(sequences):
    return SequenceDataset.from_sequences([np.array(s) for s in sequences], np.zeros(len(sequences)))


def targets(objective, data, form):
    return objective.make_targets(data.batch(torch.arange(len(data))), form, generator("ngrams"))


def entropy(counts):
    total = sum(counts.values())
    return -sum(n / total * math.log(n / total) for n in counts.values())


def expected():
    """The information and the entropy of what follows one symbol, at each boundary inside a sequence."""
    ones = Counter(x for s in SEQUENCES for x in s)
    twos = Counter((a, b) for s in SEQUENCES for a, b in pairwise(s))
    follows = {a: entropy(Counter({p: n for p, n in twos.items() if p[0] == a})) for a in ones}
    pairs = [(a, b) for s in SEQUENCES for a, b in pairwise(s)]
    information = [math.log(twos[p]) - math.log(ones[p[0]]) - math.log(ones[p[1]]) for p in pairs]
    numbers = np.array([information, [follows[a] for a, _ in pairs]])
    return (numbers - numbers.mean(1, keepdims=True)) / numbers.std(1, keepdims=True)


def test_the_labels_are_the_numbers_of_both_boundaries_of_a_position(form):
    data = dataset(SEQUENCES)
    asked = targets(NgramStatistics().measured(data), data, form)
    inner = [(row, t) for row, s in enumerate(SEQUENCES) for t in range(len(s) - 1)]
    rows, places = torch.tensor(inner).T
    after = asked.labels[rows, places, N:]
    torch.testing.assert_close(after, asked.labels[rows, places + 1, :N])
    np.testing.assert_allclose(after[:, :2].T, expected(), rtol=1e-5, atol=1e-6)


def test_boundaries_beyond_an_end_have_no_weight(form):
    data = dataset(SEQUENCES)
    weights = targets(NgramStatistics().measured(data), data, form).position_weights * OUTPUTS
    for row, sequence in enumerate(SEQUENCES):
        known = torch.zeros(5, OUTPUTS)
        known[1 : len(sequence), :N] = known[: len(sequence) - 1, N:] = 1
        torch.testing.assert_close(weights[row], known)


def test_statistics_are_those_of_training_and_not_of_the_batch(form):
    data = dataset(SEQUENCES)
    objective = NgramStatistics().measured(data)
    whole = targets(objective, data, form)
    for row in range(len(data)):
        alone = targets(objective, data.take(torch.tensor([row])), form)
        length = len(SEQUENCES[row])
        torch.testing.assert_close(alone.labels[0], whole.labels[row, :length])
    assert not torch.equal(
        targets(NgramStatistics(), data.take(torch.tensor([0])), form).labels, whole.labels[:1]
    )


def test_sequences_seen_for_the_first_time_have_finite_labels(form):
    objective = NgramStatistics().measured(dataset([[1], [2]]))
    assert targets(objective, dataset([[3, 4, 3], [4]]), form).labels.isfinite().all()


def test_both_sequences_of_a_pair_are_counted(form):
    data = dataset(SEQUENCES)
    two = torch.stack([data.starts[0], data.starts[0].flip(0)])
    pairs = replace(data, starts=two, lengths=torch.stack([data.lengths[0], data.lengths[0].flip(0)]))
    found = targets(NgramStatistics().measured(pairs), data, form)
    # Every sequence is counted twice: information falls by log 2 everywhere, which standardising removes.
    torch.testing.assert_close(found.labels, targets(NgramStatistics().measured(data), data, form).labels)


def test_measuring_does_not_change_the_identity_of_a_recipe(form):
    task = toys.Majority(signal="tokens")
    recipe = Recipe(
        task, Model(Attention(heads=2), width=8, depth=1), (Stage(NgramStatistics(), Budget(steps=1)),)
    )
    after = measured(recipe, task.load("train"))
    assert after.last.objective.statistics is not None
    assert recipe.last.objective.statistics is None
    assert (fingerprint(after), to_dict(after)) == (fingerprint(recipe), to_dict(recipe))


def test_a_joint_loss_measures_too(form):
    objective = Joint(Classify(), NgramStatistics()).measured(dataset(SEQUENCES))
    assert objective.denoise.statistics is not None


def test_values_have_no_n_grams():
    with pytest.raises(SpecError, match="use masked"):
        NgramStatistics().head(toys.Majority(signal="values").form, 8, "mean")


def test_a_stage_trains_and_validates_with_the_statistics_of_its_training_data(tmp_path):
    task = toys.Majority(signal="tokens")
    stages = (Stage(NgramStatistics(), Budget(steps=3), batch=4),)
    recipe = Recipe(task, Model(Attention(heads=2), width=8, depth=1), stages)
    workspace = Workspace(tmp_path)
    result = read_json(run(recipe, workspace) / "result.json")
    network = Finished(workspace).network(recipe)
    for split in ("val", "test"):
        objective = NgramStatistics().measured(task.load("train"))
        found = evaluate(network, objective, task.load(split), task.form).scores
        assert result["scores"][split]["loss"] == pytest.approx(found["loss"], rel=1e-5)
        of_batches = evaluate(network, NgramStatistics(), task.load(split), task.form).scores
        assert of_batches["loss"] != pytest.approx(found["loss"], rel=1e-3)
