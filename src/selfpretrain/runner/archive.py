"""Results that travel: what finished stages left, without their weights, in one small file.

An archive is compressed JSON lines, one per stage. A later run, on any machine, takes from it what it would
otherwise train again; what needs weights (a new stage that starts from an old one) is trained anew.
"""

import base64
import json
import lzma
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from ..errors import StoreError
from ..system.files import Json, explained, write_bytes, write_text
from ..training.loop import CHECKPOINT
from ..training.stage_folder import LOG, Folder

FILES = ("recipe.json", "result.json", "environment.json")
RESTORED = "restored.json"
"""Says that a stage was put back."""
PREDICTIONS = "predictions.safetensors"
KEPT_KINDS = {"uint8": np.uint8, "int64": np.int64, "float32": np.float32}


@dataclass(frozen=True)
class Archive:
    """A file of kept results."""

    file: Path

    def keep(self, stages: Iterable[Folder], extra: Json) -> int:
        """Write what finished stages left; how many there were.

        Args:
            extra: anything else to find again, on the first line.
        """
        lines = [_line(folder) for folder in stages if folder.finished]
        packed = lzma.compress(
            "\n".join(json.dumps(x, sort_keys=True) for x in [extra, *lines]).encode(), preset=9
        )
        with explained(self.file):
            self.file.parent.mkdir(parents=True, exist_ok=True)
            if not self.file.exists() or self.file.read_bytes() != packed:
                write_bytes(self.file, packed)
        return len(lines)

    def names(self) -> frozenset[str]:
        """The stages that were kept.

        Raises:
            StoreError: if the file is damaged.
        """
        lines = self._lines()[1:] if self.file.exists() else []
        return frozenset(str(line.get("stage")) for line in lines)

    def restore(self, stages: dict[str, Folder]) -> tuple[int, Json]:
        """Put back the stages that are wanted and not there; how many, and what else was kept.

        Args:
            stages: where a stage goes, by its name.

        Raises:
            StoreError: if the file is damaged.
        """
        if not self.file.exists():
            return 0, {}
        lines, found = self._lines(), 0
        try:
            for line in lines[1:]:
                folder = stages.get(line["stage"])
                if folder is not None and not _begun(folder):
                    _put(Folder.make(folder.path), line)
                    found += 1
            return found, lines[0]
        except (KeyError, TypeError, IndexError, ValueError) as error:
            raise self._damaged(error) from error

    @staticmethod
    def forget(stages: Iterable[Folder]) -> None:
        """Drop the results that were put back, so that these stages are run here."""
        for folder in stages:
            if folder.has(RESTORED):
                folder.drop("result.json")
                folder.drop(RESTORED)

    def _lines(self) -> list[dict[str, Any]]:
        """What was kept besides, and a line per stage."""
        try:
            text = lzma.decompress(self.file.read_bytes()).decode()
            return [json.loads(line) for line in text.splitlines()] or [{}]
        except (OSError, EOFError, lzma.LZMAError, ValueError) as error:
            raise self._damaged(error) from error

    def _damaged(self, error: Exception) -> StoreError:
        return StoreError(f"{self.file} is damaged ({error}); move it away, or use another --results")


def _begun(folder: Folder) -> bool:
    """Whether a stage has finished here, or is under way with a log of its own."""
    return folder.finished or folder.has(CHECKPOINT)


def _line(folder: Folder) -> Json:
    line: Json = {"stage": folder.path.name, "files": {name: folder.read(name) for name in FILES}}
    log = folder.path / LOG
    line["log"] = log.read_text(encoding="utf-8") if log.exists() else ""
    if folder.has(PREDICTIONS):
        arrays, _ = folder.load(PREDICTIONS)
        line["predictions"] = {name: _packed(tensor.numpy()) for name, tensor in arrays.items()}
    return line


def _put(folder: Folder, line: Json) -> None:
    folder.write(RESTORED, {})
    write_text(folder.path / LOG, line["log"])
    if "predictions" in line:
        arrays = {name: torch.from_numpy(_unpacked(it)) for name, it in line["predictions"].items()}
        folder.save(PREDICTIONS, arrays)
    for name in sorted(FILES, key=lambda name: name == "result.json"):  # the result last: it says "finished"
        folder.write(name, line["files"][name])


def _packed(array: np.ndarray) -> list[str]:
    whole = np.issubdtype(array.dtype, np.integer)
    small = whole and array.size and array.min() >= 0 and array.max() < 256
    stored = array.astype(np.uint8 if small else np.int64 if whole else np.float32)
    return [str(array.dtype), str(stored.dtype), base64.b64encode(stored.tobytes()).decode()]


def _unpacked(it: list[str]) -> np.ndarray:
    kind, stored, text = it
    return np.frombuffer(base64.b64decode(text), dtype=KEPT_KINDS[stored]).astype(kind)
