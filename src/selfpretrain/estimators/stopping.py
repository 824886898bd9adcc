"""When a fit ends: at its time limit, at Ctrl-C, or where validation can show no gain; what it leaves out."""

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..system.events import format_duration
from ..tasks.base import Task
from ..training.train import Stop, never
from .annotations import FEW, clusters_of, labelled_only
from .leaderboard import score
from .simple import Candidate

MINUTES = 10.0  # time limit of a fit on two cores if none is given
GRACE = 5.0  # seconds by which training may exceed a time limit
GRACE_SHARE = 0.05  # share of a time limit by which training may exceed it, if that is more than ``GRACE``
ALL_RIGHT = FEW
"""Fewest validation examples (copies count once), or groups, among which no error ends a fit: at most 14 % of
new ones are wrong, of 50 at most 6 %, with a confidence of 95 % (the rule of three)."""


@dataclass(frozen=True)
class TimeLimit:
    """The time of a fit: when it began, of ``time.monotonic``, how many seconds it may take, and Ctrl-C."""

    start: float
    seconds: float
    interrupted: Stop = never  # returns whether Ctrl-C asked to stop

    @classmethod
    def of(cls, minutes: int | float | None, interrupted: Stop = never) -> "TimeLimit":
        """Return a limit that begins now; None: the usual one."""
        return cls(time.monotonic(), 60.0 * (minutes or MINUTES), interrupted)

    def at(self, share: float) -> float:
        """Return when a share of the time is up."""
        return self.start + share * self.seconds

    @property
    def left(self) -> float:
        """Return the seconds until the limit, at least one."""
        return max(1.0, self.at(1.0) - time.monotonic())

    @property
    def end(self) -> float:
        """When training is stopped: a little late, since plans are made for the limit itself."""
        return self.at(1.0) + max(GRACE, GRACE_SHARE * self.seconds)

    def is_up(self) -> bool:
        """Return whether training is to stop."""
        return self.interrupted() or time.monotonic() > self.end

    @property
    def reason(self) -> str:
        """Return why training was stopped."""
        limit = f"the time limit of {format_duration(self.seconds)} was up"
        return "it was interrupted" if self.interrupted() else limit

    def left_out(self, settings: int, seconds: float, unneeded: str = "") -> str:
        """Return in a line what was not trained, why, about how long it would take, and how to do so.

        Args:
            unneeded: why no network is needed; "": the time is too short, or it was interrupted.
        """
        minutes = math.ceil((self.seconds + seconds) / 60)
        why = f"they do not fit into {format_duration(self.seconds)}"
        how = f"minutes={minutes} (--minutes {minutes}) would train them"
        if unneeded:
            seconds = min(seconds, self.left)
            why = unneeded
            how = "exhaustive=True (--exhaustive) trains them"
        elif self.interrupted():
            why = self.reason
            how = "the same fit trains them"
        number = f"{settings} setting{'s' * (settings > 1)} of the network"
        return f"not trained: {number}, about {format_duration(seconds)}; {why}; {how}"


def all_right(simple: Sequence[Candidate], folds: Sequence[Task]) -> str:
    """Return that a simple method makes no error on validation, or "" if none does, or validation is small.

    No score is higher, and a network is kept for a higher one only (``leaderboard.chosen``). Whether its
    average with the method would be better, such a validation cannot tell.
    """
    best = next((each for each in simple if score(each.model.output, each.answers) >= 1), None)
    held = [labelled_only(fold.load("val")) for fold in folds]
    if best is None or sum(len(np.unique(clusters_of(each))) for each in held) < ALL_RIGHT:
        return ""
    number = f"{sum(map(len, held)):,}"
    return f"{best.name} is right on all {number} examples of validation, so no network can score higher"
