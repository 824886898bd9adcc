"""Consistency checks: a result must match its stage, and its predictions must reproduce its score."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import StoreError
from ..system.files import Json, damaged_message, digest_of, explain_errors, sha256_of

OUR_OBJECTIVES = ("classify", "regress", "multilabel", "token-classify")
"""Our objectives, scored by accuracy, F1 or R2; other objectives may define their own score."""
OBJECTIVES = "selfpretrain.objectives"
CLOSE = 1e-4  # absolute and relative tolerance of scores: the order of summation may differ
RUN_AGAIN = "delete this one file, {}, and run again"


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
    def metric(self) -> str:
        """Name of the metric that ``score`` returns: "accuracy", "r2", or "score" for several labels."""
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
    arrays: dict[str, NDArray[Any]] = {
        name: np.concatenate([vars(part)[name] for part in found]) for name in everywhere
    }
    whole = Predictions(**arrays)
    return replace(whole, cluster=None if clusters.max() + 1 == len(clusters) else clusters)


def read_predictions(path: Path, known: str = "") -> Predictions | None:
    """Read predictions on the test split; None if they were not kept.

    Args:
        known: digest according to result.json; "" if it has none.

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
        raise StoreError(damaged_message(path, error, RUN_AGAIN.format("result.json beside it"))) from error
    return found


def read_log(path: Path, digests: Mapping[str, str]) -> list[Json]:
    """Read the training log of a finished stage; empty if it has none.

    Args:
        digests: known digests by file name; a file without one is not checked.

    Raises:
        StoreError: if the log does not match its digest.
    """
    with explain_errors(path, "read"):
        content = path.read_bytes() if path.exists() else b""
    advice = RUN_AGAIN.format("result.json beside it")
    if (known := digests.get(path.name)) and digest_of(content) != known:
        raise StoreError(damaged_message(path, "its content is not what was written", advice))
    return [entry for line in content.splitlines() if (entry := _entry(line))]


def _entry(line: bytes) -> Json:
    """Parse a line of a log; {} for one cut short by a killed process, whose step is logged again."""
    try:
        entry = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    return entry if isinstance(entry, dict) else {}


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
    recomputed = kept.score()
    ours = result.get("objective") in OUR_OBJECTIVES
    for name in dict.fromkeys((kept.metric, *(["score"] if ours else []))):
        if name in test and not np.isclose(test[name], recomputed, CLOSE, CLOSE, equal_nan=True):
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
