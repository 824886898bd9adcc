"""Optimizers (AdamW, Muon), with their parameter groups and weight decay, and learning-rate scheduler."""

import fnmatch
import inspect
import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated, Any, Literal

import torch
from pydantic import Field
from torch import Tensor, nn

from ..config import Count, Natural, Positive, Rate, added, spec
from ..errors import SpecError

Optimizer = Literal["adamw", "muon"]
"""How weights are updated. muon: Muon for the matrices of linear layers in blocks, AdamW for all else."""
NEWTON_SCHULZ_STEPS = 5
"""Steps of the iteration with which Muon makes the update of a matrix orthogonal."""
MUON = {
    **{"momentum": 0.95, "ns_steps": NEWTON_SCHULZ_STEPS, "eps": 1e-7},
    "adjust_lr_fn": "match_rms_adamw",  # updates of the size of AdamW's
}
"""Settings of Muon apart from those that it shares with AdamW; the defaults of torch but for the last."""


class _EagerAdamW(torch.optim.AdamW):
    """AdamW without torch's guards against being compiled: these import the compiler, which takes seconds."""

    add_param_group = inspect.unwrap(torch.optim.AdamW.add_param_group)
    zero_grad = inspect.unwrap(torch.optim.AdamW.zero_grad)
    state_dict = inspect.unwrap(torch.optim.AdamW.state_dict)
    load_state_dict = inspect.unwrap(torch.optim.AdamW.load_state_dict)
    step = torch.no_grad()(inspect.unwrap(torch.optim.AdamW.step))


class _EagerMuon(torch.optim.Muon):
    """Muon without the same guards."""

    add_param_group = inspect.unwrap(torch.optim.Muon.add_param_group)
    step = torch.no_grad()(inspect.unwrap(torch.optim.Muon.step))


class _MuonAndAdamW(_EagerAdamW):
    """AdamW whose groups with a momentum are updated by Muon; its state is that of both."""

    def __init__(self, groups: list[dict[str, Any]], betas: tuple[float, float], fused: bool) -> None:
        super().__init__(groups, betas=betas, fused=fused)
        self.muon = _EagerMuon([group for group in self.param_groups if "momentum" in group])

    def __setstate__(self, state: dict[str, Any]) -> None:
        torch.optim.Optimizer.__setstate__(self, state)  # that of AdamW needs all state to be its own

    def step(self) -> None:  # type: ignore[override]  # without a closure
        """Update all parameters."""
        groups = self.param_groups
        self.muon.state = self.state
        self.muon.param_groups = [each for each in groups if "momentum" in each]
        self.muon.step()
        self.param_groups = [each for each in groups if "momentum" not in each]
        super().step()
        self.param_groups = groups


@spec
class Optim:
    """Settings of an optimizer and its schedule; warm-up is a fraction of the stage or `warmup_steps`.

    One-dimensional parameters (norms, most biases) and the slow parameters of mixers have no weight decay.
    Updates of Muon have the size of those of AdamW, so that learning rate and decay can be the same.

    Source: Loshchilov & Hutter (2019); Amos et al. (2024), appendix C. Muon: Jordan et al. (2024); the size
    of its updates: Liu et al. (2025), arXiv 2502.16982.
    """

    lr: Positive = 1e-3
    weight_decay: Annotated[float, Field(ge=0)] = 0.0
    schedule: Literal["cosine", "constant", "plateau"] = "cosine"
    warmup: Rate = 0.05  # linear warm-up, as a share of the stage, or of `cosine_steps` if given
    final: Rate = 0.0  # learning rate at the end of the cosine schedule, as a share of lr
    betas: tuple[Rate, Rate] = (0.9, 0.999)
    clip: Annotated[float, Field(ge=0)] = 1.0  # maximum gradient norm; 0 disables clipping
    factor: Rate = 0.2  # plateau schedule: factor applied to the learning rate ...
    wait: Count = 10  # ... after this many validations without improvement
    warmup_steps: Natural | None = None  # replaces `warmup`: linear warm-up, in steps
    plateau_wait_epochs: Positive | None = None  # replaces `wait`: epochs without improvement
    plateau_threshold: Rate = added(0.0)  # a gain below this share of the best score does not count
    cosine_steps: Count | None = added(None)  # step at which the cosine ends; None: the last of the stage
    optimizer: Optimizer = added("adamw")

    def build(self, network: nn.Module, slow: Mapping[str, float]) -> torch.optim.Optimizer:
        """Return the optimizer over the trainable parameters.

        Args:
            slow: parameter name pattern inside a mixer -> highest learning rate.

        Raises:
            SpecError: if Muon has no matrix to update.
        """
        matrices = hidden_matrices(network, slow) if self.optimizer == "muon" else []
        if self.optimizer == "muon" and not matrices:
            raise SpecError(NO_MATRICES)
        ours = set(map(id, matrices))
        groups: dict[tuple[float, float], list[Tensor]] = {}
        for name, parameter in network.named_parameters():
            if parameter.requires_grad and id(parameter) not in ours:
                groups.setdefault(self._settings(name, parameter, slow), []).append(parameter)
        named = [{"params": p, "lr": lr, "base": lr, "weight_decay": wd} for (lr, wd), p in groups.items()]
        # The fused kernel is for real numbers, and some networks of users have complex weights.
        real = not any(parameter.is_complex() for parameter in network.parameters())
        fused = real and next(network.parameters()).device.type in ("cpu", "cuda")
        if not matrices:
            return _EagerAdamW(named, betas=self.betas, fused=fused)
        rates = {"lr": self.lr, "base": self.lr, "weight_decay": self.weight_decay}
        return _MuonAndAdamW([{"params": matrices, **rates, **MUON}, *named], self.betas, fused)

    def flops(self, network: nn.Module, slow: Mapping[str, float]) -> float:
        """Return the FLOPs of an update: those of Muon's iteration; AdamW has no products of matrices.

        An iteration on an (n, m) matrix, n <= m, is X X^T, a square of n x n and a product with X.
        """
        if self.optimizer == "adamw":
            return 0.0
        sizes = [sorted(matrix.shape) for matrix in hidden_matrices(network, slow)]
        return NEWTON_SCHULZ_STEPS * float(sum(4 * n * n * m + 2 * n**3 for n, m in sizes))

    def scale_steps(self, factor: float) -> "Optim":
        """Return the settings with the steps of warm-up and cosine multiplied by ``factor``, where given."""
        steps = {"warmup_steps": self.warmup_steps, "cosine_steps": self.cosine_steps}
        scaled: dict[str, Any] = {n: max(1, round(factor * each)) for n, each in steps.items() if each}
        return replace(self, **scaled)

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
        highest = highest_rate(name, slow)
        if highest is not None:
            return min(self.lr, highest), 0.0
        return self.lr, self.weight_decay if parameter.ndim > 1 else 0.0


NO_MATRICES = (
    "Muon is for matrices, and the blocks of this network have no linear layer that is trained; "
    "use optimizer=adamw"
)


def hidden_matrices(network: nn.Module, slow: Mapping[str, float]) -> list[Tensor]:
    """Return the trainable weights of linear layers in blocks that are not slow: those that Muon updates."""
    inside = {f"{name}.weight": module for name, module in network.named_modules() if "blocks." in name}
    fast = [each for name, each in inside.items() if highest_rate(name, slow) is None]
    weights = {id(each.weight): each.weight for each in fast if isinstance(each, nn.Linear)}
    return [weight for weight in weights.values() if weight.requires_grad]


def highest_rate(name: str, slow: Mapping[str, float]) -> float | None:
    """Return the highest learning rate of a slow parameter of a mixer; None if it is not slow."""
    found = (rate for pattern, rate in slow.items() if fnmatch.fnmatch(name, f"*blocks.*.mixer.{pattern}"))
    return next(found, None)


def set_lr_factor(optimizer: torch.optim.Optimizer, share: float) -> None:
    """Set the learning rate of every parameter group to a share of its base."""
    for group in optimizer.param_groups:
        group["lr"] = group["base"] * share
