"""Batches: padding, order, parts, and who is who."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import toys
from selfpretrain.data.dataloader import BatchSampler
from selfpretrain.data.dataset import SequenceDataset, generator
from selfpretrain.errors import SpecError

lengths_of = st.lists(st.integers(1, 30), min_size=4, max_size=60)


def examples(lengths, channels=None):
    shape = () if channels is None else (channels,)
    rows = [
        np.full((n, *shape), i % 200 + 1, dtype=np.float32 if channels else np.uint8)
        for i, n in enumerate(lengths)
    ]
    return SequenceDataset.from_sequences(rows, np.arange(len(lengths)))


@given(lengths=lengths_of, channels=st.sampled_from([None, 2]))
def test_a_batch_holds_its_rows_and_zeros_and_evaluation_drops_none(lengths, channels):
    data = examples(lengths, channels)
    rows = torch.randperm(len(data))[:4]
    batch = data.batch(rows)
    assert batch.real().sum(1).tolist() == [lengths[i] for i in rows]
    flat = batch.inputs.reshape(*batch.inputs.shape[:2], -1).float()
    expected = (rows % 200 + 1)[:, None, None] * batch.real()[..., None]
    assert torch.equal(flat, expected.expand_as(flat).float())
    assert torch.equal(batch.targets, rows)
    seen = torch.cat([rows for rows, _ in data.batches(7)])
    assert sorted(seen.tolist()) == list(range(len(lengths)))


@given(lengths=lengths_of, size=st.integers(1, 4), seed=st.integers(0, 9))
def test_an_epoch_sees_everything_once_but_the_incomplete_batch(lengths, size, seed):
    order = BatchSampler(torch.tensor(lengths), size, seed, pool=3)
    for epoch in (0, 1):
        seen = torch.cat([order.rows(epoch * order.per_epoch + i) for i in range(order.per_epoch)])
        assert len(seen) == len(lengths) // size * size
        assert len(set(seen.tolist())) == len(seen)


def test_order_is_a_function_of_seed_and_step():
    lengths = torch.randint(5, 50, (100,))
    one, two = (BatchSampler(lengths, 8, seed=3) for _ in range(2))
    backwards = [two.rows(step) for step in reversed(range(40))][::-1]
    assert all(torch.equal(one.rows(step), rows) for step, rows in enumerate(backwards))
    assert not torch.equal(BatchSampler(lengths, 8, seed=4).rows(0), one.rows(0))


def test_similar_lengths_meet():
    lengths = torch.randint(10, 1000, (5000,), generator=generator("lengths"))
    assert BatchSampler(lengths, 32, 0).padding_share(lengths) < 0.05
    assert BatchSampler(lengths, 32, 0, pool=1).padding_share(lengths) > 0.3


def test_a_batch_larger_than_the_data_is_refused():
    with pytest.raises(SpecError, match="lower the batch size"):
        BatchSampler(torch.ones(5, dtype=torch.int64), 6, 0)


@pytest.mark.parametrize("views", [1, 2])
def test_parts_make_up_the_whole(views):
    flat = torch.arange(40)
    starts = torch.arange(0, 40, 5).view(views, -1)
    data = SequenceDataset(flat, starts, torch.full_like(starts, 5), torch.arange(starts.shape[1]))
    batch = data.batch(torch.arange(len(data)))
    parts = [batch.part(rank, 2) for rank in range(2)]
    assert torch.equal(torch.stack([p.targets for p in parts], 1).flatten(), batch.targets)
    for view in range(views):
        whole = batch.inputs.view(views, -1, 5)[view]
        halves = [p.inputs.view(views, -1, 5)[view] for p in parts]
        assert torch.equal(torch.stack(halves, 1).flatten(0, 1), whole)


def test_digests_tell_sequences_apart_and_ignore_order():
    data = toys.Majority().load("train")
    prints = data.digests()
    rows = torch.randperm(len(data))
    assert data.take(rows).digests() == [prints[i] for i in rows]
    assert prints != toys.Majority().load("val").digests()


def test_random_streams_depend_on_their_key_alone():
    assert generator(1, "a", 2).initial_seed() == generator(1, "a", 2).initial_seed()
    assert len({generator(s, k).initial_seed() for s in range(20) for k in "abc"}) == 60


def test_examples_that_share_positions_or_a_group_are_one_cluster():
    flat = torch.zeros(40, dtype=torch.uint8)
    starts = torch.tensor([[30, 0, 4, 20, 8]])
    windows = SequenceDataset(flat, starts, torch.full((1, 5), 6), torch.zeros(5, dtype=torch.int64))
    found = windows.clusters().tolist()
    assert found == [2, 0, 0, 1, 0], "the last touches the third, which touches the second"
    assert windows.take(torch.tensor([0, 1, 3])).clusters() is None
    assert examples([3, 4, 5]).clusters() is None
    grouped = replace(examples([3, 4, 5]), groups=torch.tensor([7, 9, 7]))
    assert grouped.clusters().tolist() == [0, 1, 0]
    assert replace(grouped, groups=torch.tensor([7, 9, 8])).clusters() is None
