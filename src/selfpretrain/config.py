"""Specs: frozen, validated dataclasses that describe what to build, and their conversion to and from JSON."""

import dataclasses
import importlib
import json
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, TypeVar, dataclass_transform

import pydantic
from pydantic import Field

from .errors import SpecError, UnknownName, nearest

NOT_FIELDS = ("is", "format")
"""Keys of a JSON description that are not fields: the class, and the format of its file."""

CODE = ("is", "factory")
"""Keys of a JSON description whose values name code, as ``module:attribute``, that is imported."""

Count = Annotated[int, Field(ge=1)]
"""An integer of at least 1."""
Natural = Annotated[int, Field(ge=0)]
"""An integer of at least 0."""
Even = Annotated[int, Field(ge=2, multiple_of=2)]
"""An even number of at least 2."""
Share = Annotated[float, Field(gt=0, le=1)]
"""A fraction in (0, 1]."""
Rate = Annotated[float, Field(ge=0, lt=1)]
"""A probability in [0, 1)."""
Seed = Annotated[int, Field(ge=0, lt=2**32)]
"""The seed of a random generator, in [0, 2**32)."""
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
"""A finite number above 0."""


S = TypeVar("S")


@dataclass_transform(frozen_default=True, field_specifiers=(Field,))
def spec(kind: type[S]) -> type[S]:
    """Turn a class into a spec: a frozen dataclass whose fields are validated on construction.

    Raises:
        pydantic.ValidationError: on construction; it names every invalid field and the reason.
    """
    config = pydantic.ConfigDict(extra="forbid", arbitrary_types_allowed=True)
    return pydantic.dataclasses.dataclass(frozen=True, config=config)(kind)  # type: ignore[return-value]


def added(default: Any) -> Any:
    """Return a field of a spec that ``to_dict`` leaves out while it has this default.

    For fields that are younger than bundled results: recipes that do not set them keep their fingerprints.
    """
    return dataclasses.field(default=default, metadata={"added": True})


def with_setting(thing: Any, path: str, text: str) -> Any:
    """Return the spec with one field changed, e.g. ``with_setting(stage, "optim.lr", "3e-4")``.

    Raises:
        UnknownName: if a part of the path is not a field; the message suggests the nearest.
        SpecError: if the value is invalid.
    """
    word, _, rest = path.partition(".")
    fields = [field.name for field in dataclasses.fields(thing)] if dataclasses.is_dataclass(thing) else []
    if word not in fields:
        raise UnknownName(f"{type(thing).__name__} has no field {word!r}{nearest(word, fields)}")
    value = with_setting(getattr(thing, word), rest, text) if rest else read_value(text)
    try:
        return dataclasses.replace(thing, **{word: value})
    except pydantic.ValidationError as error:
        raise SpecError(explain(error)) from error


def settings_of(thing: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the path and value of every field of a spec and of the specs nested in it."""
    for field in dataclasses.fields(thing):
        value = getattr(thing, field.name)
        inner = f"{path}.{field.name}" if path else field.name
        if dataclasses.is_dataclass(value) and not isinstance(value, type):
            yield from settings_of(value, inner)
        else:
            yield inner, value


def amended(thing: Any, settings: Mapping[str, Any]) -> Any:
    """Return the spec with several settings changed; values may be text, as on the command line.

    What is refused is tried again after the others: settings may only go together.

    Raises:
        UnknownName, SpecError: as ``with_setting``, of the first that is refused with the others in place.
    """
    refused: dict[str, SpecError] = {}
    for path, value in settings.items():
        try:
            thing = with_setting(thing, path, value if isinstance(value, str) else json.dumps(value))
        except SpecError as error:
            refused[path] = error
    if refused and len(refused) == len(settings):
        raise next(iter(refused.values()))
    return amended(thing, {path: settings[path] for path in refused}) if refused else thing


def explain(error: pydantic.ValidationError) -> str:
    """Return the problems of a validation error in one line."""
    parts = []
    for problem in error.errors():
        where = ".".join(str(step) for step in problem["loc"])
        message = problem["msg"].removeprefix("Value error, ")
        parts.append(f"{where}={problem['input']!r}: {message}" if where else message)
    return "; ".join(parts)


def read_value(text: str) -> Any:
    """Return the value of a setting that is written as text: JSON, or else the text itself."""
    try:
        return json.loads(text)
    except ValueError:
        return text


def id_of(kind: type) -> str:
    """Return the id of a class in recipes and fingerprints: ``module:Class``."""
    return f"{kind.__module__}:{kind.__qualname__}"


def is_ours(module: str) -> bool:
    """Return whether a module belongs to this package."""
    return module.partition(".")[0] == __package__


def to_dict(thing: Any) -> Any:
    """Return a recipe, or part of one, as plain JSON values; ``"is"`` holds the id of a spec's class.

    Raises:
        TypeError: if a value cannot be represented in JSON.
    """
    return json.loads(json.dumps(thing, default=_fields))


def _fields(thing: Any) -> dict[str, Any]:
    if not dataclasses.is_dataclass(thing) or isinstance(thing, type):
        raise TypeError(f"{thing!r} has no form in JSON")
    fields = [(field, getattr(thing, field.name)) for field in dataclasses.fields(thing)]
    kept = {f.name: value for f, value in fields if "added" not in f.metadata or value != f.default}
    return {"is": id_of(type(thing))} | kept


def from_dict(plain: Any, trusted: tuple[str, ...] = ()) -> Any:
    """Rebuild specs from the output of ``to_dict``; only classes of this and of trusted packages are loaded.

    Raises:
        SpecError: if a class is not trusted, does not exist, or rejects its fields.
    """
    if isinstance(plain, list):
        return tuple(from_dict(x, trusted) for x in plain)
    if not isinstance(plain, dict) or "is" not in plain:
        return plain
    name = str(plain["is"])
    module, _, attribute = name.partition(":")
    demand_trust(module, trusted)
    for key in set(CODE) & plain.keys():
        demand_trust(str(plain[key]), trusted)
    try:
        kind = getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError, ValueError) as error:
        raise SpecError(f"{name} cannot be found: {error}") from error
    if not (isinstance(kind, type) and dataclasses.is_dataclass(kind)):
        raise SpecError(f"{name} is not a spec")
    try:
        fields = {key: value for key, value in plain.items() if key not in NOT_FIELDS}
        return kind(**{key: from_dict(value, trusted) for key, value in fields.items()})
    except pydantic.ValidationError as error:
        raise SpecError(f"{kind.__name__}: {explain(error)}") from error
    except TypeError as error:
        raise SpecError(f"{name}: {error}") from error


def demand_trust(name: str, trusted: tuple[str, ...]) -> None:
    """Check that a ``module:Class`` is from this package or a trusted one.

    Raises:
        SpecError: if it is not; the message names the flag that trusts it.
    """
    root = name.partition(":")[0].split(".")[0]
    if root not in (__package__, *trusted):
        raise SpecError(f"{name} comes from outside; add --trust {root} if you know and trust that package")
