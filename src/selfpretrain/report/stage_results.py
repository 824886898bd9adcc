"""Results of finished stages: reading them, and checking that the files of a stage agree with each other.

A result must match its stage, and its predictions must reproduce its score.
"""

import json
import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from pathlib import Path
from typing import Any, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from ..errors import StoreError
from ..system.files import Json, damaged_message, digest_of, explain_errors, read_json, sha256_of

OUR_OBJECTIVES = ("classify", "regress", "multilabel", "token-classify")
"""Our objectives, scored by accuracy, F1 or R2; other objectives may define their own score."""
OBJECTIVES = "selfpretrain.objectives"
CLOSE = 1e-4  # absolute and relative tolerance of scores: the order of summation may differ
RUN_AGAIN = "delete this one file, {}, and run again"
RESULT = "result.json"
RESTORED = "restored.json"  # marks a stage as restored, and says from which archive
MEND_RESULT = RUN_AGAIN.format(f"{RESULT} beside it")
RECIPE = "recipe.json"
ENVIRONMENT = "environment.json"

T = TypeVar("T")


@dataclass(frozen=True)
class Predictions:
    """Predictions on the test split, in the same order for every run of a task.

    If an example has several labels, the arrays are counts per example: ``prediction`` of correct ones,
    ``target`` of labels, and ``asked`` the denominator of the score.
    """

    prediction: NDArray[Any]
    target: NDArray[Any]
    cluster: NDArray[Any] | None = None  # (n,) examples of one cluster are not independent
    asked: NDArray[Any] | None = None  # (n,) denominators; ``prediction`` holds the numerators
    confidence: NDArray[Any] | None = None  # (n,) predicted probability of the predicted class, in 255ths

    @property
    def answers(self) -> NDArray[Any]:
        """Return what was answered: of several labels, how many are right and, with true ones, how many."""
        return self.prediction if self.asked is None else np.stack([self.prediction, self.asked])

    @property
    def metric(self) -> str:
        """Return what ``score`` returns: "accuracy", "r2", or "score" for several labels."""
        if self.asked is not None:
            return "score"
        return "accuracy" if self.target.dtype.kind in "iu" else "r2"

    def score(self) -> float:
        """Return accuracy in [0, 1], F1 or R2; NaN for R2 if all targets are equal."""
        if self.asked is not None:
            return float(self.prediction.sum() / self.asked.sum()) if self.asked.any() else 1.0
        if self.metric == "accuracy":
            return float((self.prediction == self.target).mean())
        target = self.target.astype(np.float64)
        squared = ((self.prediction.astype(np.float64) - target) ** 2).sum()
        total = ((target - target.mean()) ** 2).sum()
        return float(1 - squared / total) if total > 0 else float("nan")


def joined(parts: Sequence[Predictions | None]) -> Predictions | None:
    """Concatenate predictions on several test splits; None if any of them was not kept.

    Clusters of different splits are distinct.
    """
    found = [part for part in parts if part is not None]
    if not found or len(found) < len(parts):
        return None
    # Cluster numbers restart in every split: renumber the (split, cluster) pairs.
    own = [np.arange(len(part.target)) if part.cluster is None else part.cluster for part in found]
    named = np.concatenate([np.stack([np.full_like(each, at), each]) for at, each in enumerate(own)], axis=1)
    clusters = np.unique(named, axis=1, return_inverse=True)[1].ravel()
    everywhere = [name for name in vars(found[0]) if all(vars(part)[name] is not None for part in found)]
    arrays: dict[str, Any]
    arrays = {name: np.concatenate([vars(part)[name] for part in found]) for name in everywhere}
    whole = Predictions(**arrays)
    return replace(whole, cluster=None if clusters.max() + 1 == len(clusters) else clusters)


def read_predictions(path: Path, known: str = "") -> Predictions | None:
    """Read predictions on the test split; None if they were not kept.

    Raises:
        StoreError: if the file cannot be read or has been altered.
    """
    from safetensors import SafetensorError, safe_open

    if not path.exists():
        return None
    try:
        with explain_errors(path, "read"), safe_open(path, framework="np") as file:
            meta = file.metadata() or {}
            arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        buffers = {f"{name} torch.{it.dtype} {it.shape}": it for name, it in sorted(arrays.items())}
        if (sealed := meta.get("sha256")) and sha256_of(meta.get("json", ""), buffers) != sealed:
            raise ValueError("its content is not what was written")
        if known and sealed != known:
            raise ValueError("it is of another training than the result beside it")
        more = (arrays.get(name) for name in ("cluster", "asked", "confidence"))
        found = Predictions(arrays["prediction"], arrays["target"], *more)
        if {it.shape for it in arrays.values()} != {(len(found.target),)}:
            raise ValueError("its arrays differ in shape")
    except (SafetensorError, ValueError, KeyError, TypeError) as error:
        raise StoreError(damaged_message(path, error, MEND_RESULT)) from error
    return found


def read_log(path: Path, digests: Mapping[str, str]) -> list[Json]:
    """Read the training log of a finished stage; empty if it has none.

    Raises:
        StoreError: if the log does not match its digest.
    """
    with explain_errors(path, "read"):
        content = path.read_bytes() if path.exists() else b""
    if (known := digests.get(path.name)) and digest_of(content) != known:
        raise StoreError(damaged_message(path, "its content is not what was written", MEND_RESULT))
    entries = []
    for line in content.splitlines():
        with suppress(ValueError, RecursionError):  # cut short by a killed process: logged again
            entries.append(json.loads(line))
    return [entry for entry in entries if entry and isinstance(entry, dict)]


def contradiction(stage: str, result: Mapping[str, Any], kept: Predictions | None) -> str:
    """Return what is inconsistent in the result of a stage; "" if nothing is.

    Args:
        stage: name of the stage's folder, which ends with the fingerprint of the recipe.
        kept: test predictions to recompute the score from; None skips this check.
    """
    if not stage.endswith(str(result.get("fingerprint") or "no fingerprint")):
        return "it is the result of another stage"
    planned = _objective_of(result.get("recipe"))
    if planned and planned != result.get("objective"):
        return f"it says objective {str(result.get('objective'))[:40]!r}, its recipe {planned!r}"
    test = result.get("scores", {}).get("test") or {}
    if kept is None or not test:
        return ""
    if kept.metric == "r2" and np.ptp(kept.target) == 0:
        return ""  # equal targets have no R2, or one of rounding errors
    recomputed = kept.score()
    ours = result.get("objective") in OUR_OBJECTIVES
    for name in dict.fromkeys((kept.metric, *(["score"] if ours else []))):
        if name in test and not _near(test[name], recomputed):
            return f"it says {name} {test[name]:.6g}, its predictions give {recomputed:.6g}"
    return ""


def _objective_of(recipe: object) -> str:
    """Return the name of the last stage's objective; "" if it is not one of ours."""
    try:
        module = recipe["stages"][-1]["objective"]["is"].partition(":")[0]  # type: ignore[index]
    except (KeyError, IndexError, TypeError, AttributeError):  # malformed recipe: reported by its own check
        return ""
    package, _, file = module.rpartition(".")
    return str(file.replace("_", "-")) if package == OBJECTIVES else ""


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
        """Return the validations in the order of their steps."""
        points = {}
        for entry in self.log:
            step, score, loss = (entry.get(key, math.nan) for key in ("step", "score", "loss"))
            numbers = isinstance(score, int | float) and isinstance(loss, int | float)
            if entry.get("kind") == "val" and isinstance(step, int) and numbers and math.isfinite(score):
                points[step] = ValidationPoint(step, float(score), float(loss))
        return tuple(points[step] for step in sorted(points))

    @cached_property
    def log(self) -> list[Json]:
        """Return the entries of the training log; empty if no log was kept."""
        return read_log(self.folder / "log.jsonl", self.files)

    @cached_property
    def source(self) -> str:
        """Return the archive that this result was restored from; "" if trained here or shipped with us."""
        path = self.folder / RESTORED
        return str(read_json(path).get("from", "")) if path.exists() else ""

    @cached_property
    def environment(self) -> Json:
        """Return versions, device and commit; empty if not kept."""
        path = self.folder / ENVIRONMENT
        return read_json(path) if path.exists() else {}

    @cached_property
    def predictions(self) -> Predictions | None:
        """Return the predictions on the test split; None if not kept."""
        if self.folds:
            return joined([fold.predictions for fold in self.folds])
        path = self.folder / "predictions.safetensors"
        return read_predictions(path, self.files.get(path.name, ""))

    @property
    def scored_by_answers(self) -> bool:
        """Return whether its test score is that of its predictions, as with all labelled objectives of ours.

        Equal targets have no R2, so their predictions tell nothing of the score.
        """
        kept = self.predictions
        if kept is None:
            return False
        of_ours = any(f"-{self.objective}".endswith(f"-{each}") for each in (*OUR_OBJECTIVES, "joint"))
        equal = of_ours and kept.metric == "r2" and bool(np.ptp(kept.target) == 0)
        return equal or _near(self.scores["test"]["score"], kept.score())


def _near(one: float, other: float) -> bool:
    return bool(np.isclose(one, other, CLOSE, CLOSE, equal_nan=True))


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

    def identity(kept: Predictions | None) -> None:
        if wrong := contradiction(folder.name.partition(".part-")[0], content, kept):
            raise StoreError(f"{path}: {wrong}; {RUN_AGAIN.format(RESULT)}")

    def notes() -> None:
        for name in (ENVIRONMENT, "sources.json"):
            if (folder / name).exists():
                read_json(folder / name, advice=MEND_RESULT)

    def files_are_here() -> None:
        for name in (RECIPE, ENVIRONMENT, *found.files):
            if not (folder / name).exists():
                raise StoreError(f"{folder / name} is gone; {MEND_RESULT}")

    flaws: list[StoreError] = []
    checks: tuple[Callable[[], object], ...] = (
        lambda: identity(None),
        lambda: _check_recipe(folder / RECIPE, content),
        notes,
        files_are_here,
        lambda: found.log,
        lambda: identity(found.predictions),
    )
    for check in checks:
        try:
            check()
        except StoreError as error:
            flaws.append(error)
    return found, flaws


def _names_files(result: Json) -> bool:
    """Return whether a result lists digests of other files; such a result carries its own digest, too."""
    return "files" in result or "weights" in result


def _check_recipe(path: Path, content: Json) -> None:
    if path.exists():
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
        return cast(T, _adapter(cast(Hashable, kind)).validate_python(content))
    except pydantic.ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise StoreError(f"{path}: {where}: {first['msg']}; {RUN_AGAIN.format(path.name)}") from error


@cache
def _adapter(kind: Any) -> Any:
    import pydantic  # takes a sixth of a second

    return pydantic.TypeAdapter(kind)
