"""Named components of the published document: requests and responses apart, and what repeats written once."""

from __future__ import annotations

from typing import Any, Final, cast

from api_schemas.base import COMPONENT

OF_THE_PLACE: Final = ("default", "description", "examples")
"""Keywords that belong to the place where a schema is used, unless they say what the component itself says."""
SCHEMAS: Final = "#/components/schemas/"
ECHO: Final = "Echo"
"""Ends the names of what a response says again of a request, where it is not of the same shape: defaults filled in."""


def add_requests(document: dict[str, Any], requests: dict[str, Any]) -> None:
    """Add the schemas of requests to those of responses, which the document has.

    A name that both have with different schemas stays that of the request; the one of the response ends in `Echo`.
    """
    requests = _without_null_defaults(requests)  # the framework has left them out of the responses
    responses: dict[str, Any] = document["components"]["schemas"]
    for name, schema in responses.items():
        if requests.get(name) != schema:
            for field in schema.get("properties", {}).values():
                field.pop("default", None)  # a response says what it says
    echoes = {name for name, schema in responses.items() if requests.get(name, schema) != schema}
    while more := {
        name
        for name, schema in responses.items()
        if name in requests and name not in echoes and not echoes.isdisjoint(_referred(schema))
    }:
        echoes |= more
    names = {SCHEMAS + name: SCHEMAS + name + ECHO for name in echoes}
    renamed: dict[str, Any] = _renamed(responses, names)
    document["paths"] = _renamed(document["paths"], names, but="requestBody")
    document["components"]["schemas"] = {
        **{
            name + ECHO if name in echoes else name: schema | ({"title": name + ECHO} if name in echoes else {})
            for name, schema in renamed.items()
        },
        **requests,
    }


def name_components(document: dict[str, Any]) -> None:
    """Move every schema that has a name of its own (`api_schemas.base.component`) to the components.

    What stays in its place is a reference, with the description and the default of that place where there are any.
    """
    schemas: dict[str, Any] = document["components"]["schemas"]
    found: dict[str, Any] = {}
    document["paths"] = _named(document["paths"], found)
    document["components"]["schemas"] = dict(sorted(({**_named(schemas, found), **found}).items()))


def _named(node: Any, found: dict[str, Any]) -> Any:
    if isinstance(node, list):
        return [_named(inner, found) for inner in cast("list[Any]", node)]
    if not isinstance(node, dict):
        return node
    schema = {key: _named(inner, found) for key, inner in cast("dict[str, Any]", node).items()}
    if COMPONENT not in schema:
        return schema
    own = schema.pop(COMPONENT)
    place = {key: schema.pop(key) for key in OF_THE_PLACE if key in schema}
    schema.pop("title", None)  # of the field
    name, itself = own["name"], {**own, **schema}
    del itself["name"]
    if any(reference.endswith(ECHO) for reference in _referred(itself)):
        name += ECHO
    if found.setdefault(name, itself) != itself:
        raise ValueError(f"two different schemas are named {name}")
    said = {key: value for key, value in place.items() if itself.get(key) != value}
    return {"$ref": SCHEMAS + name, **said}


def _referred(node: Any) -> set[str]:
    """Names of the components that a schema refers to."""
    if isinstance(node, list):
        return set[str]().union(*map(_referred, cast("list[Any]", node)))
    if not isinstance(node, dict):
        return set()
    inside = cast("dict[str, Any]", node)
    reference: Any = inside.get("$ref")
    own = {reference.removeprefix(SCHEMAS)} if isinstance(reference, str) else set[str]()
    return own.union(*map(_referred, inside.values()))


def _renamed(node: Any, names: dict[str, str], but: str = "") -> Any:
    """The same with other references; what is under the key `but` stays."""
    if isinstance(node, list):
        return [_renamed(inner, names, but) for inner in cast("list[Any]", node)]
    if isinstance(node, dict):
        inside = cast("dict[str, Any]", node)
        return {key: inner if key == but else _renamed(inner, names, but) for key, inner in inside.items()}
    return names.get(node, node) if isinstance(node, str) else node


def _without_null_defaults(node: Any) -> Any:
    if isinstance(node, list):
        return [_without_null_defaults(inner) for inner in cast("list[Any]", node)]
    if isinstance(node, dict):
        inside = cast("dict[str, Any]", node).items()
        return {key: _without_null_defaults(inner) for key, inner in inside if (key, inner) != ("default", None)}
    return node
