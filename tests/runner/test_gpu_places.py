"""Which process sees which GPU: by the environment alone, so that no GPU is needed to look."""

import multiprocessing
import os
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace

import pytest
import torch

from selfpretrain.cli import options
from selfpretrain.errors import SpecError
from selfpretrain.runner.executors.processes import _prepare, gpu_places
from selfpretrain.runner.workspace import Workspace, _workers


def seen(barrier):
    barrier.wait(60)
    return os.environ.get("CUDA_VISIBLE_DEVICES")


@pytest.mark.parametrize(
    ("device", "share", "visible", "places"),
    [
        ("cuda", 1.0, None, ["0", "1", "2"]),
        ("cuda", 0.5, None, ["0", "1", "2", "0", "1", "2"]),
        ("cuda", 1.0, "4,GPU-6,7", ["4", "GPU-6", "7"]),
        ("cuda:1", 0.5, "4,5,6", ["5", "5"]),
        ("cuda:2", 1.0, None, ["2"]),
        ("cuda", 2.0, "4,5,6", ["4,5"]),
        ("cuda", 3.0, None, ["0,1,2"]),
    ],
)
def test_every_worker_has_its_gpu(device, share, visible, places, tmp_path, monkeypatch):
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 3)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    if visible:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    workspace = Workspace(tmp_path, device, _workers("auto", device, share), max(1, int(share)))
    assert gpu_places(workspace) == places
    assert gpu_places(replace(workspace, device="cpu", workers=2)) == ["", ""]


def test_processes_see_theirs_and_no_other(monkeypatch):
    context = multiprocessing.get_context("spawn")
    places = context.Queue()
    for place in ("3", "5"):
        places.put(place)
    with context.Manager() as manager:
        barrier = manager.Barrier(2)
        with ProcessPoolExecutor(2, context, _prepare, (context.Queue(), context.Event(), places)) as pool:
            assert sorted(pool.map(seen, [barrier] * 2)) == ["3", "5"]


@pytest.mark.parametrize("gpus", [0.0, -1.0, 1.5])
def test_gpus_of_a_stage_are_a_share_or_whole(tmp_path, gpus):
    with pytest.raises(SpecError, match="GPUs per stage"):
        Workspace.of(tmp_path, "cpu", "auto", gpus)


def test_the_share_is_told_to_engines_too(tmp_path):
    workspace = options.workspace_of(
        tmp_path, "cpu", "1", True, settings=options.settings_of(None, {"gpus": 0.25})
    )
    assert workspace.executor_settings == {"gpus": "0.25"}
