"""Blocks in another order: the same content, the same order for all, and refusals."""

import numpy as np
import pytest
import torch

from selfpretrain.data.spec import SPLITS
from selfpretrain.errors import SpecError
from selfpretrain.registry import name_of
from selfpretrain.tasks.common.shuffled import Shuffled
from selfpretrain.tasks.digits import Digits
from selfpretrain.tasks.listops import ListOps
from selfpretrain.tasks.paths import Paths
from selfpretrain.tasks.recall import Recall


@pytest.mark.parametrize("block", [1, 8, 64])
def test_every_block_is_there_once_and_in_the_same_place_for_all(block):
    plain, moved = Digits(train=50), Shuffled(Digits(train=50), block)
    for split in SPLITS:
        before, after = plain.load(split), moved.load(split)
        x, y = (e.flat.numpy().reshape(len(e), 64 // block, block) for e in (before, after))
        assert np.array_equal(before.targets, after.targets)
        order = [int(np.flatnonzero((x == y[:, i : i + 1]).all((0, 2)))[0]) for i in range(64 // block)]
        assert np.array_equal(y, x[:, order])
        assert block == 64 or split != "train" or order != sorted(order)


def test_classes_of_positions_move_with_their_positions():
    plain, moved = (task.load("val") for task in (Recall().tiny(), Shuffled(Recall().tiny(), 4)))
    pairs = [torch.stack([each.stack().long(), each.targets.long()], dim=2) for each in (plain, moved)]
    blocks = [sorted(map(str, each[0].unflatten(0, (-1, 4)).tolist())) for each in pairs]
    assert blocks[0] == blocks[1] and not torch.equal(*pairs)


def test_is_named_and_trained_after_its_task():
    assert name_of(Shuffled(Digits(), 8)) == "digits-in-blocks-of-8"
    plain, moved = Paths(), Shuffled(Paths(), 4)
    assert moved.small
    assert all(getattr(moved, name) == getattr(plain, name) for name in ("small", "masking", "denoising"))


def test_refuses_what_it_cannot_shuffle():
    with pytest.raises(SpecError, match="block=7"):
        Shuffled(Digits(), 7).load("val")
    with pytest.raises(SpecError, match="one length"):
        Shuffled(ListOps().tiny(), 1).load("val")
