"""Training steps of the code published with Amos et al. (2024), and the same steps of our reported recipes.

``studies/golden/published_code.json.xz`` holds, for each of its configurations, where weights, inputs, masks
and labels come from (formulas, under ``formulas``), the learning rate and decay of every weight, and the
losses and gradient norms that the code printed. No line of that code is here.
"""

import functools
import json
import lzma
import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from selfpretrain.config import amended, settings_of
from selfpretrain.data.dataset import Batch
from selfpretrain.data.spec import Classes, Reals, SequenceSpec, Tokens, Values
from selfpretrain.objectives.base import ObjectiveBatch
from selfpretrain.objectives.masked import Masked
from selfpretrain.studies.recipes.reported import paper_arms
from selfpretrain.training.model import Model, Network
from selfpretrain.training.optim import set_lr_factor
from selfpretrain.training.recipe import Stage
from steps import backward

Case = dict[str, Any]
PRIME = 10_007
SIGNALS = {
    "grey": Values(1, 256, 0.0, 1.0, (122.6 / 255,), (61 / 255,)),
    "path": Values(1, 256, 0.0, 1.0, (0.5,), (0.5,)),
    "colour": Values(3, 256, 0.0, 1.0, (0.4914, 0.4822, 0.4465), (0.247, 0.243, 0.261)),
    "bidmc": Values(2),
    "speech": Values(1),
}


@functools.cache
def cases() -> dict[str, Case]:
    """Every configuration by its name: task/model/objective/stage."""
    path = Path(__file__).parents[1] / "studies" / "golden" / "published_code.json.xz"
    found: dict[str, Case] = json.loads(lzma.decompress(path.read_bytes()))["cases"]
    return found


def steps(
    case: Case, count: int | None = None, published: bool = True, **settings: Any
) -> Iterator[tuple[float, float]]:
    """Loss and gradient norm of each step of our recipe, from the weights and inputs of a configuration.

    Args:
        count: number of steps; None: as many as were printed.
        published: rates and decay of every weight as published, or else those of our recipe.
        settings: changes of the model, with two underscores for a dot.
    """
    model, stage = _recipe(case, settings)
    form = _form(case["data"])
    network = model.build(form, stage.objective.head(form, model.width, model.pooling)).train()
    groups = _load(network, case["weights"], form)
    optimizer = stage.optim.build(network, model.mixer.slow())
    if published:
        optimizer = torch.optim.AdamW(groups, betas=stage.optim.betas)
    for step, factor in enumerate(case["lr_factors"][:count]):
        optimizer.zero_grad(set_to_none=True)
        loss, _ = backward(network, stage, form, _targets(case["data"], step, stage, form))
        gradients = [p.grad.double() for p in network.parameters() if p.grad is not None]
        yield loss.item(), nn.utils.get_total_norm(gradients).item()
        set_lr_factor(optimizer, factor)
        optimizer.step()


def _recipe(case: Case, settings: dict[str, Any]) -> tuple[Model, Stage]:
    """Model and stage of the recipe, without dropout and with blocks as long as in the golden run."""
    arms = paper_arms(*case["recipe"])
    quiet = {path: 0 for path, _ in settings_of(arms.model) if path.rpartition(".")[2] == "dropout"}
    blocks = {"mixer.size": case["data"]["block"]} if case["data"]["block"] else {}
    own = {name.replace("__", "."): value for name, value in settings.items()}
    return amended(arms.model, quiet | blocks | own), getattr(arms, case["stage"])


def _form(data: dict[str, Any]) -> SequenceSpec:
    signal = Tokens(data["vocab"]) if data["kind"] == "tokens" else SIGNALS[data["kind"]]
    classes = Classes(tuple(map(str, range(data["classes"] or 10))))
    target = Reals("value", 0.0, 1.0) if data["kind"] == "bidmc" else classes
    return SequenceSpec(signal, data["length"], target, data["views"])


# ---- weights


@torch.no_grad()
def _load(network: Network, weights: list[dict[str, Any]], form: SequenceSpec) -> list[dict[str, Any]]:
    """Set the weights that the published network has, too; return a group of the optimizer for each."""
    own = dict(network.named_parameters())
    channels = form.signal.channels if isinstance(form.signal, Values) else 0
    groups = []
    for weight in weights:
        value = _weight(weight)
        for name, how in weight["ours"]:
            part = _as_ours(how, value, channels)
            if part is not None:
                own[name].copy_(part)
                rate, decay = weight["lr"], weight["weight_decay"]
                groups.append({"params": [own[name]], "lr": rate, "base": rate, "weight_decay": decay})
    return groups


def _weight(weight: dict[str, Any]) -> Tensor:
    shape, mean = weight["shape"], weight["mean"]
    n = shape[-1] if shape else 1
    if mean == "10*(n+1)/N":
        return (10 * (torch.arange(n) + 1) / n).expand(shape)
    if mean == "2*pi*n/N":
        return (2 * math.pi * torch.arange(n) / n).expand(shape)
    t, j = weight["t"], np.arange(math.prod(shape), dtype=np.int64)
    phase = (7 * j * j + 11 * j + 5 * t * j + 13 * t) % PRIME / PRIME
    return torch.from_numpy((mean + weight["amp"] * np.sin(2 * np.pi * phase)).reshape(shape)).float()


def _as_ours(how: str, x: Tensor, channels: int) -> Tensor | None:
    """The part of a published tensor that is a tensor of ours; None if it has no such part."""
    parts: dict[str, Callable[[], Tensor | None]] = {
        "same": lambda: x,
        "row 0": lambda: x[0],
        "value columns": lambda: x[:, :channels],
        "mask column": lambda: x[:, channels] if x.shape[1] > channels else None,
    }
    if how in parts:
        return parts[how]()
    heads = int(how.removeprefix("rotary rows, ").removesuffix(" heads"))
    pairs = x.reshape(heads, len(x) // heads // 2, 2, *x.shape[1:])  # rotated are 2m with 2m + 1 there,
    return pairs.transpose(1, 2).reshape(x.shape)  # m with m + size / 2 here


# ---- batches


def _targets(data: dict[str, Any], step: int, stage: Stage, form: SequenceSpec) -> ObjectiveBatch:
    rows, length = data["batch"] * data["views"], data["length"]
    batch = Batch(_inputs(data, step, rows), None, _labels(data, step), data["views"])
    objective = stage.objective
    if not isinstance(objective, Masked):
        return objective.make_targets(batch, form, torch.Generator())
    b, i = np.arange(rows)[:, None], np.arange(length)
    share = torch.from_numpy((53 * i * i + i * (29 + 11 * b) + 307 * step + 503 * b) % PRIME / PRIME)
    masked = share.float() < objective.rate
    labels = objective.reconstruction_target(batch, form)
    return ObjectiveBatch(batch, labels, masked.sum(), masked=masked, loss_mask=masked)


def _inputs(data: dict[str, Any], step: int, rows: int) -> Tensor:
    """Tokens (rows, L) or values (rows, L, C)."""
    kind, b, i = data["kind"], np.arange(rows)[:, None], np.arange(data["length"])
    if kind == "tokens":
        return torch.from_numpy(4 + _hash(step, b, i, 0) % (data["vocab"] - 4))
    b, i, c = b[..., None], i[:, None], np.arange(SIGNALS[kind].channels)
    if SIGNALS[kind].levels:
        return torch.from_numpy(256 * _hash(step, b, i, c) // PRIME).float() / 255
    wave = np.sin(0.05 * i * (1 + 0.3 * b) + step + c)
    return torch.from_numpy(wave + 0.3 * np.sin(2 * np.pi * _hash(step, b, i, c) / PRIME)).float()


def _hash(s: int, b: Any, i: Any, c: Any) -> Any:
    return (31 * i * i + i * (17 + 7 * b) + 101 * s + 1009 * b + 211 * c + 3 * i * s) % PRIME


def _labels(data: dict[str, Any], step: int) -> Tensor:
    if data["kind"] == "bidmc":
        return torch.tensor([80 + 12 * math.sin(1.7 * step + b) for b in range(data["batch"])])
    return torch.tensor([(step + 3 * b) % (data["classes"] or 10) for b in range(data["batch"])])
