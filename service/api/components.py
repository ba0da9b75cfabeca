"""Named components of the published document: what repeats is written once, and referred to by its name."""

from __future__ import annotations

from typing import Any, Final, cast

from api_schemas.base import COMPONENT

OF_THE_PLACE: Final = ("default", "description", "examples")
"""Keywords that belong to the place where a schema is used, unless they say what the component itself says."""
SCHEMAS: Final = "#/components/schemas/"


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
    if found.setdefault(name, itself) != itself:
        raise ValueError(f"two different schemas are named {name}")
    said = {key: value for key, value in place.items() if itself.get(key) != value}
    return {"$ref": SCHEMAS + name, **said}
