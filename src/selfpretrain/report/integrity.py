"""Whether a result is borne out: it is of the stage it lies in, and its predictions give its score again."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import StoreError
from ..system.files import Json, damaged, digest_of, explained, sha256_of

OURS = ("classify", "regress", "multilabel", "segment")
"""Objectives whose score is accuracy, F1 or R2; those of others may be scored as they like."""
OBJECTIVES = "selfpretrain.objectives"
CLOSE = 1e-4
"""Difference of two scores, relative where they are large, that the order of summation may make."""
MEND = "delete this one file, {}, and run again"


@dataclass(frozen=True)
class Predictions:
    """Answers on the test split, in the same order for every run of a task.

    Where an example has several answers, these are numbers of them: of right ones, of labels, and ``asked``.
    """

    prediction: NDArray[Any]
    target: NDArray[Any]
    cluster: NDArray[Any] | None = None  # (n,) examples of one number are not independent of each other
    asked: NDArray[Any] | None = None  # (n,) of which the right ones are a share
    confidence: NDArray[Any] | None = (
        None  # (n,) how probable answers of one class were said to be, in 255ths
    )

    @property
    def metric(self) -> str:
        """What they can be scored by."""
        if self.asked is not None:
            return "score"
        return "accuracy" if self.target.dtype.kind in "iu" else "r2"

    def score(self) -> float:
        """Accuracy in [0, 1], F1, or R2; NaN where all targets are equal."""
        if self.asked is not None:
            return float(self.prediction.sum() / self.asked.sum()) if self.asked.any() else 1.0
        if self.metric == "accuracy":
            return float((self.prediction == self.target).mean())
        target = self.target.astype(np.float64)
        squared = ((self.prediction.astype(np.float64) - target) ** 2).sum()
        total = ((target - target.mean()) ** 2).sum()
        return float(1 - squared / total) if total > 0 else float("nan")


def joined(parts: Sequence[Predictions | None]) -> Predictions | None:
    """Return answers on several test splits, one after the other; None where some were not kept.

    No two splits share a cluster.
    """
    found = [part for part in parts if part is not None]
    if not found or len(found) < len(parts):
        return None
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
    """Answers on the test split; None where none were kept.

    Args:
        known: digest that the result beside them names; "" if it names none.

    Raises:
        StoreError: if the file cannot be read, or is not what was written.
    """
    from safetensors import SafetensorError, safe_open

    if not path.exists():
        return None
    try:
        with explained(path, "read"), safe_open(path, framework="np") as file:
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
        raise StoreError(damaged(path, error, MEND.format("result.json beside it"))) from error
    return found


def read_log(path: Path, digests: Mapping[str, str]) -> list[Json]:
    """Return the lines of a finished stage's log; none where it has none.

    Raises:
        StoreError: if its digest is known and another.
    """
    with explained(path, "read"):
        content = path.read_bytes() if path.exists() else b""
    again = MEND.format("result.json beside it")
    if (known := digests.get(path.name)) and digest_of(content) != known:
        raise StoreError(damaged(path, "its content is not what was written", again))
    return [entry for line in content.splitlines() if (entry := _entry(line))]


def _entry(line: bytes) -> Json:
    """Return what a line of a log holds; nothing for one that a kill cut short: its step follows again."""
    try:
        entry = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    return entry if isinstance(entry, dict) else {}


def contradiction(stage: str, result: Mapping[str, Any], kept: Predictions | None) -> str:
    """What contradicts what in the result of a stage, in words; empty if nothing does.

    Args:
        stage: name of the folder that it lies in, which ends with the fingerprint of the recipe.
    """
    if not stage.endswith(str(result.get("fingerprint") or "no fingerprint")):
        return "it is the result of another stage"
    planned = _objective_of(result.get("recipe"))
    if planned and planned != result.get("objective"):
        return f"it says objective {str(result.get('objective'))[:40]!r}, its recipe {planned!r}"
    test = result.get("scores", {}).get("test") or {}
    if kept is None or not test:
        return ""
    again = kept.score()
    ours = result.get("objective") in OURS
    for name in dict.fromkeys((kept.metric, *(["score"] if ours else []))):
        if name in test and not np.isclose(test[name], again, CLOSE, CLOSE, equal_nan=True):
            return f"it says {name} {test[name]:.6g}, its predictions give {again:.6g}"
    return ""


def _objective_of(recipe: object) -> str:
    """Return the name of the last stage's objective; "" where the recipe has none of ours."""
    try:
        module = recipe["stages"][-1]["objective"]["is"].partition(":")[0]  # type: ignore[index]
    except (KeyError, IndexError, TypeError, AttributeError):  # it is read again where it is used
        return ""
    package, _, file = module.rpartition(".")
    return str(file.replace("_", "-")) if package == OBJECTIVES else ""
