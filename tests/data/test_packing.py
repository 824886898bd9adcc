"""Packing loses nothing, and padding puts every sequence where it belongs."""

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st

from selfpretrain.data import dataset
from selfpretrain.data import rows as packing


@given(st.integers(1, 5), st.integers(1, 700), st.floats(0, 1), st.integers(0, 99))
def test_unpack_undoes_pack(n, length, zeros, seed):
    random = np.random.default_rng(seed)
    rows = random.integers(1, 256, (n, length)).astype(np.uint8) * (random.random((n, length)) >= zeros)
    rows = rows.astype(np.uint8)
    room, ends, back = (
        np.empty(2 * rows.size, np.uint8),
        np.empty(n, np.int64),
        np.zeros((n, length, 1), np.float32),
    )
    used = packing.pack_rows(rows, room, ends)
    assert used == ends[-1]
    starts = np.concatenate([[0], ends[:-1]])
    packing.unpack_rows(room[:used].copy(), starts, np.full(n, length), back)
    assert np.array_equal(back[..., 0], rows)


def test_long_runs_of_zeros_take_few_bytes():
    rows = np.zeros((1, 65_536), np.uint8)
    room, ends = np.empty(2 * rows.size, np.uint8), np.empty(1, np.int64)
    assert packing.pack_rows(rows, room, ends) <= 4


@given(st.lists(st.integers(1, 9), min_size=1, max_size=6), st.booleans())
def test_pad_puts_every_sequence_in_its_row(lengths, values):
    n = np.array(lengths)
    starts, width = n.cumsum() - n, int(n.max()) + 1
    flat = np.arange(1, n.sum() + 1).astype(np.int32)[:, None]
    if values:
        flat = np.concatenate([flat, -flat], axis=1).astype(np.float32)
    out = np.zeros((len(n), width, flat.shape[1]), np.float32 if values else np.int64)
    packing.pad_rows(flat, starts, n, out)
    for row, start, length in zip(out, starts, n, strict=True):
        assert np.array_equal(row[:length], flat[start : start + length])
        assert not row[length:].any()


def test_unpacked_sequences_are_the_same(random):
    rows = (random.rand(7, 40) < 0.2).astype(np.uint8) * 200
    out, ends = np.zeros(2 * rows.size, np.uint8), np.zeros(7, np.int64)
    used = packing.pack_rows(rows, out, ends)
    starts = torch.from_numpy(np.concatenate([[0], ends[:-1]]))[None]
    lengths = torch.full((1, 7), 40)
    packed = dataset.SequenceDataset(
        torch.from_numpy(out[:used]), starts, lengths, torch.zeros(7), packed=True
    )
    bare = packed.unpack("cpu")
    assert not bare.packed
    assert bare.digests() == packed.digests()
    take = torch.tensor([6, 0, 3])
    assert torch.equal(bare.batch(take).inputs, packed.batch(take).inputs)
    assert torch.equal(
        dataset._gather_torch(bare, *(x[0, take] for x in (bare.starts, lengths)), 40),
        packed.batch(take).inputs,
    )
