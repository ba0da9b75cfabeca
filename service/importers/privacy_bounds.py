"""Reader for this service: a mechanism, a request for bounds, or a response to one."""

from __future__ import annotations

from typing import Final

from api_schemas.bounds import BoundsRequest, BoundsResponse
from service.importers.reading import DraftSpec, ImportedRun, SourceValue

DESCRIPTION: Final = "privacy_bounds (a mechanism with its type, a request for bounds, or a response to one)"
CARRIED: Final = ("mechanism", "threat_model")
MEMBERS: Final = tuple(dict.fromkeys((*BoundsRequest.model_fields, *BoundsResponse.model_fields)))


def matches(state: SourceValue) -> bool:
    """Return whether a state (JSON value) is a mechanism of this service, or contains one."""
    return isinstance(state.as_object.get("type"), str) or isinstance(state.as_object.get("mechanism"), dict)


def read_state(state: SourceValue) -> ImportedRun:
    """Return the mechanism and the threat model of a state of this service without changes. Raise ValidationError."""
    if "type" in state.as_object:
        return ImportedRun(_draft_of_object(state))
    members = state.members((CARRIED[0],), tuple(name for name in MEMBERS if name != CARRIED[0]))
    left = [name for name in members if name not in CARRIED]
    notes = [f"{', '.join(left)}: only the mechanism and the threat model are imported."] if left else []
    threat_model = members.get(CARRIED[1])
    return ImportedRun(
        _draft_of_object(members[CARRIED[0]]),
        None if threat_model is None else _draft_of_object(threat_model),
        tuple(notes),
    )


def _draft_of_object(node: SourceValue) -> DraftSpec:
    if not isinstance(node.value, dict):
        node.reject("Must be a JSON object with a type.")
    return DraftSpec(
        node, **{name: SourceValue(value, (*node.location, name)) for name, value in node.as_object.items()}
    )
