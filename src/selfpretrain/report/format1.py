"""Folders of before: a study.json per task, and beside several of them a sheet.json that lists them.

Only names and places of fields change here; whether all of them are there is checked where they are read.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from ..errors import StoreError
from ..system.files import Json, read_json

FORMAT = 1
SHEET = "sheet.json"
RENAMED = {"reading": "interpretation"}


def upgraded(path: Path, content: Json) -> Json:
    """What a sheet.json, or a study.json that no sheet.json lists, says as format 2 has it.

    Raises:
        StoreError: if the folder of a task is not there any more, or is broken.
    """
    if path.name != SHEET:
        return _joined(content, [(_task(content), content)])
    labels, below = content.get("labels", {}), path.parent.resolve().parent
    absent = [part for part in content.get("parts", []) if not (below / part / "study.json").is_file()]
    if absent:
        raise StoreError(
            f"{path}: {below / absent[0]} is not there any more; put it back or run the study again"
        )
    plans = {part: read_json(below / part / "study.json") for part in content.get("parts", [])}
    shared = content.get("shared") or {}
    fields = {RENAMED.get(key, key): value for key, value in content.items()}
    fields |= {"asked": shared.get("asked", 0), "different": shared.get("run", 0)}
    return _joined(fields, [(labels.get(part) or _task(plan), plan) for part, plan in plans.items()])


def parts(folders: Iterable[Path]) -> set[Path]:
    """Those folders of single tasks that a sheet.json in one of these folders lists."""
    sheets = [folder for folder in folders if (folder / SHEET).is_file()]
    return {folder.parent / part for folder in sheets for part in read_json(folder / SHEET).get("parts", [])}


def _joined(fields: Json, tasks: list[tuple[Any, Json]]) -> Json:
    """One record of all tasks; ``said`` goes before what the first of them says."""
    plans = [plan for _, plan in tasks]
    first = plans[0] if plans else {}
    papers = [
        cell["printed"].get("paper")
        for plan in plans
        for cell in plan.get("cells", [])
        if cell.get("printed")
    ]
    return {
        "name": first.get("study"),
        "scale": "",
        "created": first.get("created", ""),
        "version": ", ".join(dict.fromkeys(plan.get("version", "") for plan in plans)),
        "command": "\n".join(dict.fromkeys(plan.get("command", "") for plan in plans)),
        "paper": papers[0] if papers else "",
        **fields,
        "tasks": [{**plan, "label": label} for label, plan in tasks],
    }


def _task(plan: Json) -> Any:
    return plan.get("task", {}).get("name")
