"""Results of finished stages and of cells, and the pooling of cross-validation folds."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

import numpy as np

from ..system.files import Json, read_json
from .integrity import OUR_OBJECTIVES, Predictions, joined, read_log, read_predictions
from .manifest import CellRecord
from .paper_numbers import PaperNumber


@dataclass(frozen=True)
class StageCost:
    """Size and cost of one stage."""

    parameters: int
    flops: float
    seconds: float
    padding: float = 0.0  # fraction of positions that are padding
    examples: int = 0


@dataclass(frozen=True)
class ValidationPoint:
    """One validation during training."""

    step: int
    score: float
    loss: float = math.nan


@dataclass(frozen=True)
class StageResult:
    """The result of a finished stage and its folder."""

    folder: Path
    objective: str
    scores: dict[str, dict[str, float]]
    steps: int
    epochs: float
    best_step: int
    stopped: str
    cost: StageCost
    # Digests of the other files in the folder, where known.
    files: dict[str, str] = field(default_factory=dict)
    folds: tuple["StageResult", ...] = ()  # the folds pooled in this result; empty otherwise

    @cached_property
    def curve(self) -> tuple[ValidationPoint, ...]:
        """Validations in the order of their steps.

        Raises:
            StoreError: if the log has been altered.
        """
        points = map(_point, self.log)
        return tuple(sorted({p.step: p for p in points if p is not None}.values(), key=lambda p: p.step))

    @cached_property
    def log(self) -> list[Json]:
        """Entries of the training log; empty if no log was kept.

        Raises:
            StoreError: if the log has been altered.
        """
        return read_log(self.folder / "log.jsonl", self.files)

    @cached_property
    def source(self) -> str:
        """File of archived results that this one was restored from; "" if trained here or shipped with us."""
        path = self.folder / "restored.json"
        return str(read_json(path).get("from", "")) if path.exists() else ""

    @cached_property
    def environment(self) -> Json:
        """Versions, device and commit; empty if not kept."""
        path = self.folder / "environment.json"
        return read_json(path) if path.exists() else {}

    @cached_property
    def predictions(self) -> Predictions | None:
        """Predictions on the test split; None if not kept.

        Raises:
            StoreError: if the file has been altered.
        """
        if self.folds:
            return joined([fold.predictions for fold in self.folds])
        path = self.folder / "predictions.safetensors"
        return read_predictions(path, self.files.get(path.name, ""))


@dataclass(frozen=True)
class CellResult:
    """A cell and its results; ``stages`` is empty until all of them have finished."""

    record: CellRecord
    stages: tuple[StageResult, ...] = ()
    printed: PaperNumber | None = None

    @property
    def row(self) -> str:
        """Name of the model."""
        return self.record.row

    @property
    def column(self) -> str:
        """Name of the arm."""
        return self.record.column

    @property
    def seed(self) -> int:
        """Random seed."""
        return self.record.seed

    @property
    def finished(self) -> bool:
        """Whether every stage has finished."""
        return bool(self.stages)

    @property
    def tested(self) -> bool:
        """Whether every stage has finished, and the last one was scored on the test split."""
        return self.finished and "test" in self.scored.scores

    @property
    def scored(self) -> StageResult:
        """The last stage, whose test score is the cell's."""
        return self.stages[-1]

    @cached_property
    def score(self) -> float | None:
        """Score on the test split; None if missing or not finite."""
        value = self.scored.scores.get("test", {}).get("score", math.nan) if self.stages else math.nan
        return value if math.isfinite(value) else None

    @property
    def undefined(self) -> bool:
        """Whether it was tested without a finite score."""
        return self.tested and self.score is None

    @property
    def state(self) -> str:
        """State in words: "finished", "missing" or "no finite score"."""
        if self.undefined:
            return "no finite score"
        return "finished" if self.finished else "missing"

    @property
    def training_score(self) -> float | None:
        """Score on training data; None if it was not kept."""
        return self.scored.scores.get("train", {}).get("score")

    @property
    def flops(self) -> float:
        """Floating-point operations of all stages together."""
        return sum((stage.cost.flops for stage in self.stages), 0.0)

    @property
    def seconds(self) -> float:
        """Seconds of all stages together."""
        return sum((stage.cost.seconds for stage in self.stages), 0.0)


def pooled(folds: Sequence[CellResult]) -> CellResult:
    """Pool the folds of a cell into one result with the stages of all folds.

    Scores are means over folds, except the test score: it is computed on the predictions of all folds
    together if they were kept.
    """
    if len(folds) == 1:
        return folds[0]
    parts = tuple(fold.scored for fold in folds)
    answers = joined([part.predictions for part in parts])
    scores = {
        split: {name: float(np.mean([part.scores[split][name] for part in parts])) for name in known}
        for split, known in parts[0].scores.items()
    }
    if answers is not None and parts[0].objective in OUR_OBJECTIVES:
        scores["test"]["score"] = answers.score()
    *before, last = (stage for fold in folds for stage in fold.stages)
    return replace(folds[0], stages=(*before, replace(last, scores=scores, folds=parts)))


def _point(entry: Json) -> ValidationPoint | None:
    step = entry.get("step")
    score = entry.get("score")
    if entry.get("kind") != "val" or not isinstance(step, int) or not isinstance(score, int | float):
        return None
    loss = entry.get("loss", math.nan)
    if not math.isfinite(score) or not isinstance(loss, int | float):
        return None
    return ValidationPoint(step, float(score), float(loss))
