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
from ..report.stage_results import RESTORED, Predictions, StageResult, contradiction, parsed
from ..system.files import (
    Json,
    damaged_message,
    digest_of,
    explain_errors,
    hold_lock,
    write_bytes,
    write_text,
)
from .run_dir import LOG, PREDICTIONS, RESULT, RunDir

FILES = ("recipe.json", RESULT, "environment.json")
KEPT_KINDS = {"uint8": np.uint8, "int64": np.int64, "float32": np.float32}
KINDS = ("int64", "float32", "float64", "int32", "uint8")
"""Data types allowed for restored predictions."""
MAX_BYTES = 1 << 27
"""Maximum size of an unpacked archive in bytes."""
SHIPPED = Path(__file__).parents[1]
"""The package's folder; archives outside of it may come from anyone."""
Measures = dict[str, list[Any]]


@dataclass(frozen=True)
class Archive:
    """A file of bundled results.

    Raises:
        StoreError: from its methods, if the file is damaged.
    """

    file: Path

    def keep(self, stages: Iterable[RunDir], measures: Measures) -> int:
        """Add finished stages to the archive, and return how many of the given stages are finished.

        Args:
            measures: measurements on these stages, by the name of their file.

        Raises:
            StoreError: if an archive that is there cannot be read, or the file cannot be written.
        """
        with explain_errors(self.file):
            self.file.parent.mkdir(parents=True, exist_ok=True)
        with hold_lock(self.file.with_name(f".{self.file.name}.lock")):
            old_measures, lines = self._lines() if self.file.exists() else ({}, {})
            finished = {folder.name: _stage_line(folder) for folder in stages if folder.finished}
            shared = lines.keys() & finished.keys()
            if any(lines[name]["files"][RESULT] != finished[name]["files"][RESULT] for name in shared):
                old_measures = {}  # they may be of results that are replaced here
            # ours come first, then other archived stages; a stage in both is replaced by ours
            packed = _compress(old_measures | measures, [*(finished | lines | finished).values()])
            with explain_errors(self.file):
                unchanged = self.file.exists() and self.file.read_bytes() == packed
            if not unchanged:
                write_bytes(self.file, packed)
        return len(finished)

    def names(self) -> frozenset[str]:
        """Return the names of the archived stages."""
        return frozenset(self._lines()[1]) if self.file.exists() else frozenset()

    def scores(self) -> dict[str, float]:
        """Return the test scores of the archived stages that were tested, by the name of the stage."""
        lines = self._lines()[1] if self.file.exists() else {}
        try:
            results = {name: line["files"][RESULT]["scores"] for name, line in lines.items()}
            return {name: float(of["test"]["score"]) for name, of in results.items() if "test" in of}
        except (KeyError, TypeError, ValueError) as error:
            raise self._error(error) from error

    def restore(self, stages: dict[str, RunDir], recipes: dict[str, Json]) -> tuple[int, Measures]:
        """Restore the stages that are not on disk; return how many, and the archived measurements.

        Args:
            stages: folders of the wanted stages, by name.
            recipes: the recipe that each of them must have, by name.

        Raises:
            StoreError: if the archive cannot be read, or a result is inconsistent; nothing is restored then.
        """
        if not self.file.exists():
            return 0, {}
        measures, lines = self._lines()
        wanted = {name: line for name, line in lines.items() if name in stages and not stages[name].begun}
        for name, line in wanted.items():
            try:
                problem = _contradiction(line, recipes[name])
                parsed(StageResult, {**line["files"][RESULT], "folder": self.file}, self.file)
            except (KeyError, TypeError, IndexError, ValueError, AttributeError, StoreError) as error:
                raise self._error(f"{name}: {error}") from error
            if problem:
                raise self._error(f"{name}: {problem}")
        # Resolved first: a relative path is never below an absolute one.
        source = "" if self.file.resolve().is_relative_to(SHIPPED.resolve()) else str(self.file)
        for name, line in wanted.items():
            _publish(stages[name], line, line.get("from") or source)
        return len(wanted), measures

    @staticmethod
    def forget(stages: Iterable[RunDir]) -> None:
        """Drop restored results, so that these stages are trained here."""
        for folder in stages:
            if folder.has(RESTORED):
                folder.drop(RESULT)
                folder.drop(RESTORED)

    def _lines(self) -> tuple[Measures, dict[str, Json]]:
        """Return the measurements by file name, and the archived stages by name."""
        try:
            with explain_errors(self.file, "read"):
                packed = self.file.read_bytes()
            decompressor = lzma.LZMADecompressor(memlimit=MAX_BYTES)
            text = decompressor.decompress(packed, MAX_BYTES)
            if not decompressor.eof:
                raise ValueError(f"it is cut off, or holds more than {MAX_BYTES >> 20} MB")
            first, *lines = [json.loads(line) for line in text.splitlines()] or [{}]
            measures = {first["of"]: first.get("measures", [])} if first.get("of") else {}
            return first.get("more", {}) | measures, {line["stage"]: line for line in lines}
        except (lzma.LZMAError, ValueError, RecursionError, KeyError, TypeError, AttributeError) as error:
            raise self._error(error) from error

    def _error(self, error: object) -> StoreError:
        return StoreError(damaged_message(self.file, error, "move it away, or use another --results"))


def _compress(measures: Measures, lines: list[Json]) -> bytes:
    """Pack measurements and stages; line 1 has the current measurements, and under "more" older ones."""
    *older, last = [*measures.items()] or [("", [])]
    first: Json = {"of": last[0], "measures": last[1]} | ({"more": dict(older)} if older else {})
    content = "\n".join(json.dumps(line, sort_keys=True) for line in [first, *lines]).encode()
    if len(content) > MAX_BYTES:
        raise StoreError(
            f"these results would hold more than {MAX_BYTES >> 20} MB and are not kept; use another --results"
        )
    return lzma.compress(content, preset=9)


def _contradiction(line: Json, recipe: Json) -> str:
    """Return what is inconsistent in an archived stage; "" if nothing is."""
    result = line["files"][RESULT]
    arrays = line.get("predictions")
    if not all(isinstance(line["files"][name], dict) for name in FILES) or not isinstance(line["log"], str):
        return "its files are not what they should be"
    if result["recipe"] != recipe:
        return "it is the result of another recipe"
    predictions = (
        Predictions(**{name: _decode_array(array) for name, array in arrays.items()}) if arrays else None
    )
    return contradiction(line["stage"], result, predictions)


def _stage_line(folder: RunDir) -> Json:
    line: Json = {"stage": folder.path.name, "files": {name: folder.read(name) for name in FILES}}
    if source := folder.read_cache(RESTORED).get("from"):
        line["from"] = source
    log = folder.path / LOG
    line["log"] = log.read_text(encoding="utf-8") if log.exists() else ""
    if folder.has(PREDICTIONS):
        arrays, _ = folder.load(PREDICTIONS)
        line["predictions"] = {name: _encode_array(tensor.numpy()) for name, tensor in arrays.items()}
    return line


def _publish(stage: RunDir, line: Json, source: str) -> None:
    """Publish an archived stage, unless another process is working on it."""
    with contextlib.suppress(Taken), stage.attempt(lambda: stage.finished, stop=lambda: True) as folder:
        if folder is None:
            return
        write_text(folder.path / LOG, line["log"])
        files = {LOG: digest_of(line["log"].encode())}
        if "predictions" in line:
            arrays = {
                name: torch.from_numpy(_decode_array(array)) for name, array in line["predictions"].items()
            }
            files[PREDICTIONS] = folder.save(PREDICTIONS, arrays)
        folder.write(RESTORED, {"from": source, "files": files})
        # result.json comes last: it marks the stage as finished.
        for name in sorted(FILES, key=lambda name: name == RESULT):
            folder.write(name, line["files"][name])
        folder.publish()


def _encode_array(array: np.ndarray) -> list[str]:
    is_integer = np.issubdtype(array.dtype, np.integer)
    fits_byte = is_integer and array.size and array.min() >= 0 and array.max() < 256
    wide = np.int64 if is_integer else np.float32
    stored = array.astype(np.uint8 if fits_byte else wide)
    return [str(array.dtype), str(stored.dtype), base64.b64encode(stored.tobytes()).decode()]


def _decode_array(encoded: list[str]) -> np.ndarray:
    kind, stored, text = encoded
    if kind not in KINDS:
        raise ValueError(f"predictions are {str(kind)[:40]}")
    return np.frombuffer(base64.b64decode(text), dtype=KEPT_KINDS[stored]).astype(kind)
