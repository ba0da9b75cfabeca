"""Requests for bounds inside other requests, with the limits of a request for bounds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from api_schemas.bounds import BoundsRequest
from api_schemas.limits import limit_error
from api_schemas.mechanisms import MechanismSpec
from api_schemas.questions import QuestionSpec
from api_schemas.scalar_types import DEFAULT_TOLERANCE
from api_schemas.threat_models import ThreatModelSpec


def bounds_request(
    mechanism: MechanismSpec,
    threat_model: ThreatModelSpec | None,
    questions: tuple[QuestionSpec, ...],
    places: Mapping[str, str],
    relative_tolerance: float = DEFAULT_TOLERANCE,
) -> BoundsRequest:
    """Return a request for bounds with the method auto, which is part of another request.

    Without a threat model it uses the worst case. `places` maps pointers of this request to pointers of the surrounding
    request. Raise PydanticCustomError with a pointer into the surrounding request.
    """
    given: dict[str, Any] = {} if threat_model is None else {"threat_model": threat_model}
    try:
        return BoundsRequest(
            mechanism=mechanism, questions=questions, relative_tolerance=relative_tolerance, method="auto", **given
        )
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        inner = str(first.get("ctx", {}).get("pointer", "/" + "/".join(map(str, first["loc"]))))
        raise limit_error(repoint(inner, places), first["msg"]) from None


def repoint(pointer: str, places: Mapping[str, str]) -> str:
    """Convert a JSON pointer of a request for bounds to one of the surrounding request.

    The longest prefix of the pointer in `places` is replaced.
    """
    for known in sorted(places, key=len, reverse=True):
        if pointer == known or pointer.startswith(known + "/"):
            return places[known] + pointer[len(known) :]
    return pointer
