"""Examples of properties in the document, taken from its example requests and responses."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, cast

PREFIX: Final = "#/components/schemas/"
SHOWN_ITEMS: Final = 3
"""Items of a list that an example shows."""
SAYS_ITS_VALUES: Final = frozenset({"examples", "const", "enum", "$ref"})


def add_property_examples(document: dict[str, Any]) -> None:
    """Give each property of a component in an OpenAPI document an example, in place.

    The example is the first value of the property in any example of a request or response. Properties that list their
    values, or that have an example, stay as they are. Objects are described by their own properties.
    """
    schemas = document["components"]["schemas"]
    for schema, value in _schemas_with_examples(document):
        _visit(schema, value, schemas)


def _schemas_with_examples(document: dict[str, Any]) -> Iterator[tuple[dict[str, Any], Any]]:
    for item in document["paths"].values():
        for operation in item.values():
            bodies = [operation.get("requestBody", {}), *operation["responses"].values()]
            for content in (media for body in bodies for media in body.get("content", {}).values()):
                for example in content.get("examples", {}).values():
                    yield content["schema"], example["value"]


def _visit(schema: dict[str, Any], value: Any, schemas: dict[str, Any]) -> None:
    found = _schema_matching(schema, value, schemas)
    if found is None:
        return
    if isinstance(value, list):
        for item in cast("list[Any]", value):
            _visit(found.get("items", {}), item, schemas)
    elif isinstance(value, dict):
        for name, inner in cast("dict[str, Any]", value).items():
            described = found.get("properties", {}).get(name)
            if described is not None:
                _set_example(described, inner)
                _visit(described, inner, schemas)


def _set_example(schema: dict[str, Any], value: Any) -> None:
    if value is None or isinstance(value, dict) or SAYS_ITS_VALUES & schema.keys():
        return
    if not isinstance(value, list):
        schema["examples"] = [value]
        return
    items = cast("list[Any]", value)
    if items and not isinstance(items[0], (dict, list)):
        schema["examples"] = [items[:SHOWN_ITEMS]]


def _schema_matching(schema: dict[str, Any], value: Any, schemas: dict[str, Any]) -> dict[str, Any] | None:
    if "$ref" in schema:
        return _schema_matching(schemas[schema["$ref"].removeprefix(PREFIX)], value, schemas)
    for each in (*schema.get("oneOf", ()), *schema.get("anyOf", ()), *schema.get("allOf", ())):
        found = _schema_matching(each, value, schemas)
        if found is not None:
            return found
    if isinstance(value, list):
        return schema if schema.get("type") == "array" else None
    if not isinstance(value, dict) or schema.get("type") != "object":
        return None
    members = cast("dict[str, Any]", value)
    properties = schema.get("properties", {})
    known = members.keys() <= properties.keys() or "additionalProperties" in schema
    complete = set(schema.get("required", ())) <= members.keys()
    kind = properties.get("type", {})
    return schema if known and complete and kind.get("const", members.get("type")) == members.get("type") else None
