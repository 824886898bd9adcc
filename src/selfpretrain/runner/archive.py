"""Results that travel: what finished stages left, without their weights, in one small file.

An archive is compressed JSON lines, one per stage. A later run, on any machine, takes from it what it would
otherwise train again; what needs weights (a new stage that starts from an old one) is trained anew.
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
"""Says that a stage was put back, and from where."""
KEPT_KINDS = {"uint8": np.uint8, "int64": np.int64, "float32": np.float32}
KINDS = ("int64", "float32", "float64", "int32", "uint8")
"""Of numbers, in which predictions may be put back."""
LARGEST = 1 << 27
"""Bytes that a file of kept results may unpack to."""
SHIPPED = Path(__file__).parents[1]
"""What lies below is ours; whatever else is kept may come from anybody."""
Measures = dict[str, list[Any]]


@dataclass(frozen=True)
class Archive:
    """A file of kept results."""

    file: Path

    def keep(self, stages: Iterable[RunDir], measures: Measures) -> int:
        """Add what finished stages left to what was kept before; how many of these stages there were.

        Args:
            measures: what was measured on them, by the names of its files.

        Raises:
            StoreError: if what was kept before cannot be read, or the file cannot be written.
        """
        with explained(self.file):
            self.file.parent.mkdir(parents=True, exist_ok=True)
        with locked(self.file.with_name(f".{self.file.name}.lock")):
            before, lines = self._lines() if self.file.exists() else ({}, {})
            ours = {folder.name: _line(folder) for folder in stages if folder.finished}
            packed = _packed_lines(before | measures, [*(ours | lines | ours).values()])
            with explained(self.file):
                same = self.file.exists() and self.file.read_bytes() == packed
            if not same:
                write_bytes(self.file, packed)
        return len(ours)

    def names(self) -> frozenset[str]:
        """The stages that were kept.

        Raises:
            StoreError: if the file is damaged.
        """
        return frozenset(self._lines()[1]) if self.file.exists() else frozenset()

    def restore(self, stages: dict[str, RunDir], recipes: dict[str, Json]) -> tuple[int, Measures]:
        """Put back the stages that are wanted and not there; how many, and what was measured.

        Args:
            stages: where a stage goes, by its name.
            recipes: what it must have been trained by.

        Raises:
            StoreError: if the file is damaged, or one of its results is not borne out; nothing is put back.
        """
        if not self.file.exists():
            return 0, {}
        measures, lines = self._lines()
        wanted = {name: line for name, line in lines.items() if name in stages and not stages[name].begun}
        for name, line in wanted.items():
            try:
                said = _contradiction(line, recipes[name])
                parsed(StageResult, {**line["files"]["result.json"], "folder": self.file}, self.file)
            except (KeyError, TypeError, IndexError, ValueError, AttributeError, StoreError) as error:
                raise self._damaged(f"{name}: {error}") from error
            if said:
                raise self._damaged(f"{name}: {said}")
        # A relative path is below no absolute one, wherever it leads.
        theirs = "" if self.file.resolve().is_relative_to(SHIPPED.resolve()) else str(self.file)
        for name, line in wanted.items():
            _put(stages[name], line, line.get("from") or theirs)
        return len(wanted), measures

    @staticmethod
    def forget(stages: Iterable[RunDir]) -> None:
        """Drop the results that were put back, so that these stages are run here."""
        for folder in stages:
            if folder.has(RESTORED):
                folder.drop("result.json")
                folder.drop(RESTORED)

    def _lines(self) -> tuple[Measures, dict[str, Json]]:
        """What was measured, by the names of its files, and what was kept of every stage, by its name."""
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
    """The first line says what was measured: on the cells of today, and on more, as fewer seeds had it."""
    *more, last = [*measures.items()] or [("", [])]
    first: Json = {"of": last[0], "measures": last[1]} | ({"more": dict(more)} if more else {})
    text = "\n".join(json.dumps(line, sort_keys=True) for line in [first, *lines])
    return lzma.compress(text.encode(), preset=9)


def _contradiction(line: Json, recipe: Json) -> str:
    """What contradicts what in a kept stage, in words; empty if nothing does."""
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
    """Publish a stage as it was kept, unless another process is at work on it."""
    with contextlib.suppress(Taken), stage.attempt(lambda: stage.finished, stop=lambda: True) as folder:
        if folder is None:
            return
        write_text(folder.path / LOG, line["log"])
        files = {LOG: digest_of(line["log"].encode())}
        if "predictions" in line:
            arrays = {name: torch.from_numpy(_unpacked(it)) for name, it in line["predictions"].items()}
            files[PREDICTIONS] = folder.save(PREDICTIONS, arrays)
        folder.write(RESTORED, {"from": source, "files": files})
        for name in sorted(FILES, key=lambda name: name == "result.json"):  # last: it says "finished"
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
