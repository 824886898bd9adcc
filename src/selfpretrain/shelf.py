"""Shelves and specs: a folder whose every file offers one thing, and what that thing is made of.

The directory is the registry: ``mixers/s4d.py`` offers the mixer called ``s4d`` as ``s4d.mixer``.
"""

import ast
import dataclasses
import difflib
import functools
import importlib
import json
import pkgutil
from collections.abc import Iterable
from pathlib import Path
from types import ModuleType
from typing import Annotated, Any, TypeVar, dataclass_transform

import pydantic
from pydantic import Field

from .errors import SpecError, UnknownName

SHELVES = {"tasks": "task", "mixers": "mixer", "objectives": "objective", "studies": "study"}
"""Every shelf, and the name under which each of its files exports its one thing."""

OWN = {"tasks": "own"}
"""The file of a shelf that knows what users have put there under names of their own."""

Count = Annotated[int, Field(ge=1)]
"""A whole number of at least one."""
Share = Annotated[float, Field(gt=0, le=1)]
"""A part of a whole, in (0, 1]."""
Rate = Annotated[float, Field(ge=0, lt=1)]
"""A probability that may be zero but not certain, in [0, 1)."""
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
"""A finite number above zero."""


S = TypeVar("S")


@dataclass_transform(frozen_default=True, field_specifiers=(Field,))
def spec(kind: type[S]) -> type[S]:
    """Make a class a spec: a frozen dataclass whose fields are checked when it is made.

    Raises:
        pydantic.ValidationError: on construction, naming every field that is wrong, and why.
    """
    config = pydantic.ConfigDict(extra="forbid", arbitrary_types_allowed=True)
    return pydantic.dataclasses.dataclass(frozen=True, config=config)(kind)  # type: ignore[return-value]


def names(shelf: str) -> list[str]:
    """Names on a shelf, e.g. ``names("mixers")``; ``base`` and files starting with ``_`` are not on it.

    The file ``image_jpeg.py`` is called ``image-jpeg``.
    """
    package = importlib.import_module(f"{__package__}.{shelf}")
    found = (m.name for m in pkgutil.iter_modules(package.__path__))
    return sorted(name.replace("_", "-") for name in found if name != "base" and not name.startswith("_"))


def about(shelf: str, name: str) -> str:
    """The first sentence of a shelf's file, read without importing it."""
    package = importlib.import_module(f"{__package__}.{shelf}")
    text = Path(package.__path__[0], f"{name.replace('-', '_')}.py").read_text(encoding="utf-8")
    return (ast.get_docstring(ast.parse(text)) or name).splitlines()[0]


def find(shelf: str, name: str) -> Any:
    """The thing called ``name`` on a shelf, or at ``module:attribute`` in somebody else's package.

    A task may also be one of the user's own data sets, by the name it was given when it was imported.

    Raises:
        UnknownName: if there is no such thing; the message offers the nearest name.
    """
    if ":" in name:
        return _foreign(name)
    known = names(shelf)
    if name in known:
        file = name.replace("-", "_")
        return getattr(importlib.import_module(f"{__package__}.{shelf}.{file}"), SHELVES[shelf])
    if shelf in OWN:
        own = importlib.import_module(f"{__package__}.{shelf}.{OWN[shelf]}")
        if name in own.known():
            return functools.partial(getattr(own, SHELVES[shelf]), name)
        known += own.known()
    raise UnknownName(f"no {SHELVES[shelf]} called {name!r}{nearest(name, known)}")


def amend(thing: Any, path: str, text: str) -> Any:
    """The same spec with one field changed, e.g. ``amend(stage, "optim.lr", "3e-4")``.

    Raises:
        UnknownName: if a word of the path is not a field; the message offers the nearest.
        pydantic.ValidationError: if the value does not fit.
    """
    word, _, rest = path.partition(".")
    fields = [field.name for field in dataclasses.fields(thing)] if dataclasses.is_dataclass(thing) else []
    if word not in fields:
        raise UnknownName(f"{type(thing).__name__} has no field {word!r}{nearest(word, fields)}")
    value = amend(getattr(thing, word), rest, text) if rest else _read(text)
    return dataclasses.replace(thing, **{word: value})


def explain(error: pydantic.ValidationError) -> str:
    """What is wrong with the fields of a spec, in one line."""
    parts = []
    for problem in error.errors():
        where = ".".join(str(at) for at in problem["loc"])
        said = problem["msg"].removeprefix("Value error, ")
        parts.append(f"{where}={problem['input']!r}: {said}" if where else said)
    return "; ".join(parts)


def nearest(name: str, known: Iterable[str]) -> str:
    """The end of an error message about ``name``: the closest known name, or all of them."""
    known = list(known)
    near = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
    return f"; did you mean {near[0]!r}?" if near else f"; known: {', '.join(known)}"


def name_of(thing: object) -> str:
    """The short name of a spec or its class: its file's name on a shelf, its own name elsewhere."""
    kind = thing if isinstance(thing, type) else type(thing)
    if kind is not thing and isinstance(given := getattr(thing, "name", None), str) and given:
        return given
    parts = kind.__module__.split(".")
    on_shelf = parts[0] == __package__ and len(parts) == 3 and parts[1] in SHELVES
    return parts[2].replace("_", "-") if on_shelf else kind.__name__.lower()


def _foreign(name: str) -> Any:
    module, _, attribute = name.partition(":")
    loaded = _load(module)
    if attribute not in vars(loaded):
        offered = [key for key in vars(loaded) if not key.startswith("_")]
        raise UnknownName(f"{module} has no {attribute!r}{nearest(attribute, offered)}")
    return vars(loaded)[attribute]


@functools.cache
def _load(module: str) -> ModuleType:
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        raise UnknownName(f"cannot import {module!r}: {error}; is it installed, or on PYTHONPATH?") from error
    except Exception as error:
        raise SpecError(f"{module!r} fails while being imported: {type(error).__name__}: {error}") from error


def _read(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text
