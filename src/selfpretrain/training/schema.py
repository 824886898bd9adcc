"""The JSON Schema of recipes: what an editor or another program needs to write one.

Every spec is a definition under its id; where a mixer, a task or an objective is asked for, any of its shelf
will do, and any class from outside of the package, of which nothing is known.
"""

import dataclasses
import types
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

from pydantic import PydanticUserError, TypeAdapter
from pydantic.errors import PydanticInvalidForJsonSchema

from .. import registry
from ..config import id_of
from ..mixers.base import Mixer
from ..objectives.base import Objective
from ..objectives.common.joint import Joint
from ..tasks.base import Task
from ..tasks.common.shuffled import Shuffled
from ..tasks.imported import Imported
from .recipe import Recipe

SHELVES: dict[type, str] = {Mixer: "mixers", Objective: "objectives", Task: "tasks"}
"""What is asked for by its kind, and where those of that kind are."""
BESIDE: dict[type, list[type]] = {Objective: [Joint], Task: [Imported, Shuffled]}
"""Specs of those kinds that no name of a shelf stands for."""
OUTSIDE: dict[str, Any] = {
    "type": "object",
    "required": ["is"],
    "properties": {"is": {"type": "string", "pattern": r"^(?!selfpretrain\.)[\w.]+:\w+$"}},
}
"""A spec of another package."""

UNIONS = (Union, types.UnionType)
Schema = dict[str, Any]


def json_schema() -> Schema:
    """The schema of a recipe file."""
    definitions: dict[str, Schema] = {}
    top = _of(Recipe, definitions)
    recipe = definitions[id_of(Recipe)]
    recipe["properties"]["format"] = {"type": "integer"}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "A recipe of selfpretrain",
        **top,
        "$defs": definitions,
    }


def _of(kind: Any, definitions: dict[str, Schema]) -> Schema:
    """The schema of a type; specs that it names are added to the definitions."""
    if kind in SHELVES:
        shelf = SHELVES[kind]
        ours = [registry.find(shelf, name) for name in registry.names(shelf)] + BESIDE.get(kind, [])
        return {"anyOf": [*(_spec(each, definitions) for each in ours), OUTSIDE]}
    if dataclasses.is_dataclass(kind):
        return _spec(kind, definitions)
    return _made_of(kind, definitions) if any(map(_has_spec, get_args(kind))) else _plain(kind)


def _made_of(kind: Any, definitions: dict[str, Schema]) -> Schema:
    """The schema of a type that others are written into, such as ``tuple[Stage, ...]``."""
    origin, inner = get_origin(kind), get_args(kind)
    if origin is tuple and inner[-1] is ...:
        return {"type": "array", "items": _of(inner[0], definitions)}
    if origin is Annotated:
        return _of(inner[0], definitions)
    return {"anyOf": [_of(each, definitions) for each in inner]} if origin in UNIONS else {}


def _spec(kind: Any, definitions: dict[str, Schema]) -> Schema:
    name = id_of(kind)
    reference = {"$ref": "#/$defs/" + name}
    if name in definitions:
        return reference
    definitions[name] = made = {"type": "object", "additionalProperties": False}
    hints = get_type_hints(kind, include_extras=True)
    fields = [field for field in dataclasses.fields(kind) if field.init]
    missing = dataclasses.MISSING
    needed = [f.name for f in fields if f.default is missing and f.default_factory is missing]
    properties = {field.name: _of(hints[field.name], definitions) for field in fields}
    made["properties"] = {"is": {"const": name}} | properties
    made["required"] = ["is", *needed]
    if kind.__doc__:
        made["description"] = kind.__doc__.strip().splitlines()[0]
    return reference


def _plain(kind: Any) -> Schema:
    """What pydantic says of a type without specs in it; anything, where it says nothing."""
    try:
        return TypeAdapter(kind).json_schema()
    except (PydanticUserError, PydanticInvalidForJsonSchema):
        return {}


def _has_spec(kind: Any) -> bool:
    return kind in SHELVES or dataclasses.is_dataclass(kind) or any(map(_has_spec, get_args(kind)))
