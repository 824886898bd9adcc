"""Describe a recipe in plain words from its JSON; the classes that it names need not be importable."""

from collections.abc import Iterator
from typing import Any

Plain = dict[str, Any]
OWN_LINES = ("objective", "budget", "optim", "transfer")
"""Fields of a stage that are described separately."""


def recipe(plain: Plain) -> Iterator[tuple[str, str]]:
    """Yield (part, description) for the task, the model, every stage and the seed."""
    yield "task", describe(plain["task"])
    model = plain["model"]
    yield "model", f"{describe(model.get('mixer', {}))}; {_joined(_settings(model, 'mixer'))}"
    for number, stage in enumerate(plain["stages"], 1):
        lines = [f"{describe(stage.get('objective', {}))} for {_budget(stage.get('budget', {}))}"]
        lines += [_joined(_settings(stage, *OWN_LINES)), _joined(_settings(stage.get("optim", {})))]
        if number > 1:
            lines.append(f"takes over {_joined(_settings(stage.get('transfer', {})))}")
        yield f"stage {number}", "; ".join(filter(None, lines))
    yield "seed", str(plain["seed"])


def short_name(plain: Plain) -> str:
    """Return the short name of a spec: its module name if it is one of ours, else its class name.

    A network of the user has the name of the callable that makes it, a model of transformers its own.
    """
    if "factory" in plain:
        return str(plain["factory"]).rpartition(":")[2].lower()
    if "config" in plain:
        return str(plain.get("name", ""))
    module, _, kind = str(plain.get("is", "")).partition(":")
    parts = module.split(".")
    ours = parts[0] == __package__.partition(".")[0] and len(parts) == 3
    return parts[2].replace("_", "-") if ours else kind.lower()


def describe(plain: Plain) -> str:
    """Return a spec with its settings, e.g. ``attention (heads 4)``."""
    settings = _joined(_settings(plain, "config", "name") if "config" in plain else _settings(plain))
    return f"{short_name(plain)} ({settings})" if settings else short_name(plain)


def _settings(plain: Plain, *apart: str) -> Iterator[str]:
    """Yield settings in words; None, empty and False values are left out."""
    for name, value in plain.items():
        nothing = value is None or value is False or value in ([], {}, "")
        if name != "is" and name not in apart and not nothing:
            word = {"lr": "learning rate"}.get(name, name.replace("_", " "))
            yield word if value is True else f"{word} {_text(value)}"


def _text(value: Any) -> str:
    if isinstance(value, dict):
        return describe(value)
    if isinstance(value, list):
        return " ".join(map(_text, value))
    return f"{value:,}" if isinstance(value, int) else str(value)


def _budget(plain: Plain) -> str:
    return " or ".join(f"{_text(n)} {unit}" for unit, n in plain.items() if unit != "is" and n) or "no budget"


def _joined(words: Iterator[str]) -> str:
    return ", ".join(words)
