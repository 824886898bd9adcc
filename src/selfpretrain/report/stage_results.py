"""What has come of a cell: its stages, and of several folds the answers of all of them."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

import numpy as np

from ..system.files import Json, read_json
from .integrity import OURS, Predictions, joined, read_log, read_predictions
from .manifest import CellRecord
from .paper_numbers import PaperNumber


@dataclass(frozen=True)
class StageCost:
    """What one stage took."""

    parameters: int
    flops: float
    seconds: float
    padding: float = 0.0  # share of positions that were padding
    examples: int = 0


@dataclass(frozen=True)
class ValidationPoint:
    """A validation during training."""

    step: int
    score: float
    loss: float = math.nan


@dataclass(frozen=True)
class StageResult:
    """A finished training and the folder it left."""

    folder: Path
    objective: str
    scores: dict[str, dict[str, float]]
    steps: int
    epochs: float
    best_step: int
    stopped: str
    cost: StageCost
    files: dict[str, str] = field(
        default_factory=dict
    )  # digests of what lies beside it, where they are known
    folds: tuple["StageResult", ...] = ()  # that are pooled in it

    @cached_property
    def curve(self) -> tuple[ValidationPoint, ...]:
        """Validation scores in the order of their steps.

        Raises:
            StoreError: if the log is not what was written.
        """
        points = map(_point, self.log)
        return tuple(sorted({p.step: p for p in points if p is not None}.values(), key=lambda p: p.step))

    @cached_property
    def log(self) -> list[Json]:
        """The lines that were logged while it was trained; none where no log was kept.

        Raises:
            StoreError: if the log is not what was written.
        """
        return read_log(self.folder / "log.jsonl", self.files)

    @cached_property
    def source(self) -> str:
        """The file of kept results that it was taken from; empty where it was trained here or by us."""
        path = self.folder / "restored.json"
        return str(read_json(path).get("from", "")) if path.exists() else ""

    @cached_property
    def environment(self) -> Json:
        """Versions, device and commit; empty where none was kept."""
        path = self.folder / "environment.json"
        return read_json(path) if path.exists() else {}

    @cached_property
    def predictions(self) -> Predictions | None:
        """Answers on the test split; None where none were kept.

        Raises:
            StoreError: if the file is not what was written.
        """
        if self.folds:
            return joined([fold.predictions for fold in self.folds])
        path = self.folder / "predictions.safetensors"
        return read_predictions(path, self.files.get(path.name, ""))


@dataclass(frozen=True)
class CellResult:
    """A cell and what has come of it; ``stages`` is empty until all of them have finished."""

    record: CellRecord
    stages: tuple[StageResult, ...] = ()
    printed: PaperNumber | None = None

    @property
    def row(self) -> str:
        """The architecture."""
        return self.record.row

    @property
    def column(self) -> str:
        """The arm."""
        return self.record.column

    @property
    def seed(self) -> int:
        """What randomness starts from."""
        return self.record.seed

    @property
    def finished(self) -> bool:
        """Whether every stage has left its result."""
        return bool(self.stages)

    @property
    def scored(self) -> StageResult:
        """The last stage: the one that is scored."""
        return self.stages[-1]

    @cached_property
    def score(self) -> float | None:
        """Score on the test split; None where it is missing or not finite."""
        value = self.scored.scores.get("test", {}).get("score", math.nan) if self.stages else math.nan
        return value if math.isfinite(value) else None

    @property
    def flops(self) -> float:
        """Floating-point operations of all stages."""
        return sum((stage.cost.flops for stage in self.stages), 0.0)

    @property
    def seconds(self) -> float:
        """Seconds of all stages."""
        return sum((stage.cost.seconds for stage in self.stages), 0.0)


def pooled(folds: Sequence[CellResult]) -> CellResult:
    """The folds of a cell as one: all of their stages, the last with the answers of all folds.

    Scores are means over folds; on test, that of all answers together where they are there.
    """
    if len(folds) == 1:
        return folds[0]
    parts = tuple(fold.scored for fold in folds)
    answers = joined([part.predictions for part in parts])
    scores = {
        split: {name: float(np.mean([part.scores[split][name] for part in parts])) for name in known}
        for split, known in parts[0].scores.items()
    }
    if answers is not None and parts[0].objective in OURS:
        scores["test"]["score"] = answers.score()
    *before, last = (stage for fold in folds for stage in fold.stages)
    return replace(folds[0], stages=(*before, replace(last, scores=scores, folds=parts)))


def _point(entry: Json) -> ValidationPoint | None:
    step, score = entry.get("step"), entry.get("score")
    if entry.get("kind") != "val" or not isinstance(step, int) or not isinstance(score, int | float):
        return None
    loss = entry.get("loss", math.nan)
    if not math.isfinite(score) or not isinstance(loss, int | float):
        return None
    return ValidationPoint(step, float(score), float(loss))
