"""Processes whose GPUs have different free memory evaluate every example once."""

import subprocess
import sys

import pytest
import torch
from fake_gpu import rank

from engines import free_port
from processes import environment

USED = 9 << 20
"""Bytes that the emulated GPU says a batch takes."""


def test_ranks_with_unequal_memory_score_every_example_once(tmp_path):
    free = (4, 6)
    address = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port()), "WORLD_SIZE": "2"}
    running = [
        subprocess.Popen(
            [sys.executable, "-W", "ignore", rank.__file__, str(tmp_path / f"{i}.pt"), str(USED * free[i])],
            env=environment() | address | {"RANK": str(i), "LOCAL_RANK": "0"},
        )
        for i in range(2)
    ]
    assert [process.wait(120) for process in running] == [0, 0]
    scores, predictions, confidence = rank.scored()
    for i in range(2):
        found = torch.load(tmp_path / f"{i}.pt")
        assert found[0] == pytest.approx(scores, rel=1e-6)
        assert torch.equal(found[1], predictions)
        torch.testing.assert_close(found[2], confidence, rtol=1e-5, atol=0)
