"""Process group of data-parallel training with torchrun; without torchrun there is a single process."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.nn.functional import all_reduce as differentiable_sum


@contextmanager
def process_group(device: str) -> Iterator[str]:
    """Join the process group of torchrun, if there is one, and yield the device of this process."""
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


_alone = ContextVar("alone", default=False)


@contextmanager
def alone() -> Iterator[None]:
    """Act as a single process in this block: what is traced or counted concerns no other."""
    token = _alone.set(True)
    try:
        yield
    finally:
        _alone.reset(token)


def launched() -> int:
    """Return the number of processes that torchrun has started, whether they have joined yet or not."""
    return int(os.environ.get("WORLD_SIZE", "1"))


def world_size() -> int:
    """Return the number of processes that train together."""
    return dist.get_world_size() if dist.is_initialized() and not _alone.get() else 1


def rank() -> int:
    """Return the rank of this process, from 0."""
    return dist.get_rank() if dist.is_initialized() and not _alone.get() else 0


def is_main() -> bool:
    """Return whether this is the process that writes files and prints."""
    return rank() == 0


def all_reduce_with_gradient(x: Tensor) -> Tensor:
    """Return the sum of ``x`` over all processes; gradients flow through it."""
    return differentiable_sum(x) if world_size() > 1 else x


def all_reduce(x: Tensor) -> Tensor:
    """Return the sum of ``x`` over all processes, without gradients."""
    if world_size() > 1:
        dist.all_reduce(x)
    return x


def smallest(number: int) -> int:
    """Return the smallest of the processes' numbers; the result is the same in all."""
    if world_size() == 1:
        return number
    found = torch.tensor(int(number), device="cuda" if dist.get_backend() == "nccl" else "cpu")
    dist.all_reduce(found, dist.ReduceOp.MIN)
    return int(found)


def any_process(flag: bool) -> bool:
    """Return whether ``flag`` is true in any process; the result is the same in all."""
    return not smallest(not flag)


def barrier() -> None:
    """Wait until all processes have reached this point."""
    if world_size() > 1:
        dist.barrier()


def broadcast(names: list[str]) -> list[str]:
    """Return the list of the first process in all processes."""
    if world_size() == 1:
        return names
    objects = [names]
    dist.broadcast_object_list(objects, src=0)
    return objects[0]
