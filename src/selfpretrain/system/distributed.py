"""The processes that train together: one, unless torchrun started several."""

import os
from collections.abc import Iterator
from contextlib import contextmanager

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.nn.functional import all_reduce as differentiable_sum


@contextmanager
def process_group(device: str) -> Iterator[str]:
    """Join the processes that torchrun started, if it did; yields this process's device."""
    if "RANK" not in os.environ or dist.is_initialized():
        yield device
        return
    on_gpu = device.startswith("cuda")
    if on_gpu:
        device = f"cuda:{os.environ['LOCAL_RANK']}"
        torch.cuda.set_device(device)
    dist.init_process_group("nccl" if on_gpu else "gloo")
    try:
        yield device
    finally:
        dist.destroy_process_group()


def world_size() -> int:
    """How many processes train together."""
    return dist.get_world_size() if dist.is_initialized() else 1


def rank() -> int:
    """Which of them this is, from 0."""
    return dist.get_rank() if dist.is_initialized() else 0


def is_main() -> bool:
    """Whether this process is the one that writes files and speaks."""
    return rank() == 0


def all_reduce_with_gradient(x: Tensor) -> Tensor:
    """The sum of ``x`` over all processes; gradients flow through it."""
    return differentiable_sum(x) if world_size() > 1 else x


def all_reduce(x: Tensor) -> Tensor:
    """The sum of ``x`` over all processes, without gradients."""
    if world_size() > 1:
        dist.all_reduce(x)
    return x


def any_process(yes: bool) -> bool:
    """Whether any process says yes; all get the same answer."""
    if world_size() == 1:
        return yes
    device = "cuda" if dist.get_backend() == "nccl" else "cpu"
    return bool(all_reduce(torch.tensor(float(yes), device=device)) > 0)


def barrier() -> None:
    """Go on when all processes have come this far."""
    if world_size() > 1:
        dist.barrier()


def broadcast(names: list[str]) -> list[str]:
    """The first process's list, for all."""
    if world_size() == 1:
        return names
    box = [names]
    dist.broadcast_object_list(box, src=0)
    return box[0]
