"""Registry of tasks, mixers, objectives, arms, studies, executors and trackers, found by file name.

A "shelf" is a folder whose every file provides one object. The directory is the registry: ``mixers/s4d.py``
provides the mixer named ``s4d`` as ``s4d.mixer``. What other packages provide is imported on first use.
"""

import functools
import importlib.util
import os
import pkgutil
import sys
from pathlib import Path
from typing import Any

from .errors import SpecError, UnknownName, install, join_names, nearest

SHELVES = {
    "tasks": "task",
    "mixers": "mixer",
    "objectives": "objective",
    "arms": "arm",
    "studies": "study",
    "executors": "executor",
    "trackers": "tracker",
}
"""Every shelf, and the variable under which each of its files exports its object."""

INSIDE = {"arms": "studies.arms", "executors": "runner.executors", "trackers": "runner.trackers"}
"""Shelves that are subpackages of another package."""

OWN = {"tasks": "imported"}
"""The module of a shelf that resolves names of the user, such as imported data sets."""

ADAPTERS = {"mixers": ("common.own_network", "mixer_of")}
"""The function of a shelf that makes objects for what a user names ``module:attribute``."""


def names(shelf: str) -> list[str]:
    """Return the sorted names on a shelf, e.g. ``names("mixers")``.

    ``base.py`` and files that start with ``_`` are skipped; ``image_jpeg.py`` is named ``image-jpeg``.
    """
    return list(_names(tuple(importlib.import_module(module_of(shelf)).__path__)))


@functools.cache  # reads folders, and every lookup asks
def _names(folders: tuple[str, ...]) -> tuple[str, ...]:
    modules = (m.name for m in pkgutil.iter_modules(folders) if not m.ispkg)
    found = (name.replace("_", "-") for name in modules if name != "base" and not name.startswith("_"))
    return tuple(sorted(found))


def module_of(shelf: str) -> str:
    """Return the package that contains the files of a shelf."""
    return f"{__package__}.{INSIDE.get(shelf, shelf)}"


def summary(shelf: str, name: str) -> str:
    """Return the first line of the docstring of a shelf's file, without importing it."""
    package = importlib.import_module(module_of(shelf))
    with Path(package.__path__[0], f"{name.replace('-', '_')}.py").open(encoding="utf-8") as file:
        lines = (line.strip() for line in file)
        first = next((line for line in lines if line and not line.startswith("#")), "")
        return shown(first.removeprefix("r").strip('"'))


def shown(docstring: str) -> str:
    """Return a docstring as readers see it: with names in single backticks, like those of messages."""
    return docstring.replace("``", "`")


def find(shelf: str, name: str) -> Any:
    """Return the object called ``name`` on a shelf, or at ``module:attribute`` in another package.

    The name of a task may also be that of a data set that the user has imported. ``name:value`` sets the
    field that the class names as its ``main`` one: ``ucr:FordA`` is ``ucr`` with ``set="FordA"``.

    Raises:
        UnknownName: if there is no such object; the message suggests the nearest name.
        SpecError: if the object of another package is not one for this shelf.
    """
    known = names(shelf)
    short, colon, value = name.partition(":")
    if colon:
        main = getattr(find(shelf, short), "main", "") if short in known else ""
        return functools.partial(find(shelf, short), **{main: value}) if main else _find_outside(shelf, name)
    if not name.strip():
        raise UnknownName(f"no {SHELVES[shelf]} is named; there are {join_names(known)}")
    if name in known:
        module = importlib.import_module(f"{module_of(shelf)}.{name.replace('-', '_')}")
        return getattr(module, SHELVES[shelf])
    if shelf in OWN:
        own = importlib.import_module(f"{__package__}.{shelf}.{OWN[shelf]}")
        if name in own.imported_datasets():
            return functools.partial(getattr(own, SHELVES[shelf]), name)
        known += own.imported_datasets()
        if os.path.isfile(name):  # a path would raise an error if it may not be looked at
            raise UnknownName(
                f"no {SHELVES[shelf]} called {name!r}, but a file: "
                f"selfpretrain data import {name} makes it a task"
            )
    raise UnknownName(f"no {SHELVES[shelf]} called {name!r}{_place_in_module(name) or nearest(name, known)}")


def _place_in_module(name: str) -> str:
    """Return the end of an error message about a module, or a dotted name in one; "" if it is neither."""
    first = name.partition(".")[0]
    foreign = first.isidentifier() and not first.startswith("_") and first not in sys.stdlib_module_names
    if not foreign or importlib.util.find_spec(first) is None:
        return ""
    module, dot, attribute = name.rpartition(".")
    return f"; did you mean {module}:{attribute}?" if dot else f"; for what this module has write {name}:NAME"


def resolve(shelf: str, obj: Any) -> Any:
    """Return the object for a name on a shelf, with default settings; other values are returned unchanged.

    Raises:
        SpecError: if the name is unknown, or the object needs settings.
    """
    if not isinstance(obj, str):
        return obj
    try:
        return find(shelf, obj)()
    except TypeError as error:
        raise SpecError(f"{obj} cannot be made without settings: {error}") from error


def first_line(obj: object) -> str:
    """Return the first docstring line of an object's module; outside of shelves, that of its class."""
    kind = obj if isinstance(obj, type) else type(obj)
    text = sys.modules[kind.__module__].__doc__ or kind.__doc__ or name_of(kind)
    return shown(text.strip().splitlines()[0])


def name_of(obj: object) -> str:
    """Return the short name of a spec or class: its file's name on a shelf, else its class in lower case."""
    kind = obj if isinstance(obj, type) else type(obj)
    if kind is not obj and isinstance(own := getattr(obj, "name", None), str) and own:
        return own
    package, _, file = kind.__module__.rpartition(".")
    on_shelf = package in map(module_of, SHELVES)
    return file.replace("_", "-") if on_shelf else kind.__name__.lower()


def ships(shelf: str, obj: object) -> bool:
    """Return whether the class of an object is that of a file on a shelf, not of a user or another file."""
    return type(obj).__module__.rpartition(".")[0] == module_of(shelf)


def file_name_of(obj: object) -> str:
    """Return the short name of a spec as part of a file name: ``ucr-FordA`` for ``ucr:FordA``."""
    return name_of(obj).replace(":", "-")


def import_extra(module: str, feature: str, extra: str) -> Any:
    """Import and return a module of an optional dependency.

    Raises:
        SpecError: if it is not installed; the message has the pip command that installs it.
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise SpecError(f"{feature} needs a further package: {install(extra)}") from error


def _find_outside(shelf: str, name: str) -> Any:
    if shelf in ADAPTERS:
        module, function = ADAPTERS[shelf]
        return getattr(importlib.import_module(f"{module_of(shelf)}.{module}"), function)(name)
    found = import_attribute(name)
    kind = SHELVES[shelf].capitalize()
    base = getattr(importlib.import_module(f"{module_of(shelf)}.base"), kind)
    if not callable(found) or (isinstance(found, type) and not issubclass(found, base)):
        what = ("an " if kind[0] in "AEIO" else "a ") + SHELVES[shelf]
        raise SpecError(f"{name} is not {what}: name a class that extends {base.__module__}.{kind}")
    return found


def import_attribute(name: str) -> Any:
    """Return the object at ``module:attribute``.

    Raises:
        UnknownName: if a file is named, the module cannot be found, or it has no such attribute.
        SpecError: if the module fails while being imported.
    """
    module, _, attribute = name.partition(":")
    if module.endswith(".py") or "/" in module:
        dotted = ".".join(part for part in module.removesuffix(".py").split("/") if part.strip("."))
        raise UnknownName(f"{name} names a file; name the module, {dotted}:{attribute}")
    try:
        loaded = importlib.import_module(module)
    except ModuleNotFoundError as error:
        raise UnknownName(f"cannot import {module!r}: {error}; is it installed, or on PYTHONPATH?") from error
    except (Exception, SystemExit) as error:  # a script that reads its own arguments
        raise SpecError(f"{module!r} fails while being imported: {type(error).__name__}: {error}") from error
    if attribute not in vars(loaded):
        offered = [key for key in vars(loaded) if not key.startswith("_")]
        raise UnknownName(f"{module} has no {attribute!r}{nearest(attribute, offered)}")
    return vars(loaded)[attribute]
