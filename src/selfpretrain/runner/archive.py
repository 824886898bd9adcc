"""Archive of results: logs, scores and predictions of finished stages, without weights, in one small file.

An archive is xz-compressed JSON lines, one per stage. Later runs on any machine restore stages from it
instead of training them. New stages that start from an archived one need its weights, so it is trained again.
"""

import base64
import contextlib
import json
import lzma
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from ..errors import StoreError, Taken
from ..report.integrity import Predictions, contradiction
from ..report.results import parsed
from ..report.stage_results import StageResult
from ..system.files import Json, damaged, digest_of, explained, locked, write_bytes, write_text
from ..training.run_dir import LOG, PREDICTIONS, RunDir

FILES = ("recipe.json", "result.json", "environment.json")
RESTORED = "restored.json"
"""File that marks a stage as restored, and says from which archive."""
KEPT_KINDS = {"uint8": np.uint8, "int64": np.int64, "float32": np.float32}
KINDS = ("int64", "float32", "float64", "int32", "uint8")
"""Data types allowed for restored predictions."""
LARGEST = 1 << 27
"""Maximum size of an unpacked archive in bytes."""
SHIPPED = Path(__file__).parents[1]
"""The package's folder; archives outside of it may come from anyone."""
Measures = dict[str, list[Any]]


@dataclass(frozen=True)
class Archive:
    """A file of kept results."""

    file: Path

    def keep(self, stages: Iterable[RunDir], measures: Measures) -> int:
        """Add finished stages to the archive, and return how many of the given stages are finished.

        Args:
            measures: measurements on these stages, by the name of their file.

        Raises:
            StoreError: if the existing archive cannot be read, or the file cannot be written.
        """
        with explained(self.file):
            self.file.parent.mkdir(parents=True, exist_ok=True)
        with locked(self.file.with_name(f".{self.file.name}.lock")):
            before, lines = self._lines() if self.file.exists() else ({}, {})
            ours = {folder.name: _line(folder) for folder in stages if folder.finished}
            # ours come first, then other archived stages; a stage in both is replaced by ours
            packed = _packed_lines(before | measures, [*(ours | lines | ours).values()])
            with explained(self.file):
                same = self.file.exists() and self.file.read_bytes() == packed
            if not same:
                write_bytes(self.file, packed)
        return len(ours)

    def names(self) -> frozenset[str]:
        """Return the names of the archived stages.

        Raises:
            StoreError: if the file is damaged.
        """
        return frozenset(self._lines()[1]) if self.file.exists() else frozenset()

    def restore(self, stages: dict[str, RunDir], recipes: dict[str, Json]) -> tuple[int, Measures]:
        """Restore the stages that are not on disk; return how many, and the archived measurements.

        Args:
            stages: folders of the wanted stages, by name.
            recipes: the recipe that each of them must have, by name.

        Raises:
            StoreError: if the file is damaged, or a result is inconsistent; nothing is restored then.
        """
        if not self.file.exists():
            return 0, {}
        measures, lines = self._lines()
        wanted = {name: line for name, line in lines.items() if name in stages and not stages[name].begun}
        for name, line in wanted.items():
            try:
                contradiction = _contradiction(line, recipes[name])
                parsed(StageResult, {**line["files"]["result.json"], "folder": self.file}, self.file)
            except (KeyError, TypeError, IndexError, ValueError, AttributeError, StoreError) as error:
                raise self._damaged(f"{name}: {error}") from error
            if contradiction:
                raise self._damaged(f"{name}: {contradiction}")
        # Resolved first: a relative path is never below an absolute one.
        theirs = "" if self.file.resolve().is_relative_to(SHIPPED.resolve()) else str(self.file)
        for name, line in wanted.items():
            _put(stages[name], line, line.get("from") or theirs)
        return len(wanted), measures

    @staticmethod
    def forget(stages: Iterable[RunDir]) -> None:
        """Drop restored results, so that these stages are trained here."""
        for folder in stages:
            if folder.has(RESTORED):
                folder.drop("result.json")
                folder.drop(RESTORED)

    def _lines(self) -> tuple[Measures, dict[str, Json]]:
        """Return the measurements by file name, and the archived stages by name."""
        try:
            with explained(self.file, "read"):
                packed = self.file.read_bytes()
            unpacking = lzma.LZMADecompressor(memlimit=LARGEST)
            text = unpacking.decompress(packed, LARGEST)
            if not unpacking.eof:
                raise ValueError(f"it is cut off, or holds more than {LARGEST >> 20} MB")
            first, *lines = [json.loads(line) for line in text.splitlines()] or [{}]
            measures = {first["of"]: first.get("measures", [])} if "of" in first else {}
            return first.get("more", {}) | measures, {line["stage"]: line for line in lines}
        except (
            EOFError,
            lzma.LZMAError,
            ValueError,
            RecursionError,
            KeyError,
            TypeError,
            AttributeError,
        ) as error:
            raise self._damaged(error) from error

    def _damaged(self, error: object) -> StoreError:
        return StoreError(damaged(self.file, error, "move it away, or use another --results"))


def _packed_lines(measures: Measures, lines: list[Json]) -> bytes:
    """Pack measurements and stages; line 1 has the current measurements, and under "more" older ones."""
    *more, last = [*measures.items()] or [("", [])]
    first: Json = {"of": last[0], "measures": last[1]} | ({"more": dict(more)} if more else {})
    text = "\n".join(json.dumps(line, sort_keys=True) for line in [first, *lines])
    return lzma.compress(text.encode(), preset=9)


def _contradiction(line: Json, recipe: Json) -> str:
    """Return what is inconsistent in an archived stage; "" if nothing is."""
    result, arrays = line["files"]["result.json"], line.get("predictions")
    if not all(isinstance(line["files"][name], dict) for name in FILES) or not isinstance(line["log"], str):
        return "its files are not what they should be"
    if result["recipe"] != recipe:
        return "it is the result of another recipe"
    kept = Predictions(**{name: _unpacked(it) for name, it in arrays.items()}) if arrays else None
    return contradiction(line["stage"], result, kept)


def _line(folder: RunDir) -> Json:
    line: Json = {"stage": folder.path.name, "files": {name: folder.read(name) for name in FILES}}
    if source := folder.remembered(RESTORED).get("from"):
        line["from"] = source
    log = folder.path / LOG
    line["log"] = log.read_text(encoding="utf-8") if log.exists() else ""
    if folder.has(PREDICTIONS):
        arrays, _ = folder.load(PREDICTIONS)
        line["predictions"] = {name: _packed(tensor.numpy()) for name, tensor in arrays.items()}
    return line


def _put(stage: RunDir, line: Json, source: str) -> None:
    """Publish an archived stage, unless another process is working on it."""
    with contextlib.suppress(Taken), stage.attempt(lambda: stage.finished, stop=lambda: True) as folder:
        if folder is None:
            return
        write_text(folder.path / LOG, line["log"])
        files = {LOG: digest_of(line["log"].encode())}
        if "predictions" in line:
            arrays = {name: torch.from_numpy(_unpacked(it)) for name, it in line["predictions"].items()}
            files[PREDICTIONS] = folder.save(PREDICTIONS, arrays)
        folder.write(RESTORED, {"from": source, "files": files})
        for name in sorted(
            FILES, key=lambda name: name == "result.json"
        ):  # result.json last: it marks the stage as finished
            folder.write(name, line["files"][name])
        folder.publish()


def _packed(array: np.ndarray) -> list[str]:
    whole = np.issubdtype(array.dtype, np.integer)
    small = whole and array.size and array.min() >= 0 and array.max() < 256
    stored = array.astype(np.uint8 if small else np.int64 if whole else np.float32)
    return [str(array.dtype), str(stored.dtype), base64.b64encode(stored.tobytes()).decode()]


def _unpacked(it: list[str]) -> np.ndarray:
    kind, stored, text = it
    if kind not in KINDS:
        raise ValueError(f"predictions are {str(kind)[:40]}")
    return np.frombuffer(base64.b64decode(text), dtype=KEPT_KINDS[stored]).astype(kind)
