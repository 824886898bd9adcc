"""What training came to: networks and their answers on validation, or why there are none to choose."""

import warnings
from dataclasses import dataclass, field

import numpy as np

from ..errors import StageFailed
from ..registry import name_of
from ..system.files import Json
from ..training.model import Network
from ..training.recipe import Recipe
from . import leaderboard
from .leaderboard import Verdict
from .predictor import Predictor
from .simple import Answers, Candidate, Options, finite


@dataclass(frozen=True)
class Outcome:
    """The networks that were trained.

    Args:
        recipes: one of every network.
        answers: on validation; None without validation examples, or without a trained network.
        scores: validation scores of every network.
        seconds: that training took.
        trials: settings that were tried.
        options: the answers of all of them; None: there was no choice.
        problem: why the network is not a candidate; empty if it is one.
        trained: whether the networks have been trained at all.
        left_out: which settings were not trained, why, and how long they would take; empty: none.
    """

    recipes: list[Recipe]
    networks: tuple[Network, ...]
    answers: Answers | None = None
    scores: list[Json] = field(default_factory=list)
    seconds: float = 0.0
    trials: list[Json] = field(default_factory=list)
    options: Options | None = None
    problem: str = ""
    trained: bool = True
    left_out: str = ""


def nan_problem(answers: Answers | None) -> str:
    """Return why a network with some answers on validation cannot be kept; empty if it can."""
    if answers is None or finite(answers):
        return ""
    wrong = (~np.isfinite(answers[1]).reshape(len(answers[1]), -1).all(1)).sum()
    return (
        f"the network is out: its answers are not finite for {wrong} of {len(answers[1])} validation examples"
    )


def choose(
    network: Candidate | None,
    simple: list[Candidate],
    problem: str,
    groups: np.ndarray | None,
    folds: int,
) -> Verdict | None:
    """Choose among the network, simple methods and averages; None if there are no candidates to compare.

    Args:
        network: None if it has no answers on validation.
        problem: why the network is not a candidate; it is kept for want of another if its answers are finite.
        groups: (n,) groups of the validation examples.
        folds: number of folds of which they are.

    Raises:
        StageFailed: if there is a problem, and nothing else to keep.
    """
    sound = [each for each in simple if finite(each.answers)]
    if problem:
        if not sound and (network is None or not finite(network.answers)):
            raise StageFailed(f"{problem}; there is no other model to keep")
        warnings.warn(problem, stacklevel=4)  # the caller of fit
        if sound:
            network = None
        else:
            groups = None  # its answers are those on some folds
    if network is None and not sound:
        return None
    return leaderboard.judge(network, sound, groups, folds)


def candidate(predictor: Predictor, recipes: list[Recipe], outcome: Outcome, answers: Answers) -> Candidate:
    """Return the network as a candidate."""
    parameters = sum(p.numel() for p in predictor.networks[0].parameters()) * len(predictor.networks)
    return Candidate(title(recipes), predictor, answers, outcome.seconds, parameters, outcome.options)


def title(recipes: list[Recipe]) -> str:
    """Return what the networks of some recipes are, e.g. "SPT (masked), attention"."""
    first = [recipe.stages[0].objective for recipe in recipes]
    objectives = " and ".join(dict.fromkeys(map(name_of, first)))
    name = "scratch" if first[0].labelled else f"SPT ({objectives})"
    return f"{name}, {name_of(recipes[0].model.mixer)}"
