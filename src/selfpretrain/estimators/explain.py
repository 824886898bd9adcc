"""Occlusion: importance of positions, from the change of a prediction when they are hidden.

A stretch of a sequence, or a square of an image, is masked if pretraining masked positions. Otherwise it is
overwritten with positions drawn at random from the same sequence, and predictions are averaged over several
draws.
"""

import math
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from ..data.dataset import SequenceDataset, generator
from ..data.spec import Signal, Tokens
from ..errors import SpecError
from .base import SequenceEstimator
from .inputs import BYTES
from .occlusion import Explanation

STRETCHES, DRAWS = 48, 8
"""Approximate number of stretches per sequence; random draws per stretch."""
SQUARES, LEVELS = 8, 256
"""Approximate number of squares along a side of an image; most levels of a pixel value."""


def explain(estimator: SequenceEstimator, X: Any, shape: tuple[int, int] | None = None) -> list[Explanation]:
    """Return the importance of every position of some sequences for the model's predictions.

    Args:
        X: as for predict.
        shape: rows and columns, if sequences are images; None: a square, if the model was trained on pixels.

    Raises:
        SpecError: if the model does not predict whole sequences, or a sequence does not have that shape.
    """
    if estimator.predictor_.what in ("vectors", "position chances"):
        raise SpecError(
            f"{type(estimator).__name__} does not answer about whole sequences; ask one that does"
        )
    data, signal = estimator._usable(X), estimator.predictor_.form.signal
    text = isinstance(signal, Tokens) and signal.vocab == BYTES
    found = []
    for row in range(len(data)):
        L = int(data.lengths[0, row])
        image = shape or _square(signal, L)
        if image and image[0] * image[1] != L:
            raise SpecError(f"sequence {row} has {L} positions, which are not {image[0]} rows of {image[1]}")
        found.append(_one(estimator, data.take(torch.tensor([row])), text, image))
    return found


def _square(signal: Signal, length: int) -> tuple[int, int] | None:
    """Return (side, side) if a sequence is a square image of quantised pixels, gray or RGB; else None."""
    side = math.isqrt(length)
    if isinstance(signal, Tokens) or not signal.levels or signal.levels > LEVELS:
        return None
    return (side, side) if signal.channels in (1, 3) and side * side == length > 1 else None


def _stretches(length: int, image: tuple[int, int] | None) -> Iterator[Tensor]:
    """Yield the positions to hide together: overlapping stretches, or overlapping squares of an image."""
    if image is None:
        size = max(1, round(2 * length / STRETCHES))
        for start in range(0, max(length - size, 0) + 1, max(1, size // 2)):
            yield torch.arange(start, start + size)
        return
    places, size = torch.arange(length).view(image), max(1, round(max(image) / SQUARES))
    step = max(1, size // 2)
    for top in range(0, image[0], step):
        for left in range(0, image[1], step):
            yield places[top : top + size, left : left + size].flatten()


@torch.no_grad()
def _one(
    estimator: SequenceEstimator, data: SequenceDataset, text: bool, image: tuple[int, int] | None
) -> Explanation:
    batch = data.batch(torch.tensor([0]))
    whole = _answers(estimator, batch.inputs)
    best = int(whole.argmax())
    L = batch.inputs.shape[1]
    fallen, times = torch.zeros(L, dtype=torch.float64), torch.zeros(L)
    for stretch in _stretches(L, image):
        fallen[stretch] += whole[0, best] - _without(estimator, batch.inputs, stretch)[:, best].mean()
        times[stretch] += 1
    named = estimator.predictor_.what != "numbers"
    labels = vars(estimator)["classes_"][best] if named else float(whole[0, 0])
    importance = (fallen / times.clamp(min=1)).numpy()
    return Explanation(labels, data.sequence(0), importance, text, image)


def _without(estimator: SequenceEstimator, inputs: Tensor, stretch: Tensor) -> Tensor:
    """Return the predictions (draws, K) with a stretch hidden; one draw if it is masked."""
    if _knows_holes(estimator):
        masked = torch.zeros(inputs.shape[:2], dtype=torch.bool)
        masked[:, stretch] = True
        return _answers(estimator, inputs, masked)
    many = inputs.repeat(DRAWS, *[1] * (inputs.ndim - 1))
    random = generator("explain", int(stretch[0]))
    drawn = torch.randint(inputs.shape[1], (DRAWS, len(stretch)), generator=random)
    many[:, stretch] = inputs[0][drawn]
    return _answers(estimator, many)


def _knows_holes(estimator: SequenceEstimator) -> bool:
    return any(stage.objective.masks_inputs for recipe in estimator.recipes_[:1] for stage in recipe.stages)


def _answers(estimator: SequenceEstimator, inputs: Tensor, masked: Tensor | None = None) -> Tensor:
    """Return probabilities or numbers (rows, K), averaged over the members."""
    predictor = estimator.predictor_
    device = next(predictor.networks[0].parameters()).device
    asked = inputs.to(device), None, None if masked is None else masked.to(device)
    each = torch.stack([network.eval()(*asked) for network in predictor.networks]).double().cpu()
    return torch.from_numpy(predictor.averaged(each.numpy()))
