"""Optimizer (AdamW), with its parameter groups and weight decay, and learning-rate scheduler."""

import fnmatch
import inspect
import math
from collections.abc import Mapping
from typing import Annotated, Literal

import torch
from pydantic import Field
from torch import Tensor, nn

from ..config import Count, Positive, Rate, added, spec


class _EagerAdamW(torch.optim.AdamW):
    """AdamW without torch's guards against being compiled: these import the compiler, which takes seconds."""

    add_param_group = inspect.unwrap(torch.optim.AdamW.add_param_group)
    zero_grad = inspect.unwrap(torch.optim.AdamW.zero_grad)
    state_dict = inspect.unwrap(torch.optim.AdamW.state_dict)
    load_state_dict = inspect.unwrap(torch.optim.AdamW.load_state_dict)
    step = torch.no_grad()(inspect.unwrap(torch.optim.AdamW.step))


@spec
class Optim:
    """Settings of AdamW and its schedule; warm-up is a fraction of the stage unless `warmup_steps` is set.

    One-dimensional parameters (norms, biases) and the slow parameters of mixers have no weight decay.
    Source: Loshchilov & Hutter (2019); Amos et al. (2024), appendix C.
    """

    lr: Positive = 1e-3
    weight_decay: Annotated[float, Field(ge=0)] = 0.0
    schedule: Literal["cosine", "constant", "plateau"] = "cosine"
    warmup: Rate = 0.05  # linear warm-up, as a share of the stage
    final: Rate = 0.0  # learning rate at the end of the cosine schedule, as a share of lr
    betas: tuple[Rate, Rate] = (0.9, 0.999)
    clip: Annotated[float, Field(ge=0)] = 1.0  # maximum gradient norm; 0 disables clipping
    factor: Rate = 0.2  # plateau schedule: factor applied to the learning rate ...
    wait: Count = 10  # ... after this many validations without improvement
    warmup_steps: Annotated[int, Field(ge=0)] | None = None  # replaces `warmup`: linear warm-up, in steps
    plateau_wait_epochs: Positive | None = None  # replaces `wait`: epochs without improvement
    plateau_threshold: Rate = added(0.0)  # a gain below this share of the best score does not count
    cosine_steps: Count | None = added(None)  # step at which the cosine ends; None: the last of the stage

    def build(self, network: nn.Module, slow: Mapping[str, float]) -> torch.optim.Optimizer:
        """Return AdamW over the trainable parameters.

        Args:
            slow: parameter name pattern inside a mixer -> highest learning rate.
        """
        groups: dict[tuple[float, float], list[Tensor]] = {}
        for name, parameter in network.named_parameters():
            if parameter.requires_grad:
                groups.setdefault(self._settings(name, parameter, slow), []).append(parameter)
        named = [{"params": p, "lr": lr, "base": lr, "weight_decay": wd} for (lr, wd), p in groups.items()]
        device = next(network.parameters()).device.type
        return _EagerAdamW(named, betas=self.betas, fused=device in ("cpu", "cuda"))

    def lr_factor(self, progress: float, step: float | int) -> float:
        """Return the learning rate as a share of its base, in [0, 1]; plateau reductions are not included.

        Args:
            progress: share of the stage completed, in [0, 1].
            step: number of steps completed.

        After ``cosine_steps`` the rate rises again, as in ``get_cosine_schedule_with_warmup`` of the library
        transformers: the cosine has a period of twice its length.
        """
        if self.cosine_steps is not None:
            progress = step / self.cosine_steps
        warmup = self.warmup
        if self.warmup_steps is not None:
            if step < self.warmup_steps:
                return step / self.warmup_steps
            warmup = self.warmup_steps * progress / step if step else 0.0
        if progress < warmup:
            return progress / warmup
        if self.schedule != "cosine":
            return 1.0
        rest = (progress - warmup) / (1 - warmup) if warmup < 1 else 1.0
        return self.final + (1 - self.final) * 0.5 * (1 + math.cos(math.pi * rest))

    def _settings(self, name: str, parameter: Tensor, slow: Mapping[str, float]) -> tuple[float, float]:
        for pattern, highest in slow.items():
            if fnmatch.fnmatch(name, f"*blocks.*.mixer.{pattern}"):
                return min(self.lr, highest), 0.0
        return self.lr, self.weight_decay if parameter.ndim > 1 else 0.0


def set_lr_factor(optimizer: torch.optim.Optimizer, share: float) -> None:
    """Set the learning rate of every parameter group to a share of its base."""
    for group in optimizer.param_groups:
        group["lr"] = group["base"] * share
