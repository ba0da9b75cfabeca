"""Components of the published document: separate schemas of requests and responses, each schema once."""

from __future__ import annotations

from typing import Any, Final, cast

from api_schemas.base import COMPONENT

LOCAL_KEYWORDS: Final = ("default", "description", "examples")
"""Keywords that stay beside a reference, unless the component has the same value."""
SCHEMAS: Final = "#/components/schemas/"
RESPONSE_VARIANT: Final = "Echo"
"""Suffix of the response variant of a request schema. The variant has its defaults filled in."""


def add_requests(document: dict[str, Any], requests: dict[str, Any]) -> None:
    """Add the schemas `requests` of requests to an OpenAPI document that has the schemas of responses.

    If both have a schema of the same name and the schemas differ, or refer to schemas that do, the name of the response
    schema ends in `Echo`. The `document` is changed in place.
    """
    requests = _without_null_defaults(requests)  # the framework has left them out of the responses
    responses: dict[str, Any] = document["components"]["schemas"]
    for name, schema in responses.items():
        if requests.get(name) != schema:
            for field in schema.get("properties", {}).values():
                field.pop("default", None)  # a response says what it says
    variants = {name for name, schema in responses.items() if requests.get(name, schema) != schema}
    while more := {
        name
        for name, schema in responses.items()
        if name in requests and name not in variants and not variants.isdisjoint(_component_names_in(schema))
    }:
        variants |= more
    names = {SCHEMAS + name: SCHEMAS + name + RESPONSE_VARIANT for name in variants}
    renamed: dict[str, Any] = _replace_references(responses, names)
    document["paths"] = _replace_references(document["paths"], names, but="requestBody")
    document["components"]["schemas"] = {
        **{
            name + RESPONSE_VARIANT if name in variants else name: schema
            | ({"title": name + RESPONSE_VARIANT} if name in variants else {})
            for name, schema in renamed.items()
        },
        **requests,
    }


def hoist_components(document: dict[str, Any]) -> None:
    """Move every schema with a name of its own (`api_schemas.base.named_schema`) to the components.

    The `document` is changed in place. A reference replaces the schema at each position, and keeps the description and
    the default of that position. Raise ValueError if two different schemas have one name.
    """
    schemas: dict[str, Any] = document["components"]["schemas"]
    found: dict[str, Any] = {}
    document["paths"] = _hoist_components(document["paths"], found)
    document["components"]["schemas"] = dict(sorted(({**_hoist_components(schemas, found), **found}).items()))


def _hoist_components(node: Any, found: dict[str, Any]) -> Any:
    if isinstance(node, list):
        return [_hoist_components(inner, found) for inner in cast("list[Any]", node)]
    if not isinstance(node, dict):
        return node
    schema = {key: _hoist_components(inner, found) for key, inner in cast("dict[str, Any]", node).items()}
    if COMPONENT not in schema:
        return schema
    component = schema.pop(COMPONENT)
    local = {key: schema.pop(key) for key in LOCAL_KEYWORDS if key in schema}
    schema.pop("title", None)  # of the field
    if "const" in schema:  # generated clients check an optional constant twice, but not an enumeration
        schema["enum"] = [schema.pop("const")]
    name, itself = component["name"], {**component, **schema}
    del itself["name"]
    if any(reference.endswith(RESPONSE_VARIANT) for reference in _component_names_in(itself)):
        name += RESPONSE_VARIANT
    if found.setdefault(name, itself) != itself:
        raise ValueError(f"two different schemas are named {name}")
    kept = {key: value for key, value in local.items() if itself.get(key) != value}
    return {"$ref": SCHEMAS + name, **kept}


def _component_names_in(node: Any) -> set[str]:
    if isinstance(node, list):
        return set[str]().union(*map(_component_names_in, cast("list[Any]", node)))
    if not isinstance(node, dict):
        return set()
    inside = cast("dict[str, Any]", node)
    reference: Any = inside.get("$ref")
    component = {reference.removeprefix(SCHEMAS)} if isinstance(reference, str) else set[str]()
    return component.union(*map(_component_names_in, inside.values()))


def _replace_references(node: Any, names: dict[str, str], but: str = "") -> Any:
    if isinstance(node, list):
        return [_replace_references(inner, names, but) for inner in cast("list[Any]", node)]
    if isinstance(node, dict):
        inside = cast("dict[str, Any]", node)
        return {key: inner if key == but else _replace_references(inner, names, but) for key, inner in inside.items()}
    return names.get(node, node) if isinstance(node, str) else node


def _without_null_defaults(node: Any) -> Any:
    if isinstance(node, list):
        return [_without_null_defaults(inner) for inner in cast("list[Any]", node)]
    if isinstance(node, dict):
        inside = cast("dict[str, Any]", node).items()
        return {key: _without_null_defaults(inner) for key, inner in inside if (key, inner) != ("default", None)}
    return node
