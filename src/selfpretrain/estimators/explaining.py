"""Where a model looked: how much its answer changes when stretches of a sequence are made to say nothing.

A stretch is hidden the way pretraining hid positions, where that was done; elsewhere it is overwritten with
positions drawn from the same sequence, which keeps its values but not their order, several times over.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..data.examples import Examples, generator
from ..errors import SpecError
from ..report.figures import style
from .base import SequenceEstimator

STRETCHES, DRAWS = 48, 8
"""Stretches that a sequence is divided into, about; times that one is overwritten."""


@dataclass(frozen=True)
class Explanation:
    """What every position contributed to an answer."""

    answer: Any  # the class, or the number
    sequence: np.ndarray  # (L,) symbols or (L, C) values
    importance: np.ndarray  # (L,) by how much the probability, or the number, falls without the position
    text: bool

    def picture(self) -> str:
        """The sequence above the importance of its positions, as SVG."""
        with style.inked("explanation"):
            figure, axes = style.canvas(2.6, 7.2)
            places = np.arange(len(self.importance))
            axes.bar(places, self.importance, width=1.0, color=style.COLOURS[0], alpha=0.45)
            axes.set_ylabel("importance")
            if self.text and len(places) <= STRETCHES:
                axes.set_xticks(places, [chr(symbol) for symbol in self.sequence])
            elif self.sequence.ndim == 2:
                beside = axes.twinx()
                beside.plot(places, self.sequence, linewidth=0.9, color=style.COLOURS[1])
                beside.set_ylabel("value")
            axes.set_xlabel("position")
            axes.set_title(f"{self.answer}")
            return style.on_paper(style.drawn(figure))


def explain(estimator: SequenceEstimator, X: Any) -> list[Explanation]:
    """What every position of some sequences contributed to the model's answers.

    Raises:
        SpecError: if these are not about whole sequences.
    """
    if estimator.predictor_.what in ("vectors", "position chances"):
        raise SpecError(
            f"{type(estimator).__name__} does not answer about whole sequences; ask one that does"
        )
    found = estimator.readable(X).sound()
    data = estimator.examples(found)
    return [_one(estimator, data.take(torch.tensor([row])), found.kind == "text") for row in range(len(data))]


@torch.no_grad()
def _one(estimator: SequenceEstimator, data: Examples, text: bool) -> Explanation:
    batch = data.batch(torch.tensor([0]))
    whole = _answers(estimator, batch.inputs)
    best = int(whole.argmax())
    L = batch.inputs.shape[1]
    size = max(1, round(2 * L / STRETCHES))
    fallen, times = torch.zeros(L, dtype=torch.float64), torch.zeros(L)
    for start in range(0, max(L - size, 0) + 1, max(1, size // 2)):
        stretch = slice(start, start + size)
        fallen[stretch] += whole[0, best] - _without(estimator, batch.inputs, stretch)[:, best].mean()
        times[stretch] += 1
    named = estimator.predictor_.what != "numbers"
    answer = vars(estimator)["classes_"][best] if named else float(whole[0, 0])
    return Explanation(answer, data.sequence(0), (fallen / times.clamp(min=1)).numpy(), text)


def _without(estimator: SequenceEstimator, inputs: Tensor, stretch: slice) -> Tensor:
    """(draws, K) answers without a stretch."""
    if _knows_holes(estimator):
        hidden = torch.zeros(inputs.shape[:2], dtype=torch.bool)
        hidden[:, stretch] = True
        return _answers(estimator, inputs, hidden)
    many = inputs.repeat(DRAWS, *[1] * (inputs.ndim - 1))
    width = many[:, stretch].shape[1]
    drawn = torch.randint(inputs.shape[1], (DRAWS, width), generator=generator("explain", stretch.start))
    many[:, stretch] = inputs[0][drawn]
    return _answers(estimator, many)


def _knows_holes(estimator: SequenceEstimator) -> bool:
    return any(stage.objective.hides for recipe in estimator.recipes_[:1] for stage in recipe.stages)


def _answers(estimator: SequenceEstimator, inputs: Tensor, hidden: Tensor | None = None) -> Tensor:
    """(rows, K) probabilities or numbers, averaged over the members."""
    predictor = estimator.predictor_
    device = next(predictor.networks[0].parameters()).device
    asked = inputs.to(device), None, None if hidden is None else hidden.to(device)
    each = torch.stack([network.eval()(*asked) for network in predictor.networks]).double().cpu()
    return torch.from_numpy(predictor.averaged(each.numpy()))
