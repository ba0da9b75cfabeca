"""Requests for bounds that are part of another request: what holds for them alone holds for them there."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from api_schemas.bounds import BoundsRequest
from api_schemas.limits import refusal
from api_schemas.mechanisms import MechanismSpec
from api_schemas.quantities import DEFAULT_TOLERANCE
from api_schemas.questions import QuestionSpec
from api_schemas.threat_models import ThreatModelSpec


def bounds_request(
    mechanism: MechanismSpec,
    threat_model: ThreatModelSpec | None,
    questions: tuple[QuestionSpec, ...],
    places: Mapping[str, str],
    relative_tolerance: float = DEFAULT_TOLERANCE,
) -> BoundsRequest:
    """The questions about one mechanism against one threat model (absent: the worst case), by the method auto.

    `places`: where the parts of it stand in the request around it, by their pointers in this one. Raises
    PydanticCustomError with a pointer into the request around it.
    """
    given: dict[str, Any] = {} if threat_model is None else {"threat_model": threat_model}
    try:
        return BoundsRequest(
            mechanism=mechanism, questions=questions, relative_tolerance=relative_tolerance, method="auto", **given
        )
    except ValidationError as error:
        told = error.errors(include_url=False, include_input=False)[0]
        inner = str(told.get("ctx", {}).get("pointer", "/" + "/".join(map(str, told["loc"]))))
        raise refusal(moved(inner, places), told["msg"]) from None


def moved(pointer: str, places: Mapping[str, str]) -> str:
    """A JSON pointer into a request for bounds as one into the request around it: by its longest known beginning."""
    for known in sorted(places, key=len, reverse=True):
        if pointer == known or pointer.startswith(known + "/"):
            return places[known] + pointer[len(known) :]
    return pointer
