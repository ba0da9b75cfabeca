"""Compact input schemas: the top of a request in full, and one line for each kind of object below it.

The complete schema of a request has about 50 000 characters, which an assistant would read before every conversation.
The service validates arguments against the complete schema.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, cast

from api_schemas.base import Request

Schema = Mapping[str, Any]
KEPT: Final = (
    "type",
    "description",
    "enum",
    "const",
    "default",
    "minimum",
    "maximum",
    "exclusiveMinimum",
    "exclusiveMaximum",
    "minItems",
    "maxItems",
    "maxLength",
)
"""Keywords of a schema that stay as they are."""
DEEPEST: Final = 4
"""Number of levels of objects that are written out."""


def input_schema(model: type[Request]) -> dict[str, Any]:
    """Return the compact JSON schema of the requests of type `model`, with objects down to the fourth level."""
    whole = model.model_json_schema()
    compact = _compact(whole, whole.get("$defs", {}), 0)
    return compact | {"type": "object", "additionalProperties": False}


def _compact(schema: Schema, definitions: Schema, depth: int) -> dict[str, Any]:
    found = _resolve_reference(schema, definitions)
    kept = {key: found[key] for key in KEPT if found.get(key) is not None}
    options = _alternatives_without_null(found, definitions)
    if options and all(map(_kind, options)):
        described = "; ".join(map(_fields_as_text, options))
        fields = f"{kept.get('description', '')} Types with their fields: {described}.".lstrip()
        kinds = {"type": {"enum": list(map(_kind, options))}}
        return kept | {"type": "object", "description": fields, "properties": kinds, "required": ["type"]}
    if len(options) == 1:
        return _compact(options[0], definitions, depth) | kept
    if options:
        return kept | {"anyOf": [_compact(option, definitions, depth) for option in options]}
    if "properties" in found:
        if depth >= DEEPEST:
            return kept | {"type": "object"}
        inner = {name: _compact(each, definitions, depth + 1) for name, each in found["properties"].items()}
        return kept | {"properties": inner} | ({"required": found["required"]} if "required" in found else {})
    for name in ("items", "additionalProperties"):
        if isinstance(found.get(name), dict):
            kept[name] = _compact(found[name], definitions, depth + 1)
    return kept


def _resolve_reference(schema: Schema, definitions: Schema) -> Schema:
    # a description beside the reference replaces that of the schema
    if "$ref" not in schema:
        return schema
    target: Schema = definitions[schema["$ref"].rpartition("/")[2]]
    return {**_resolve_reference(target, definitions), **{key: schema[key] for key in schema if key != "$ref"}}


def _alternatives_without_null(schema: Schema, definitions: Schema) -> list[Schema]:
    given = cast("list[Schema]", schema.get("oneOf") or schema.get("anyOf") or [])
    options: list[Schema] = []
    for each in given:
        option = _resolve_reference(each, definitions)
        inner = _alternatives_without_null(option, definitions)
        options += inner or ([] if option.get("type") == "null" else [option])
    return options


def _kind(option: Schema) -> str | None:
    kind: Schema = option.get("properties", {}).get("type", {})
    return kind.get("const")


def _fields_as_text(option: Schema) -> str:
    required = option.get("required", ())
    fields = (name + ("" if name in required else "?") for name in option["properties"] if name != "type")
    return f"{_kind(option)}({', '.join(fields)})"
