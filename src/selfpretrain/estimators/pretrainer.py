"""Transformer that self-pretrains on sequences and returns their embeddings."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import TransformerMixin

from ..data.spec import Reals, SequenceSpec, Target
from ..errors import SpecError
from ..studies.recipes.arms import ArmRecipes
from ..tasks.base import Task
from ..training.recipe import Stage
from .base import SequenceEstimator
from .inputs import Sequences


@dataclass(kw_only=True, eq=False, repr=False)
class SequencePretrainer(TransformerMixin, SequenceEstimator):  # type: ignore[misc]
    """Self-pretraining on sequences; ``transform`` returns their embeddings. Labels are ignored."""

    def _targets(self, y: Any, found: Sequences) -> tuple[np.ndarray, Target]:
        return np.full(len(found.rows), np.nan, dtype=np.float32), Reals()

    def _adopt(self, form: SequenceSpec) -> None:
        """Accept a task with any kind of target, because labels are ignored."""

    def _stages(self, arms: ArmRecipes, task: Task) -> tuple[Stage, ...]:
        if not self.objective:
            raise SpecError("SequencePretrainer needs an objective, e.g. masked")
        return (arms.pretrain,)
