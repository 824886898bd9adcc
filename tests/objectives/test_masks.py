"""Masks of random rates and of stretches: their statistics, their weights, and what they were."""

import hashlib
import math
from collections import Counter
from dataclasses import replace

import pytest
import torch
from pydantic import ValidationError

import toys
from selfpretrain.config import with_setting
from selfpretrain.data.dataset import Batch, generator
from selfpretrain.data.spec import Classes, SequenceSpec, Values
from selfpretrain.errors import SpecError
from selfpretrain.objectives.diffusion import Diffusion
from selfpretrain.objectives.masked import Masked
from selfpretrain.objectives.replaced import Replaced, bigram_samples
from selfpretrain.objectives.spans import Spans

TASK = toys.Majority(length=400, shortest=200, examples=200)
BATCH = TASK.load("train").batch(torch.arange(200))
CHANNELS = replace(
    TASK.form, signal=Values(3, centre=(1.0, 2.0, 3.0), spread=(1.0, 2.0, 4.0)), length=50
)  # three channels


def drawn(objective):
    return objective.make_targets(BATCH, TASK.form, generator("masks"))


def channel_batch(examples=40):
    inputs = torch.randn(examples, 50, 3, generator=generator("channels"))
    return Batch(inputs, None, torch.zeros(examples, dtype=torch.int64))


def test_masks_and_replacements_are_what_they_were():
    for drawing, golden in (
        (drawn(Masked()).masked, "7ed4705490bf3f3e"),
        (drawn(Diffusion()).masked, "074db38d57e102da"),
        (drawn(Spans()).masked, "0765de92384d29b4"),
        (drawn(Replaced(generator="bigram")).labels, "5a96ef6ba0e04748"),
        (drawn(Replaced()).labels, "c252f6df623953f7"),
    ):
        assert hashlib.sha256(drawing.numpy().tobytes()).hexdigest()[:16] == golden


def test_diffusion_draws_uniform_rates_and_weighs_by_their_inverses_with_a_mean_of_one():
    targets, real = drawn(Diffusion()), BATCH.real()
    rates = (targets.masked & real).sum(1) / real.sum(1)
    uniform = torch.linspace(0, 1, len(rates))
    assert (rates.sort().values - uniform).abs().max() < 1.63 / len(rates) ** 0.5  # Kolmogorov-Smirnov at 1 %
    assert float(targets.selected_weights.mean()) == pytest.approx(1, rel=1e-4)
    often = rates > 0.2
    ratio = (targets.position_weights[:, 0, 0] * rates)[often]
    assert float(ratio.std() / ratio.mean()) < 0.15
    outputs = torch.randn(int(targets.size), 2, generator=generator("outputs"))
    losses = torch.nn.functional.cross_entropy(outputs, targets.selected_labels()[:, 0], reduction="none")
    weights = torch.cat(
        [row[mask, 0] for row, mask in zip(targets.position_weights, targets.masked, strict=True)]
    )
    by_hand = float((weights * losses).sum())
    assert float(Diffusion().loss(outputs, targets, TASK.form)) == pytest.approx(by_hand, rel=1e-4)


def test_channels_are_masked_by_themselves_and_only_masked_ones_count():
    objective = Spans(0.4, 3.0)
    batch = channel_batch()
    targets = objective.make_targets(batch, CHANNELS, generator("channels"))
    changed = targets.batch.inputs != batch.inputs
    assert 0.3 < float(changed.float().mean()) < 0.5
    assert not torch.equal(changed[..., 0], changed[..., 1])
    assert torch.equal(targets.batch.inputs[changed], torch.tensor([1.0, 2, 3]).expand(40, 50, 3)[changed])
    assert torch.equal(targets.masked, changed.all(-1)) and torch.equal(targets.loss_mask, changed.any(-1))
    asked = changed[targets.loss_mask]
    outputs = torch.randn(len(asked), 3, generator=generator("outputs"))
    errors = (outputs - targets.selected_labels()).abs()
    by_hand = sum(float(row[mask].mean()) for row, mask in zip(errors, asked, strict=True))
    assert float(objective.loss(outputs, targets, CHANNELS)) == pytest.approx(by_hand, rel=1e-4)
    other = outputs + 100.0 * ~asked  # of values that the network sees
    assert objective.loss(other, targets, CHANNELS) == objective.loss(outputs, targets, CHANNELS)


@pytest.mark.parametrize(("levels", "metric"), [(None, "r2"), (8, "accuracy")])
def test_scores_are_of_masked_channels_alone(levels, metric):
    form = replace(CHANNELS, signal=Values(3, levels, -4.0, 4.0))
    batch = channel_batch()
    objective = Spans(0.4, 3.0)
    targets = objective.make_targets(batch, form, generator("channels"))
    asked = (targets.batch.inputs != batch.inputs)[targets.loss_mask]
    answers = targets.selected_labels()
    answers = answers if levels is None else torch.nn.functional.one_hot(answers, levels).float()
    wrong = answers + 100.0 if levels is None else answers.roll(1, -1)

    def score(outputs):
        sums = objective.metric_sums(outputs.flatten(1), targets, form)
        return objective.scores({name: float(value) for name, value in sums.items()})[metric]

    asked = asked.view(*asked.shape, *[1] * (answers.ndim - 2))
    assert score(torch.where(asked, answers, wrong)) == pytest.approx(1.0)
    assert score(torch.where(asked, wrong, answers)) <= 0.0


@pytest.mark.parametrize(("rate", "length"), [(0.15, 3.0), (0.5, 2.0), (0.3, 4.0)])
def test_stretches_have_their_share_and_geometric_lengths(rate, length):
    """A stretch goes on with the same probability, however long it has been."""
    masks = Spans(rate, length).draw(400, 1000, 1, generator("spans"))[..., 0]
    assert float(masks.float().mean()) == pytest.approx(rate, rel=0.05)
    gap = length * (1 - rate) / rate  # of what is not masked
    for stretches, mean in ((masks, length), (~masks, gap)):
        for age in (1, 3, 6):
            old = stretches[:, :-1].unfold(1, age, 1).all(-1)[:, : 1000 - age]
            goes_on = stretches[:, age:]
            assert float(goes_on[old].float().mean()) == pytest.approx(1 - 1 / mean, abs=0.015)


@pytest.mark.parametrize(("rate", "length"), [(0.9, 10.0), (0.8, 5.0), (0.5, 2.0)])
def test_stretches_that_just_suffice_for_their_share_are_none(rate, length):
    assert Spans(rate, length).length == length


def test_stretches_too_short_for_their_share_are_refused():
    with pytest.raises(ValidationError, match="raise length to at least 2, or lower rate"):
        Spans(0.5, 1.5)
    with pytest.raises(SpecError, match="raise length"):
        with_setting(Spans(), "rate", "0.9")


def test_replacements_of_tokens_follow_the_same_token_somewhere_in_the_batch():
    targets = drawn(Replaced(0.3, "bigram"))
    after, real = targets.batch.inputs, BATCH.real()
    changed = after != BATCH.inputs
    assert torch.equal(targets.labels[..., 0].bool(), changed) and not (changed & ~real).any()
    assert torch.equal(targets.loss_mask, real) and int(targets.size) == int(real.sum())
    before = torch.cat([torch.full_like(after[:, :1], -1), BATCH.inputs[:, :-1]], 1)
    assert set(pairs(before, after, changed)) <= set(pairs(before, BATCH.inputs, real))


def test_replacements_are_inputs_of_other_sequences_at_their_places():
    targets = drawn(Replaced(0.3))
    after, real = targets.batch.inputs, BATCH.real()
    changed = after != BATCH.inputs
    assert torch.equal(targets.labels[..., 0].bool(), changed) and not (changed & ~real).any()
    (shift,) = (
        s
        for s in range(1, 200)
        if torch.equal(torch.where(changed, BATCH.inputs.roll(s, 0), BATCH.inputs), after)
    )
    assert real.roll(shift, 0)[changed].all()
    differ = (BATCH.inputs != BATCH.inputs.roll(shift, 0)) & real & real.roll(shift, 0)
    share = float(changed.sum() / differ.sum())
    assert abs(share - 0.3) < 4 * math.sqrt(0.3 * 0.7 / int(differ.sum()))


def test_the_bigram_generator_has_the_frequencies_of_pairs():
    real = BATCH.real()
    samples = bigram_samples(BATCH.inputs, real, generator("samples"))
    assert torch.equal(samples[~real], BATCH.inputs[~real])
    before = torch.cat([torch.full_like(samples[:, :1], -1), BATCH.inputs[:, :-1]], 1)
    of_batch, of_samples = (pairs(before, tokens, real) for tokens in (BATCH.inputs, samples))
    follows = Counter(a for a, _ in of_batch.elements())
    for (a, b), count in of_batch.items():
        share = count / follows[a]
        error = math.sqrt(share * (1 - share) / follows[a])
        assert abs(of_samples[a, b] / follows[a] - share) <= 5 * error


def test_a_bigram_model_of_values_is_refused():
    with pytest.raises(SpecError, match="use generator=place"):
        Replaced(generator="bigram").head(CHANNELS, 8, "mean")


def pairs(before, tokens, where):
    return Counter(zip(before[where].tolist(), tokens[where].tolist(), strict=True))


def test_values_are_replaced_in_all_channels_together():
    batch = channel_batch()
    targets = Replaced(0.5).make_targets(batch, CHANNELS, generator("masks"))
    changed = targets.batch.inputs != batch.inputs
    assert torch.equal(changed.all(2), changed.any(2)) and changed.any()
    assert torch.equal(targets.labels[..., 0].bool(), changed.any(2))


def test_values_of_a_sequence_alone_are_replaced_with_those_of_its_other_positions():
    alone = channel_batch(1)
    targets = Replaced().make_targets(alone, CHANNELS, generator("masks"))
    changed = targets.labels[0, :, 0].bool()
    assert 0 < changed.sum() < 25
    known = alone.inputs[0].tolist()
    assert all(row in known for row in targets.batch.inputs[0, changed].tolist())


def test_levels_are_refused_where_a_channel_spans_none_of_them():
    wide = Values(2, low=-4.0, high=1e5, centre=(0.0, 1e5), spread=(1.0, 500.0))
    form = SequenceSpec(wide, 20, Classes(("a", "b")))
    with pytest.raises(SpecError, match="channel 1 of 2 varies by less than one of 256 levels"):
        Masked(distance="levels").head(form, 8, "mean")
