"""Which process sees which GPU: by the environment alone, so that no GPU is needed to look."""

import multiprocessing
import os
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace

import pytest
import torch

from selfpretrain.runner.executors.processes import _start_worker, visible_devices
from selfpretrain.runner.workspace import Workspace, _workers
from selfpretrain.system.hardware import free_gpu_memory


def seen(barrier):
    barrier.wait(60)
    return os.environ.get("CUDA_VISIBLE_DEVICES")


@pytest.mark.parametrize(
    ("device", "jobs", "visible", "places"),
    [
        ("cuda", "auto", None, ["0", "1", "2"]),
        ("cuda", "6", None, ["0", "1", "2", "0", "1", "2"]),
        ("cuda", "auto", "4,GPU-6,7", ["4", "GPU-6", "7"]),
        ("cuda:1", "2", "4,5,6", ["5", "5"]),
        ("cuda:2", "auto", None, ["2"]),
    ],
)
def test_every_worker_has_its_gpu(device, jobs, visible, places, tmp_path, monkeypatch):
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 3)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    if visible:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    workspace = Workspace(tmp_path, device, _workers(jobs, device))
    assert visible_devices(workspace) == places
    assert visible_devices(replace(workspace, device="cpu", workers=2)) == ["", ""]


def test_processes_see_theirs_and_no_other():
    context = multiprocessing.get_context("fork")  # a worker starts alike in either, and this one at once
    places = context.Queue()
    for place in ("3", "5"):
        places.put(place)
    with context.Manager() as manager:
        barrier = manager.Barrier(2)
        with ProcessPoolExecutor(
            2, context, _start_worker, (context.Queue(), context.Event(), places)
        ) as pool:
            assert sorted(pool.map(seen, [barrier] * 2)) == ["3", "5"]


def free(_):
    torch.cuda.mem_get_info = lambda *_: (80, 100)
    return free_gpu_memory("cuda")


@pytest.mark.parametrize(("stages", "part"), [(1, 80), (4, 20)])
def test_stages_on_one_gpu_share_its_free_memory(stages, part):
    context = multiprocessing.get_context("fork")
    places = context.Queue()
    places.put("0")
    arguments = (context.Queue(), context.Event(), places, stages)
    with ProcessPoolExecutor(1, context, _start_worker, arguments) as pool:
        assert list(pool.map(free, [None])) == [part]
