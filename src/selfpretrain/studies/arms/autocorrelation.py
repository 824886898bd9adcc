"""Training from scratch with a timescale from the autocorrelation of the inputs, and hardly any damping."""

import math
from dataclasses import replace
from typing import Annotated

from pydantic import Field

from ...config import Positive, spec
from ...data.autocorrelation import largest_eigenvalue
from ...mixers.dss import DSS
from ...mixers.ms4 import MS4
from ...mixers.s4d import S4D
from ...mixers.s5 import S5
from ...tasks.base import Task
from ...training.cost import COUNTED, Planner
from ...training.recipe import Recipe
from ..recipes.arms import ArmRecipes, matched_stage
from .base import Arm

DIAGONAL = (S4D, DSS, S5, MS4)
"""State space models whose real parts and steps are settings."""


@spec
class Autocorrelation(Arm):
    """The matched arm with steps 1 / sqrt(L lambda) and real parts of the state matrix near zero.

    lambda is the largest eigenvalue of R = E[x x^T] of the training sequences, without their labels, see
    ``largest_eigenvalue``. Held over steps dt, an undamped mode has a kernel of norm dt sqrt(L), so the
    variance of its output at the end, K^T R K, is at most dt^2 L lambda: these steps make it 1, and let the
    state remember all L positions. They are 1/sqrt(L) for white noise, 1/L for constant sequences.

    Source: Liu & Li (2025), Autocorrelation matters, arXiv 2411.19455, of which abstract and summary could be
    read: the timescale by lambda and L, real parts of zero; the constant 1, one step for all channels, the
    reading of tokens and the same step in every block are ours. Real parts are exponentials here, hence near
    zero and not zero. S4 is refused: its state matrix is not diagonal.
    """

    column = "scratch (matched), autocorrelation start"
    mixers = DIAGONAL
    other_mixers = "this start is one of diagonal state space models, not of {}"

    damping: Positive = 1e-3  # initial -Re A
    range: Annotated[float, Field(ge=1)] = 1.0  # of initial steps, around the one above: largest / smallest

    def recipe(self, task: Task, arms: ArmRecipes, planner: Planner = COUNTED) -> Recipe:
        """Return the matched recipe with another start of the state space model."""
        mixer = arms.scratch_model.mixer
        assert isinstance(mixer, DIAGONAL), "refused otherwise"
        # Inputs have a variance of 1, and therefore lambda is 1 or more, unless they are stubs.
        power = max(1.0, largest_eigenvalue(task.load("train"), task.form))
        step = 1 / math.sqrt(task.form.length * power)
        smallest, largest = (_rounded(step * math.sqrt(each)) for each in (1 / self.range, self.range))
        mixer = replace(mixer, shortest=smallest, longest=largest, damping=self.damping)
        model = replace(arms.scratch_model, mixer=mixer)
        return Recipe(task, model, (matched_stage(task, arms, planner),))


def _rounded(number: float) -> float:
    """Return a number to three digits, the same on every machine."""
    return float(f"{number:.3g}")


arm = Autocorrelation
