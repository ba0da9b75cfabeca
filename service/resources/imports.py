"""Resource `POST /v1/imports`: the state of another library as a mechanism of this service."""

from __future__ import annotations

from typing import Any, Final, cast

from api_schemas.imports import IMPORTS_EXAMPLES, ImportsRequest, ImportsResponse
from service.importers.catalogue import import_state
from service.privacy.errors import PrivacyComputationError
from service.resources.abstract import Computation, Quote, ResponseFields
from service.resources.caveats import caveats
from service.resources.parts import attribute_error, mechanism_of

VALUE_COST: Final = 10
"""Microseconds for each value of a state: the value is read, validated, converted and written."""
BASE_COST: Final = 500
MOST_INLINE: Final = 600
"""Largest number of values of a state that the event loop converts. Their conversion blocks the loop only briefly."""


def _compute_imports(request: ImportsRequest, digest: str, engine_version: str) -> ResponseFields:
    found = import_state(request.format, request.content)
    try:
        known = caveats(mechanism_of(found.mechanism))
    except PrivacyComputationError as error:
        error.pointer = ""
        raise attribute_error(error, "/content", request) from None
    attacker = {} if found.threat_model is None else {"threat_model": found.threat_model}
    return {
        "digest": digest,
        "engine_version": engine_version,
        "format": found.format,
        "mechanism": found.mechanism,
        **attacker,
        "not_carried_over": found.not_carried_over,
        "hazards": (*found.hazards, *known.hazards),
    }


def _imports_quote(request: ImportsRequest) -> Quote:
    values = _values(request.content)
    return Quote(BASE_COST + VALUE_COST * values, inline=values <= MOST_INLINE)


def _values(content: Any) -> int:
    if isinstance(content, dict):
        return 1 + sum(map(_values, cast("dict[str, Any]", content).values()))
    return 1 + sum(map(_values, cast("list[Any]", content))) if isinstance(content, list) else 1


IMPORTS: Final = Computation(
    name="imports",
    path="/v1/imports",
    description="Convert the state of another library to a mechanism. The response lists omitted information and facts "
    "that the state cannot show.",
    examples=IMPORTS_EXAMPLES,
    request_type=ImportsRequest,
    response_type=ImportsResponse,
    function=_compute_imports,
    quote=_imports_quote,
    bare_member="content",
)
