"""`POST /v1/bounds`: mechanism -> trade-off curves -> readings -> answers."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Final, cast

import numpy as np

from api_schemas.base import Request
from api_schemas.bounds import BoundsRequest, BoundsResponse, TradeOffPoint
from api_schemas.mechanisms import MechanismSpec
from api_schemas.questions import GdpMuQuestion, QuestionSpec, TradeOffQuestion
from api_schemas.threat_models import ThreatModelSpec
from service.computations.abstract import Computation, ResponseFields
from service.computations.caveats import caveats, nodes_of
from service.computations.numbers import enclosed_number, enclosed_numbers, narrow
from service.computations.prices import price
from service.computations.readings import READINGS
from service.privacy.composition.cost import tariff
from service.privacy.enclosure import Evidence
from service.privacy.errors import NumericalFailure, OutOfDomain, PrivacyComputationError, UnsupportedCombination
from service.privacy.mechanisms.abstract import AbstractMechanism
from service.privacy.mechanisms.catalogue import MECHANISMS
from service.privacy.questions import gaussian_dp
from service.privacy.threat_models.worst_case import WorstCase
from service.privacy.trade_off.abstract import AbstractTradeOff
from service.privacy.trade_off.pair import TradeOffPair


def compute_bounds(request: BoundsRequest, digest: str, engine_version: str) -> ResponseFields:
    """Answer all questions of a request, or raise with the pointer of the first part that cannot be served."""
    answers: list[ResponseFields] = []
    mechanism = mechanism_of(request.mechanism)
    pointer, part = "/threat_model", request.threat_model
    try:
        curves = threat_model_of(request.threat_model).curves(mechanism, method=request.method)
        for index, question in enumerate(request.questions):
            pointer, part = f"/questions/{index}", question
            answers.append(_answer(curves, question, request.relative_tolerance))
    except PrivacyComputationError as error:
        raise _blamed(error, pointer, part) from None
    known = caveats(request.mechanism)
    return {
        "digest": digest,
        "engine_version": engine_version,
        "mechanism": request.mechanism,
        "threat_model": request.threat_model,
        "answers": answers,
        "worst_case": None,
        "assumptions": known.assumptions,
        "hazards": known.hazards,
    }


def bounds_cost(request: BoundsRequest) -> int:
    """Estimated work in units of about one microsecond of CPU time."""
    return price(request.questions, tariff(mechanism_of(request.mechanism)))


def mechanism_of(spec: MechanismSpec) -> AbstractMechanism:
    """The mechanism of the core that a specification describes. Raises with the pointer `/mechanism`."""
    hashable: Any = spec  # frozen, which its type does not say
    return _mechanism_of(hashable)


@lru_cache(maxsize=16)  # asked for twice: a request is priced before it is computed
def _mechanism_of(spec: MechanismSpec) -> AbstractMechanism:
    try:
        return _mechanism(spec)
    except PrivacyComputationError as error:
        raise _blamed(error, "/mechanism", *nodes_of(spec)) from None


def threat_model_of(spec: ThreatModelSpec) -> WorstCase:
    """The threat model of the core that a specification describes."""
    return WorstCase(neighboring_relation=spec.neighboring_relation)


def _blamed(error: PrivacyComputationError, pointer: str, *parts: Request) -> PrivacyComputationError:
    """The error with the place in the request that it is about: `pointer`, which leads to `parts`.

    A value outside a domain is the client's only if the client can name it; inside the core it is a defect.
    """
    if isinstance(error, OutOfDomain) and not any(error.name in type(part).model_fields for part in parts):
        return NumericalFailure(str(error)).with_traceback(error.__traceback__)
    if not error.pointer:
        error.pointer = pointer
        if isinstance(error, UnsupportedCombination) and error.field in BoundsRequest.model_fields:
            error.pointer = f"/{error.field}"
    return error


def _mechanism(spec: MechanismSpec) -> AbstractMechanism:
    held = spec.__dict__
    return MECHANISMS[spec.type](**{name: _part(value) for name, value in held.items() if name != "type"})


def _part(value: Any) -> Any:
    if isinstance(value, float):
        return value
    if isinstance(value, Request):
        return _mechanism(cast("MechanismSpec", value))
    return tuple(map(_part, cast("tuple[Any, ...]", value))) if isinstance(value, tuple) else value


def _answer(curves: TradeOffPair, question: QuestionSpec, tolerance: float) -> ResponseFields:
    curve: AbstractTradeOff = getattr(curves, question.direction)
    if isinstance(question, TradeOffQuestion):
        return _trade_off(curves, curve, question, tolerance)
    if isinstance(question, GdpMuQuestion):
        return _gdp_mu(curves, curve, question, tolerance)
    reading = READINGS[type(question)](curve, question)
    return {
        "question": question,
        **enclosed_number(reading.value, reading.safe_end),
        "evidence": reading.value.evidence,
        "conditional": False,
        "method": curve.method,
        "tolerance_met": reading.value.relative_width() <= tolerance,
        "source": _source(reading.source, curves),
        "notes": reading.notes + curves.notes,
    }


def _trade_off(
    curves: TradeOffPair, curve: AbstractTradeOff, question: TradeOffQuestion, tolerance: float
) -> ResponseFields:
    read = curve.points(np.array(question.false_positive_rates))
    points: list[TradeOffPoint] = [
        {"false_positive_rate": rate, "type_two_error": error, "power": power}
        for rate, error, power in zip(
            question.false_positive_rates,
            enclosed_numbers(read.type_two_error, "lower"),
            enclosed_numbers(read.power, "upper"),
            strict=True,
        )
    ]
    return {
        "question": question,
        "points": points,
        "evidence": curve.evidence,
        "conditional": False,
        "method": curve.method,
        "tolerance_met": narrow(read.type_two_error, tolerance) and narrow(read.power, tolerance),
        "source": curves.source,
        "notes": curves.notes,
    }


def _gdp_mu(curves: TradeOffPair, curve: AbstractTradeOff, question: GdpMuQuestion, tolerance: float) -> ResponseFields:
    reading = gaussian_dp.mu(curve, question.false_positive_rate_min, question.type_two_error_min)
    parts = (reading.value, reading.global_mu)
    return {
        "question": question,
        "value": reading.value.upper,
        "lower": reading.value.lower,
        "upper": reading.value.upper,
        "global_mu": enclosed_number(reading.global_mu, "upper"),
        "evidence": Evidence.weakest(*(part.evidence for part in parts)),
        "conditional": False,
        "method": curve.method,
        "tolerance_met": all(part.relative_width() <= tolerance for part in parts),
        "source": _source(reading.source, curves),
        "notes": reading.notes + curves.notes,
    }


def _source(theorem: str, curves: TradeOffPair) -> str:
    """The theorem of the reading and the one of the curve."""
    return theorem if theorem == curves.source else f"{theorem}; {curves.source}"


BOUNDS: Final = Computation(
    name="bounds",
    request_type=BoundsRequest,
    response_type=BoundsResponse,
    function=compute_bounds,
    cost=bounds_cost,
)
