"""How weights are updated: AdamW, its parameter groups, and the course of the learning rate."""

import fnmatch
import math
from typing import Annotated, Literal

import torch
from pydantic import Field
from torch import Tensor, nn

from ..config import Count, Positive, Rate, spec


@spec
class Optim:
    """AdamW with warm-up and a schedule, in fractions of the stage unless a setting says otherwise.

    Weights of one dimension (norms, biases) and the slow parameters of mixers are not decayed.
    Source: Loshchilov & Hutter (2019); Amos et al. (2024), appendix C.
    """

    lr: Positive = 1e-3
    weight_decay: Annotated[float, Field(ge=0)] = 0.0
    schedule: Literal["cosine", "constant", "plateau"] = "cosine"
    warmup: Rate = 0.05  # share of the stage with linearly rising learning rate
    final: Rate = 0.0  # learning rate at the end of a cosine, as a share of lr
    betas: tuple[Rate, Rate] = (0.9, 0.999)
    clip: Annotated[float, Field(ge=0)] = 1.0  # largest norm of the gradient; 0: no clipping
    factor: Rate = 0.2  # plateau: learning rate is multiplied by this ...
    wait: Count = 10  # ... after so many validations without a better score
    warmup_steps: Annotated[int, Field(ge=0)] | None = None  # instead of a share: as long in a short stage
    plateau_wait_epochs: Positive | None = None  # instead of validations

    def build(self, network: nn.Module, slow: dict[str, float]) -> torch.optim.Optimizer:
        """AdamW over the trainable parameters.

        Args:
            slow: name pattern inside a mixer -> highest learning rate.
        """
        groups: dict[tuple[float, float], list[Tensor]] = {}
        for name, parameter in network.named_parameters():
            if parameter.requires_grad:
                groups.setdefault(self._settings(name, parameter, slow), []).append(parameter)
        named = [{"params": p, "lr": lr, "base": lr, "weight_decay": wd} for (lr, wd), p in groups.items()]
        device = next(network.parameters()).device.type
        return torch.optim.AdamW(named, betas=self.betas, fused=device in ("cpu", "cuda"))

    def lr_factor(self, progress: float, step: float | int) -> float:
        """The learning rate as a share of its base.

        Args:
            progress: share of the stage that is done, in [0, 1].
            step: how many steps are done.
        """
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
        return self.final + (1 - self.final) * 0.5 * (1 + math.cos(math.pi * min(rest, 1.0)))

    def _settings(self, name: str, parameter: Tensor, slow: dict[str, float]) -> tuple[float, float]:
        for pattern, highest in slow.items():
            if fnmatch.fnmatch(name, f"blocks.*.mixer.{pattern}"):
                return min(self.lr, highest), 0.0
        return self.lr, self.weight_decay if parameter.ndim > 1 else 0.0


def set_lr_factor(optimizer: torch.optim.Optimizer, share: float) -> None:
    """Set every group's learning rate to a share of its base."""
    for group in optimizer.param_groups:
        group["lr"] = group["base"] * share
