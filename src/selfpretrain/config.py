"""Specs: frozen, checked values that say what to build, as plain JSON and back."""

import dataclasses
import importlib
import json
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, TypeVar, dataclass_transform

import pydantic
from pydantic import Field

from .errors import SpecError, UnknownName, nearest

BESIDE = ("is", "format")
"""What a description says besides fields: the class, and how its file is written."""

Count = Annotated[int, Field(ge=1)]
"""A whole number of at least one."""
Share = Annotated[float, Field(gt=0, le=1)]
"""A part of a whole, in (0, 1]."""
Rate = Annotated[float, Field(ge=0, lt=1)]
"""A probability that may be zero but not certain, in [0, 1)."""
Seed = Annotated[int, Field(ge=0, lt=2**32)]
"""What a frozen random stream starts from."""
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


def with_setting(thing: Any, path: str, text: str) -> Any:
    """The same spec with one field changed, e.g. ``with_setting(stage, "optim.lr", "3e-4")``.

    Raises:
        UnknownName: if a word of the path is not a field; the message offers the nearest.
        pydantic.ValidationError: if the value does not fit.
    """
    word, _, rest = path.partition(".")
    fields = [field.name for field in dataclasses.fields(thing)] if dataclasses.is_dataclass(thing) else []
    if word not in fields:
        raise UnknownName(f"{type(thing).__name__} has no field {word!r}{nearest(word, fields)}")
    value = with_setting(getattr(thing, word), rest, text) if rest else _read(text)
    return dataclasses.replace(thing, **{word: value})


def settings_of(thing: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Every field of a spec and of the specs inside of it, by its path, and its value."""
    for field in dataclasses.fields(thing):
        value, inner = getattr(thing, field.name), f"{path}.{field.name}" if path else field.name
        if dataclasses.is_dataclass(value) and not isinstance(value, type):
            yield from settings_of(value, inner)
        else:
            yield inner, value


def amended(thing: Any, settings: Mapping[str, Any]) -> Any:
    """The same spec with settings changed, one after another; a value may be text, as on the command line."""
    for path, value in settings.items():
        thing = with_setting(thing, path, value if isinstance(value, str) else json.dumps(value))
    return thing


def explain(error: pydantic.ValidationError) -> str:
    """What is wrong with the fields of a spec, in one line."""
    parts = []
    for problem in error.errors():
        where = ".".join(str(step) for step in problem["loc"])
        message = problem["msg"].removeprefix("Value error, ")
        parts.append(f"{where}={problem['input']!r}: {message}" if where else message)
    return "; ".join(parts)


def _read(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


def id_of(kind: type) -> str:
    """Return what recipes and fingerprints call a class: ``module:Class``."""
    return f"{kind.__module__}:{kind.__qualname__}"


def is_ours(module: str) -> bool:
    """Whether a module belongs to this package."""
    return module.partition(".")[0] == __package__


def to_dict(thing: Any) -> Any:
    """A recipe or part of one as plain JSON values; specs are marked by ``"is": id``, see ``id_of``.

    Raises:
        TypeError: if there is something in it that JSON has no form for.
    """
    return json.loads(json.dumps(thing, default=_fields))


def _fields(thing: Any) -> dict[str, Any]:
    if not dataclasses.is_dataclass(thing) or isinstance(thing, type):
        raise TypeError(f"{thing!r} has no form in JSON")
    values = {field.name: getattr(thing, field.name) for field in dataclasses.fields(thing)}
    return {"is": id_of(type(thing))} | values


def from_dict(plain: Any, trusted: tuple[str, ...] = ()) -> Any:
    """Undo ``to_dict``; only specs of this package and of ``trusted`` ones come back to life.

    Raises:
        SpecError: if a class is not trusted, not there, or refuses its fields.
    """
    if isinstance(plain, list):
        return tuple(from_dict(x, trusted) for x in plain)
    if not isinstance(plain, dict) or "is" not in plain:
        return plain
    kind = _kind(str(plain["is"]), trusted)
    try:
        return kind(**{key: from_dict(value, trusted) for key, value in plain.items() if key not in BESIDE})
    except pydantic.ValidationError as error:
        raise SpecError(f"{kind.__name__}: {explain(error)}") from error
    except TypeError as error:
        raise SpecError(f"{plain['is']}: {error}") from error


def demand_trust(name: str, trusted: tuple[str, ...]) -> None:
    """Refuse a ``module:Class`` from a package that is neither this one nor trusted.

    Raises:
        SpecError: with the flag that would trust it.
    """
    root = name.partition(":")[0].split(".")[0]
    if root not in (__package__, *trusted):
        raise SpecError(f"{name} comes from outside; add --trust {root} if you know and trust that package")


def _kind(name: str, trusted: tuple[str, ...]) -> type:
    module, _, attribute = name.partition(":")
    demand_trust(module, trusted)
    try:
        kind = getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError, ValueError) as error:
        raise SpecError(f"{name} cannot be found: {error}") from error
    if not (isinstance(kind, type) and dataclasses.is_dataclass(kind)):
        raise SpecError(f"{name} is not a spec")
    return kind
