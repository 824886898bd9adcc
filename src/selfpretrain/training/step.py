"""One step of training: mixed precision, compilation, gradient accumulation, clipping."""

import contextlib
from collections.abc import Iterator
from dataclasses import replace

import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from ..config import to_dict
from ..data.spec import SequenceSpec
from ..errors import SpecError
from ..mixers.ops._exact import matmul_precision
from ..objectives.base import ObjectiveBatch, loss_of
from ..objectives.common.latent import LatentHead
from ..registry import name_of
from ..system import distributed
from .model import Network
from .recipe import Precision, Stage, foreign_modules

SHAPES = 64
"""Largest number of compiled variants of a block: training and evaluation, and one per padded length."""


def default_precision(device: str) -> Precision:
    """Return the default precision for a device: bf16 on GPUs with units for it, fp32 elsewhere.

    Without a GPU here, the stage runs on that of another machine, which is taken to have them.
    """
    if torch.device(device).type != "cuda":
        return "fp32"
    emulated = torch.cuda.is_available() and not torch.cuda.is_bf16_supported(including_emulation=False)
    return "fp32" if emulated else "bf16"


@contextlib.contextmanager
def precision_context(precision: Precision, device: torch.device) -> Iterator[None]:
    """Compute matrix products in a precision; SSM kernels, FFTs, norms and weights stay in fp32."""
    half = torch.autocast(device.type, torch.bfloat16, enabled=precision == "bf16")
    with matmul_precision(device, "tf32" if precision == "tf32" else "ieee"), half:
        yield


def prepare(network: Network, stage: Stage, device: torch.device) -> None:
    """Set up activation checkpointing, joint kernels and compilation of a network's blocks.

    On GPUs, kernels of all blocks are computed at once, also for compiled blocks: there, launches take the
    time, and compiled kernels of S4 have many. On CPUs, those of one block fit into caches.

    Raises:
        SpecError: if the device does not support the precision, or the batch size is not divisible by
            processes times `grad_accumulation`.
    """
    if stage.precision == "tf32" and (device.type != "cuda" or stage.compile):
        raise SpecError("precision=tf32 is for GPUs, and not for compiled blocks; use fp32, or bf16")
    split = stage.objective.whole_batch and distributed.world_size() > 1
    if split and foreign_modules(to_dict(stage.objective)):  # ours add up over processes
        raise SpecError(f"{name_of(stage.objective)} sees the whole batch: run it in one process")
    parts = distributed.world_size() * stage.grad_accumulation
    if stage.batch % parts:
        raise SpecError(
            f"a batch of {stage.batch} does not divide among {distributed.world_size()} processes"
            + (f" in {stage.grad_accumulation} parts each" if stage.grad_accumulation > 1 else "")
        )
    for each in network.networks():
        each.recompute_activations(stage.activation_checkpointing)
        each.joint_kernels = device.type == "cuda"
    if stage.compile:
        limit = torch._dynamo.config.recompile_limit
        torch._dynamo.config.recompile_limit = max(SHAPES, limit)
        for block in (block for each in network.networks() for block in each.blocks):
            block.compile()


def step(
    network: nn.Module,
    optimizer: torch.optim.Optimizer,
    stage: Stage,
    form: SequenceSpec,
    targets: ObjectiveBatch,
) -> tuple[Tensor, dict[str, Tensor]]:
    """Train on one batch: forward and backward passes, clipping, and a step of the optimizer.

    The batch is split over processes (data parallel), and on each into ``grad_accumulation`` micro-batches.

    Returns:
        The loss () of this process and its metric sums, both shares of those of the whole batch.
    """
    optimizer.zero_grad(set_to_none=True)
    # DDP averages gradients over processes, whereas the loss is a mean over the whole batch:
    # scaling by the world size turns the average of shares back into their sum.
    device = targets.batch.inputs.device
    world = distributed.world_size()
    scale = world / targets.size.clamp(min=1)
    total = torch.zeros((), device=device)
    sums: dict[str, Tensor] = {}
    parts = world * stage.grad_accumulation
    for i in range(stage.grad_accumulation):
        part = targets if parts == 1 else targets.part(distributed.rank() + world * i, parts)
        last = i + 1 == stage.grad_accumulation
        # Processes exchange gradients once per step, after the last micro-batch.
        syncs_later = isinstance(network, DistributedDataParallel) and not last
        with network.no_sync() if syncs_later else contextlib.nullcontext():  # type: ignore[operator]
            with precision_context(stage.precision, device):
                outputs = network(*part.network_inputs())
            loss = loss_of(stage.objective, outputs, part, form) * scale
            with matmul_precision(device, "ieee"):  # convolutions of cuDNN would be in TF32
                loss.backward()
        total = total + loss.detach()
        part_targets = replace(part, size=targets.size / parts)  # equal shares that add up to the whole
        accumulate_sums(sums, stage.objective.metric_sums(outputs.detach(), part_targets, form))
    whole = network.module if isinstance(network, DistributedDataParallel) else network
    if stage.optim.clip:
        for each in whole.networks():  # type: ignore[operator]  # members of an ensemble are clipped alone
            nn.utils.clip_grad_norm_(each.parameters(), stage.optim.clip)
    optimizer.step()
    for each in whole.networks():  # type: ignore[operator]
        if isinstance(each.head, LatentHead):
            each.head.follow(each)
    return total, sums


def accumulate_sums(sums: dict[str, Tensor], more: dict[str, Tensor]) -> None:
    """Add the metric sums of a batch to running sums, in place and in float64."""
    for name, value in more.items():
        sums[name] = sums[name] + value if name in sums else value.double()
