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
from .leaderboard import Candidate
from .predictor import Predictor
from .simple import Answers, SimpleCandidate


@dataclass(frozen=True)
class Outcome:
    """The networks that were trained.

    Args:
        recipes: one of every network.
        answers: on validation; None without validation examples, or without a trained network.
        scores: validation scores of every network.
        seconds: that training took.
        trials: settings that were tried.
        problem: why the network is no candidate; empty if it is one.
        trained: whether the networks have been trained at all.
    """

    recipes: list[Recipe]
    networks: tuple[Network, ...]
    answers: Answers | None = None
    scores: list[Json] = field(default_factory=list)
    seconds: float = 0.0
    trials: list[Json] = field(default_factory=list)
    problem: str = ""
    trained: bool = True


@dataclass(frozen=True)
class Choice:
    """The candidates in their order, the one that is kept, and how the network among them is named."""

    ranked: list[Candidate]
    kept: Candidate
    network: str

    def line(self, rows: list[Json], problem: str) -> str:
        """Return what is kept, in one line."""
        line = leaderboard.kept_line(rows, self.kept.name, self.network or self.kept.name)
        return f"{line}; {problem}" if problem else line


def nan_problem(answers: Answers | None) -> str:
    """Return why a network with some answers on validation cannot be kept; empty if it can."""
    if answers is None or leaderboard.finite(answers):
        return ""
    wrong = (~np.isfinite(answers[1]).reshape(len(answers[1]), -1).all(1)).sum()
    return (
        f"the network is out: its answers are not finite for {wrong} of {len(answers[1])} validation examples"
    )


def choose(
    network: Candidate | None, simple: list[SimpleCandidate], problem: str, groups: np.ndarray | None
) -> Choice | None:
    """Choose among the network, simple methods and averages; None if there are no candidates to compare.

    Args:
        network: None if it has no answers on validation.
        problem: why the network is no candidate; it is kept for want of another if its answers are finite.
        groups: (n,) groups of the validation examples.

    Raises:
        StageFailed: if there is a problem, and nothing else to keep.
    """
    others = [
        Candidate(each.model.name, each.model, each.answers, each.seconds, each.model.parameters)
        for each in simple
        if leaderboard.finite(each.answers)
    ]
    if problem:
        if not others and (network is None or not leaderboard.finite(network.answers)):
            raise StageFailed(f"{problem}; there is no other model to keep")
        warnings.warn(problem, stacklevel=6)  # the caller of fit
    if problem and others:
        pair = [leaderboard.average_of(leaderboard.ranked(others)[:2])] if len(others) > 1 else []
        ranked = leaderboard.ranked([*others, *pair])
        return Choice(ranked, leaderboard.chosen(ranked, groups), "")
    if network is None:
        return None
    ranked = leaderboard.ranked([network, *others, *leaderboard.averages(network, others)])
    return Choice(ranked, leaderboard.chosen(ranked, None if problem else groups), network.name)


def candidate(predictor: Predictor, recipes: list[Recipe], outcome: Outcome, answers: Answers) -> Candidate:
    """Return the network as a candidate, e.g. "SPT (masked), attention"."""
    first = [recipe.stages[0].objective for recipe in recipes]
    objectives = " and ".join(dict.fromkeys(map(name_of, first)))
    name = "scratch" if first[0].labelled else f"SPT ({objectives})"
    parameters = sum(p.numel() for p in predictor.networks[0].parameters()) * len(predictor.networks)
    name = f"{name}, {name_of(recipes[0].model.mixer)}"
    return Candidate(name, predictor, answers, outcome.seconds, parameters)
