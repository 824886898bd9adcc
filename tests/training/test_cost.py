"""Counted FLOPs agree with what is known on paper."""

import inspect
import itertools
import math
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

import toys
from selfpretrain.config import Count, spec
from selfpretrain.data.dataloader import BatchSampler
from selfpretrain.data.dataset import SequenceDataset, generator
from selfpretrain.data.spec import SPLITS
from selfpretrain.errors import SpecError
from selfpretrain.mixers.attention import Attention
from selfpretrain.mixers.gru import GRU
from selfpretrain.mixers.lstm import LSTM
from selfpretrain.mixers.ops.longconv import fast_length
from selfpretrain.mixers.s4d import S4D
from selfpretrain.objectives.classify import Classify
from selfpretrain.objectives.masked import Masked
from selfpretrain.registry import find
from selfpretrain.studies.arms.base import recipes_by_column
from selfpretrain.studies.recipes.arms import MATCHED, SPT, ArmRecipes
from selfpretrain.training import cost, flops
from selfpretrain.training.model import Block, Model, Network, count_parameters
from selfpretrain.training.recipe import Budget, Recipe, Stage, build_network, training_data
from steps import SHORT, every_mixer

CLASSIFY = Classify()
TASK = toys.Majority(length=128, shortest=128, examples=64)


def recipe(mixer, signal="tokens", objective=CLASSIFY, **model):
    task = replace(TASK, signal=signal)
    return Recipe(
        task,
        Model(mixer, **({"width": 32, "depth": 2} | model)),
        (Stage(objective, Budget(steps=10), batch=8),),
    )


def linear(rows, *widths):
    """Multiply-adds of dense layers, forward and both backward products."""
    return sum(6 * rows * a * b for a, b in itertools.pairwise(widths))


def transformer(B, L, D, depth, K, expand=2, gated=False):
    projections = 4 * linear(B * L, D, D)
    attention = 2 * 2 * B * L * L * D * (1 + 2.5)  # forward two products, backward five
    mlp = linear(B * L, D, expand * D) * (3 if gated else 2)
    return depth * (projections + attention + mlp) + linear(B, D, K)


def s4d(B, L, D, states, depth, K):
    n, N = fast_length(2 * L), states // 2
    s = math.isqrt(L - 1) + 1
    giants = -(-L // s)
    fft = 2.5 * n * math.log2(n)
    convolution = (2 * B * D + D) * fft * 2  # input and output of every row, the kernel once; the same back
    kernel = 6 * D * 2 * giants * (2 * N) * s
    mlp = 2 * linear(B * L, D, 2 * D)
    return depth * (convolution + kernel + linear(B * L, D, 2 * D) + mlp) + linear(B, D, K)


def recurrent(gates):
    direction = gates * (linear(8 * 128, 32, 16) + linear(8 * 128, 16, 16)) + linear(8 * 128, 16, 32)
    return 2 * direction


@pytest.mark.parametrize(
    ("mixer", "model", "on_paper"),
    [
        (Attention(heads=4), {}, transformer(8, 128, 32, 2, 2)),
        (Attention(heads=4), {"gated": True}, transformer(8, 128, 32, 2, 2, gated=True)),
        (S4D(states=16), {}, s4d(8, 128, 32, 16, 2, 2)),
        (LSTM(states=16), {"depth": 1, "expand": 0}, recurrent(gates=4)),
        (GRU(states=16), {"depth": 1, "expand": 0}, recurrent(gates=3)),
    ],
)
def test_a_step_costs_what_it_costs_on_paper(mixer, model, on_paper):
    assert cost.plan(recipe(mixer, **model)).flops_per_step == pytest.approx(on_paper, rel=0.05)


@pytest.mark.parametrize("groups", [1, 4, 8])
def test_every_gradient_of_a_convolution_costs_a_forward_pass(groups):
    layer = torch.nn.Conv1d(8, 16, 5, padding=2, groups=groups, bias=False)
    x = torch.randn(3, 8, 50, requires_grad=True)
    forward = 2 * 3 * 50 * 16 * (8 // groups) * 5
    assert flops.count_flops(layer, lambda: layer(x).sum()) == 3 * forward
    of_kernel = flops.count_flops(layer, lambda: layer(x.detach()).sum())
    assert of_kernel == 2 * forward
    back = torch.nn.ConvTranspose1d(8, 16, 5, stride=2, groups=groups, bias=False)
    assert flops.count_flops(back, lambda: back(x).sum()) == 3 * forward


def test_recurrent_layers_of_cudnn_count_as_those_on_the_cpu():
    B, L, D, N = 8, 128, 32, 16
    one = [(4 * N, D), (4 * N, N), (4 * N,), (4 * N,)]  # matrices of inputs and states, and their biases
    formulas, rnn = flops.flop_formulas(), torch.ops.aten
    forward = 2 * B * L * 4 * N * (D + N)
    assert formulas[rnn._cudnn_rnn]((B, L, D), one * 2) == 2 * forward  # in two directions
    assert formulas[rnn._cudnn_rnn_backward]((B, L, D), one) == 2 * forward
    assert formulas[rnn.mkldnn_rnn_layer]((B, L, D), *one) == forward


def test_denoising_pays_for_hidden_positions_only():
    sparse, dense = (
        cost.plan(recipe(Attention(), objective=Masked(rate))).flops_per_step for rate in (0.1, 1.0)
    )
    assert dense - sparse == pytest.approx(linear(8 * 128, 32, 2) * 0.9, rel=0.1)


def test_batch_size_enters_exactly():
    r = recipe(S4D(states=16))
    data, net = training_data(r), build_network(r)
    targets = cost._targets(r, data, torch.arange(8))
    counted = flops.count_step(net, r.last.objective, r.task.form, targets)
    state = torch.get_rng_state()
    assert cost.plan(replace(r, seed=9)).flops_per_step == pytest.approx(counted, rel=1e-6)
    assert torch.equal(torch.get_rng_state(), state), "counting leaves no trace"


@spec
class Ragged(toys.Majority):
    """Log-normal lengths from 8 to 160, and few labels."""

    length: Count = 160
    examples: Count = 160
    labelled: Count = 48

    def load(self, split):
        random = np.random.default_rng(SPLITS.index(split))
        lengths = np.exp(random.normal(3.7, 0.7, self.examples)).astype(int).clip(8, self.length)
        y = np.where(np.arange(self.examples) < self.labelled, np.arange(self.examples) % 2, -1)
        return SequenceDataset.from_sequences([random.integers(2, size=n) for n in lengths], y)


def counted_in_all(one, batches):
    """Mean FLOPs of so many real batches of a recipe's last stage, each counted by itself."""
    data, net, stage = training_data(one), build_network(one), one.last
    order = BatchSampler(data.longest, stage.batch, one.seed)
    found = [
        flops.count_step(net, stage.objective, one.task.form, cost._targets(one, data, order.rows(step)))
        for step in range(batches or order.per_epoch)
    ]
    return sum(found) / len(found)


@pytest.mark.parametrize(
    ("name", "objective"),
    [
        ("attention", "masked"),
        pytest.param("s4", "causal", marks=pytest.mark.slow),
        pytest.param("mamba2", "masked", marks=pytest.mark.slow),
        pytest.param("lstm", "causal", marks=pytest.mark.slow),
    ],
)
def test_compute_is_matched_where_lengths_differ_and_labels_are_few(name, objective):
    """By another count of every batch of an epoch, of both stages and of the arm that is matched to them."""
    mixer, task = find("mixers", name)(), Ragged()
    model = Model(mixer, width=16, depth=1, causal=objective == "causal")
    pretrain = Stage(find("objectives", objective)(), Budget(steps=300), batch=8)
    finetune = Stage(CLASSIFY, Budget(steps=100), batch=8)
    arms = recipes_by_column(task, ArmRecipes(model, pretrain, finetune, model, finetune))
    matched, both = arms[MATCHED], arms[SPT]
    real = [counted_in_all(prefix, 0) * prefix.last.budget.steps for prefix in both.prefixes()]
    steps = cost.plan(matched).steps
    assert steps * counted_in_all(matched, 0) == pytest.approx(sum(real), rel=0.01)
    assert steps > 100 and real[0] > 0.5 * sum(real)


def test_a_mean_over_lengths_follows_curves_and_steps_with_few_questions():
    lengths = np.random.default_rng(0).integers(8, 2000, 3000)
    for function, error in (
        (lambda n: 5.0 * n + 0.01 * n * n, 3e-3),
        (lambda n: 64.0 * -(-n // 64), 0.01),
        (lambda n: 7.0 + 0 * n, 3e-3),
    ):
        asked = []
        found = cost.mean_over(lengths, lambda n, of=function, seen=asked: seen.append(n) or of(n))
        assert found == pytest.approx(function(lengths.astype(float)).mean(), rel=error)
        assert len(asked) == len(set(asked)) <= 129
    assert len(asked) == 9  # of a constant


def test_a_complex_weight_counts_as_the_two_numbers_that_it_is():
    layer = torch.nn.Linear(3, 2, dtype=torch.complex64)
    assert count_parameters(layer) == 2 * count_parameters(torch.nn.Linear(3, 2)) == 16


def test_budgets_become_steps():
    r = recipe(Attention())
    per_step = cost.plan(r).flops_per_step
    of_flops, of_epochs, of_seconds = Budget(flops=per_step * 7), Budget(epochs=2.5), Budget(seconds=5.0)
    for budget, steps in {of_flops: 7, of_epochs: 20, Budget(steps=3): 3, of_seconds: None}.items():
        assert cost.plan(replace(r, stages=(replace(r.last, budget=budget),))).steps == steps
    with pytest.raises(SpecError, match="less than one step"):
        cost.plan(replace(r, stages=(replace(r.last, budget=Budget(flops=1.0)),)))


@every_mixer
def test_flops_are_those_of_torchs_own_counter(name):
    mixer = find("mixers", name)(**SHORT.get(name, {}))
    few = toys.Majority(length=20, shortest=20, examples=8)
    r = replace(recipe(mixer, expand=0 if mixer.whole else 2, depth=1), task=few)
    data, net = training_data(r), build_network(r)
    targets = r.last.objective.make_targets(data.batch(torch.arange(2)), r.task.form, generator("cost"))

    def loss():
        return r.last.objective.loss(
            net(targets.batch.inputs, targets.batch.padding_mask), targets, r.task.form
        )

    formulas = {operation: inspect.unwrap(formula) for operation, formula in flops.flop_formulas().items()}
    with FlopCounterMode(display=False, custom_mapping=formulas) as theirs:
        loss().backward()
    assert flops.count_flops(net, loss) == theirs.get_total_flops() > 0


def test_steps_of_long_sequences_are_estimated_without_a_pass_and_short_ones_counted(monkeypatch):
    long, short = (
        replace(recipe(Attention(), depth=1), task=toys.Majority(length=n, shortest=n, examples=20))
        for n in (1200, 24)
    )
    exact = cost.plan(short)
    planner = cost.Planner(rough_above=600)
    assert planner.plan(short) == exact and planner.exact and not planner.note
    monkeypatch.setattr(cost, "_count", None)
    told = planner.plan(long)
    assert told.flops == pytest.approx(6 * told.parameters * 1200 * long.last.batch * told.steps)
    assert not planner.exact and "6 per parameter" in planner.note


def test_padding_of_pairs_is_that_of_both_sequences(monkeypatch):
    task = toys.Majority(length=24, shortest=24)
    data = task.load("train")
    pairs = replace(
        data, starts=data.starts.repeat(2, 1), lengths=data.lengths * torch.tensor([[4], [1]]) // 4
    )
    monkeypatch.setattr(cost, "training_data", lambda recipe: pairs)
    made = Recipe(task, Model(Attention(2), 8, 1), (Stage(Classify(), Budget(steps=1)),))
    assert cost.Planner(rough_above=0).plan(made).padding == 1 - (1 + 1 / 4) / 2


def test_steps_are_measured_with_activations_recomputed_where_their_stage_does():
    asked = recipe(Attention(heads=2), depth=1)
    passes = Counter()
    with torch.nn.modules.module.register_module_forward_pre_hook(
        lambda module, *call: passes.update([type(module)])
    ):
        cost.seconds_per_step(asked.with_last(replace(asked.last, activation_checkpointing=True)))
    assert passes[Block] == 2 * passes[Network] > 0


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_steps_are_measured_in_the_precision_of_their_stage(precision):
    asked = recipe(Attention(heads=2))
    seen = []
    with torch.nn.modules.module.register_module_forward_hook(
        lambda *call: seen.append(torch.is_autocast_enabled("cpu"))
    ):
        cost.seconds_per_step(replace(asked, stages=(replace(asked.last, precision=precision),)))
    assert any(seen) == (precision == "bf16")
