"""The JSON Schema of recipes, for editors and other programs that write them.

Every spec is a definition under its id. Where a mixer, a task or an objective is expected, the schema allows
all of the package, and any class from outside the package with any fields.
"""

import dataclasses
import types
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

from pydantic import PydanticUserError, TypeAdapter
from pydantic.errors import PydanticInvalidForJsonSchema

from .. import registry
from ..config import id_of
from ..data.dataset import Augmentation
from ..mixers.base import Mixer
from ..mixers.common.hf_model import HfModel
from ..mixers.common.own_network import OwnBackbone, OwnLayer
from ..objectives.base import Objective
from ..objectives.common.augmented import Augmented
from ..objectives.common.averaged import Averaged
from ..objectives.common.joint import Joint
from ..tasks.base import Task
from ..tasks.common.augmentations import DroppedSymbols, NoisySignals, Pictures, ShuffledOperands
from ..tasks.common.shuffled import Shuffled
from ..tasks.imported import Imported
from .ensemble import EnsembleModel
from .model import Model
from .recipe import Recipe

SHELVES: dict[type, str] = {Mixer: "mixers", Objective: "objectives", Task: "tasks"}
"""Base classes that a registry holds, with the name of that registry."""
UNREGISTERED: dict[type, list[type]] = {
    Mixer: [OwnLayer, OwnBackbone, HfModel],
    Objective: [Joint, Augmented, Averaged],
    Task: [Imported, Shuffled],
    Augmentation: [Pictures, NoisySignals, DroppedSymbols, ShuffledOperands],
}
"""Specs of those kinds, and of one without a registry, that have no name in it."""
OUTSIDE: dict[str, Any] = {
    "type": "object",
    "required": ["is"],
    "properties": {"is": {"type": "string", "pattern": r"^(?!selfpretrain\.)[\w.]+:\w+$"}},
}
"""Schema of a spec from another package."""

UNIONS = (Union, types.UnionType)
Schema = dict[str, Any]


def json_schema() -> Schema:
    """Return the JSON Schema of a recipe file."""
    definitions: dict[str, Schema] = {}
    top = _schema_of(Recipe, definitions)
    recipe = definitions[id_of(Recipe)]
    recipe["properties"]["format"] = {"type": "integer"}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "A recipe of selfpretrain",
        **top,
        "$defs": definitions,
    }


def _schema_of(kind: Any, definitions: dict[str, Schema]) -> Schema:
    """Return the schema of a type, and add the specs that it refers to to the definitions."""
    if kind in SHELVES or kind in UNREGISTERED:
        shelf = SHELVES.get(kind)
        named = [registry.find(shelf, name) for name in registry.names(shelf)] if shelf else []
        known = named + UNREGISTERED.get(kind, [])
        return {"anyOf": [*(_spec_schema(each, definitions) for each in known), OUTSIDE]}
    if kind is Model:
        return {"anyOf": [_spec_schema(each, definitions) for each in (Model, EnsembleModel)]}
    if dataclasses.is_dataclass(kind):
        return _spec_schema(kind, definitions)
    return _generic_schema(kind, definitions) if any(map(_has_spec, get_args(kind))) else _plain_schema(kind)


def _generic_schema(kind: Any, definitions: dict[str, Schema]) -> Schema:
    """Return the schema of a generic type with specs as arguments, such as ``tuple[Stage, ...]``."""
    origin = get_origin(kind)
    inner = get_args(kind)
    if origin is tuple and inner[-1] is ...:
        return {"type": "array", "items": _schema_of(inner[0], definitions)}
    if origin is Annotated:
        return _schema_of(inner[0], definitions)
    return {"anyOf": [_schema_of(each, definitions) for each in inner]} if origin in UNIONS else {}


def _spec_schema(kind: Any, definitions: dict[str, Schema]) -> Schema:
    name = id_of(kind)
    reference = {"$ref": "#/$defs/" + name}
    if name in definitions:
        return reference
    definitions[name] = schema = {"type": "object", "additionalProperties": False}
    hints = get_type_hints(kind, include_extras=True)
    fields = [field for field in dataclasses.fields(kind) if field.init]
    missing = dataclasses.MISSING
    required = [f.name for f in fields if f.default is missing and f.default_factory is missing]
    properties = {field.name: _schema_of(hints[field.name], definitions) for field in fields}
    schema["properties"] = {"is": {"const": name}} | properties
    schema["required"] = ["is", *required]
    if kind.__doc__:
        schema["description"] = kind.__doc__.strip().splitlines()[0]
    return reference


def _plain_schema(kind: Any) -> Schema:
    """Return pydantic's schema of a type without specs; {}, which allows anything, if it has none."""
    try:
        return TypeAdapter(kind).json_schema()
    except (PydanticUserError, PydanticInvalidForJsonSchema):
        return {}


def _has_spec(kind: Any) -> bool:
    return (
        kind in SHELVES
        or kind in UNREGISTERED
        or dataclasses.is_dataclass(kind)
        or any(map(_has_spec, get_args(kind)))
    )
