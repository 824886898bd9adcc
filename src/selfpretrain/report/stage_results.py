"""Results of finished stages: reading them, and checking that the files of a stage agree with each other."""

import math
from collections.abc import Hashable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache, cached_property
from pathlib import Path
from typing import Any, TypeVar, cast

from ..errors import StoreError
from ..system.files import Json, read_json
from .integrity import RUN_AGAIN, Predictions, contradiction, joined, read_log, read_predictions

RESULT = "result.json"
RESTORED = "restored.json"
MEND_RESULT = RUN_AGAIN.format(f"{RESULT} beside it")

T = TypeVar("T")


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
        """Validations in the order of their steps."""
        points = map(_point, self.log)
        return tuple(sorted({p.step: p for p in points if p is not None}.values(), key=lambda p: p.step))

    @cached_property
    def log(self) -> list[Json]:
        """Entries of the training log; empty if no log was kept."""
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
        """Predictions on the test split; None if not kept."""
        if self.folds:
            return joined([fold.predictions for fold in self.folds])
        path = self.folder / "predictions.safetensors"
        return read_predictions(path, self.files.get(path.name, ""))


def _point(entry: Json) -> ValidationPoint | None:
    step = entry.get("step")
    score = entry.get("score")
    if entry.get("kind") != "val" or not isinstance(step, int) or not isinstance(score, int | float):
        return None
    loss = entry.get("loss", math.nan)
    if not math.isfinite(score) or not isinstance(loss, int | float):
        return None
    return ValidationPoint(step, float(score), float(loss))


def read_stage(folder: Path) -> StageResult | None:
    """Read the result of a stage; return None if it has not finished.

    Raises:
        StoreError: if it is damaged, or another file of the stage is missing or contradicts it.
    """
    if not (folder / RESULT).exists():
        return None
    found, flaws = examined(folder)
    if flaws:
        raise flaws[0]
    return found


def examined(folder: Path) -> tuple[StageResult, list[StoreError]]:
    """Return a finished stage and the errors found in its files; used by report, compare and show --check.

    Raises:
        StoreError: if result.json itself cannot be read.
    """
    path = folder / RESULT
    restored = read_json(folder / RESTORED) if (folder / RESTORED).exists() else {}
    content = read_json(
        path, advice=RUN_AGAIN.format(RESULT), needs_digest=lambda it: bool(restored) or _names_files(it)
    )
    files: Json = {}
    for known in (restored.get("files", {}), content.get("files", {})):
        files |= known if isinstance(known, dict) else {"files": known}  # rejected by the validation
    found = parsed(StageResult, {**content, "files": files, "folder": folder}, path)
    flaws: list[StoreError] = []

    @contextmanager
    def noting() -> Iterator[None]:
        try:
            yield
        except StoreError as error:
            flaws.append(error)

    with noting():
        _check_identity(found, content, None)
    with noting():
        _check_recipe(found, content)
    with noting():
        for name in ("environment.json", "sources.json"):
            if (folder / name).exists():
                read_json(folder / name, advice=MEND_RESULT)
    with noting():
        for name in ("recipe.json", "environment.json", *found.files):
            if not (folder / name).exists():
                raise StoreError(f"{folder / name} is gone; {MEND_RESULT}")
    with noting():
        _ = found.log
    with noting():
        _check_identity(found, content, found.predictions)
    return found, flaws


def _names_files(result: Json) -> bool:
    """Return whether a result lists digests of other files; such a result carries its own digest, too."""
    return "files" in result or "weights" in result


def _check_identity(found: StageResult, content: Json, kept: Predictions | None) -> None:
    if wrong := contradiction(found.folder.name.partition(".part-")[0], content, kept):
        raise StoreError(f"{found.folder / RESULT}: {wrong}; {RUN_AGAIN.format(RESULT)}")


def _check_recipe(found: StageResult, content: Json) -> None:
    path = found.folder / "recipe.json"
    if not path.exists():
        return
    kept = read_json(path, advice=MEND_RESULT, needs_digest=lambda recipe: _names_files(content))
    kept.pop("format", None)
    if kept != content.get("recipe"):
        raise StoreError(f"{path} is not the recipe of the result beside it; {MEND_RESULT}")


def parsed(kind: type[T], content: Mapping[str, Any], path: Path) -> T:
    """Return a dataclass of this kind from the content of a file; unknown fields are ignored.

    Raises:
        StoreError: if a field is missing or has the wrong type.
    """
    import pydantic

    try:
        return _adapter(cast(Hashable, kind)).validate_python(content)
    except pydantic.ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise StoreError(f"{path}: {where}: {first['msg']}; {RUN_AGAIN.format(path.name)}") from error


@cache
def _adapter(kind: Any) -> Any:
    import pydantic

    return pydantic.TypeAdapter(kind)
