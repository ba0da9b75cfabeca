"""This service: a mechanism, a request for bounds, or its response."""

from __future__ import annotations

from typing import Final

from api_schemas.bounds import BoundsRequest, BoundsResponse
from service.interop.reading import ImportedRun, Node, Spec

WHAT: Final = "privacy_bounds (a mechanism with its type, a request for bounds, or a response to one)"
CARRIED: Final = ("mechanism", "threat_model")
MEMBERS: Final = tuple(dict.fromkeys((*BoundsRequest.model_fields, *BoundsResponse.model_fields)))


def looks_like(state: Node) -> bool:
    """Whether it is a mechanism, or has one."""
    return isinstance(state.held.get("type"), str) or isinstance(state.held.get("mechanism"), dict)


def read(state: Node) -> ImportedRun:
    """The mechanism as it is, and who attacks. Raises ValidationError."""
    if "type" in state.held:
        return ImportedRun(_described(state))
    members = state.members((CARRIED[0],), tuple(name for name in MEMBERS if name != CARRIED[0]))
    left = [name for name in members if name not in CARRIED]
    notes = [f"{', '.join(left)}: only what was run and who attacks are carried over."] if left else []
    threat_model = members.get(CARRIED[1])
    return ImportedRun(
        _described(members[CARRIED[0]]), None if threat_model is None else _described(threat_model), tuple(notes)
    )


def _described(node: Node) -> Spec:
    """An object of the contract, whose members stand where they are sent."""
    if not isinstance(node.value, dict):
        node.refuse("Must be a JSON object with a type.")
    return Spec(node, **{name: Node(value, (*node.place, name)) for name, value in node.held.items()})
