"""Resource `POST /v1/curves`: trade-off curves as columns, and how the curves compare."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from itertools import combinations, product
from typing import Final, final

import numpy as np

from api_schemas.assumptions_and_hazards import Assumption
from api_schemas.base import Request
from api_schemas.curves import CurvesRequest, CurvesResponse, RateGrid
from api_schemas.examples import CURVES_EXAMPLES
from api_schemas.options import ONLY_WHERE_ASKED
from api_schemas.threat_models import is_relaxed
from service.privacy.composition.planning.plan import Plan
from service.privacy.errors import PrivacyComputationError
from service.privacy.mechanisms.abstract import AbstractMechanism
from service.privacy.numerics.arrays import FloatArray
from service.privacy.numerics.work import Work, at_most
from service.privacy.trade_off.abstract import AbstractTradeOff, CurvePoints
from service.privacy.trade_off.pair import TradeOffPair
from service.resources.abstract import Computation, Planned, Quote, ResponseFields
from service.resources.allowance import MOST_WORK, WORK_OF_A_JOB, share
from service.resources.caveats import caveats
from service.resources.comparisons.curve_verdicts import COMPARED_POINT_COST, COMPARISON_COST, Read, curve_verdict
from service.resources.curve_points import points_of
from service.resources.disputed import refuse_disputed
from service.resources.estimates import curves_cost, is_for_a_job, quote, unpriced
from service.resources.limits import begin_limits, limit_fields, limit_of_points
from service.resources.numbers import enclosed_column, notes_for, tightness
from service.resources.parts import (
    assumptions_of,
    attribute_error,
    echo_options,
    mechanism_of,
    options_of,
    threat_model_of,
)

WRITTEN_POINT_COST: Final = 2.0
"""Cost of writing a point, beside its evaluation."""


@final
@dataclass(frozen=True, slots=True)
class CurvePlans:
    """Engines chosen for all curves of a request.

    The curves of the first threat model by every method come first, then those of the next threat model.
    """

    mechanism: AbstractMechanism
    plans: tuple[Plan, ...]


def compute_curves(request: CurvesRequest, digest: str, engine_version: str) -> ResponseFields:
    """Evaluate every trade-off curve of a request, and return the curves as fields of the response.

    `digest` and `engine_version` become fields of the response. Raises PrivacyComputationError with the pointer of the
    first faulty part.
    """
    return _response(request, _planned(request), digest, engine_version)


def _response(request: CurvesRequest, planned: CurvePlans, digest: str, engine_version: str) -> ResponseFields:
    rates = _rates(request)
    for_a_job = ONLY_WHERE_ASKED in request.methods and is_for_a_job(_quote(request, lambda: planned))
    with at_most(WORK_OF_A_JOB if for_a_job else MOST_WORK) as work:
        curves, read = _evaluate_all_curves(request, planned, rates, work)
    known = caveats(planned.mechanism, *map(threat_model_of, request.threat_models))
    return {
        "digest": digest,
        "engine_version": engine_version,
        **echo_options(request),
        "mechanism": request.mechanism,
        "false_positive_rates": rates.tolist(),
        "methods": request.methods,
        "curves": curves,
        "comparisons": _comparisons(rates, read),
        "assumptions": known.assumptions + _assumptions_about_attackers(request),
        "hazards": known.hazards,
    }


def _curves_quote(request: CurvesRequest) -> Quote:
    return _quote(request, lambda: _planned(request))


def _quote(request: CurvesRequest, planned: Callable[[], CurvePlans]) -> Quote:
    long = unpriced(request.mechanism, request.threat_models, request.curve_count)
    if long is not None:
        return long
    count, points = request.curve_count, request.rate_count
    pairs = count * (count - 1) / 2
    output = WRITTEN_POINT_COST * count * points + pairs * (COMPARISON_COST + COMPARED_POINT_COST * points)
    known = planned()
    return quote(
        known.plans, partial(curves_cost, request.directions, points), output, prepared=Planned(known, _response)
    )


def _planned(request: CurvesRequest) -> CurvePlans:
    mechanism, options = mechanism_of(request.mechanism), options_of(request)
    plans: list[Plan] = []
    for place, number in _model_and_method_indices(request):
        try:
            model = threat_model_of(request.threat_models[place])
            refuse_disputed(request.mechanism, request.threat_models[place])
            plans.append(model.plan(mechanism, request.methods[number], options))
        except PrivacyComputationError as error:
            raise _attribute_error(error, request, place, number) from None
    return CurvePlans(mechanism, tuple(plans))


def _model_and_method_indices(request: CurvesRequest) -> Iterable[tuple[int, int]]:
    return product(range(len(request.threat_models)), range(len(request.methods)))


def _rates(request: CurvesRequest) -> FloatArray:
    grid = request.grid
    if grid is None:
        return np.array(request.false_positive_rates)
    return _grid(grid)


def _grid(grid: RateGrid) -> FloatArray:
    rates = np.geomspace(grid.smallest, grid.largest, grid.count)
    # Both endpoints are exact: clipping removes rounding beyond them.
    rates = np.clip(rates, grid.smallest, grid.largest)
    return np.unique(np.concatenate((rates, 1 - rates)) if grid.spacing == "log_mirrored" else rates)


def _evaluate_all_curves(
    request: CurvesRequest, planned: CurvePlans, rates: FloatArray, work: Work
) -> tuple[list[ResponseFields], list[Read]]:
    fields: list[ResponseFields] = []
    read: list[Read] = []
    for plan, (place, number) in zip(planned.plans, _model_and_method_indices(request), strict=True):
        threat_model = request.threat_models[place]
        try:
            curves = plan.curves
            known: dict[AbstractTradeOff, tuple[CurvePoints, tuple[str, ...]]] = {}  # once for a symmetric pair
            for direction in request.directions:
                curve: AbstractTradeOff = getattr(curves, direction)
                if curve not in known:
                    before = curves.second_uses
                    begin_limits(curves)
                    with at_most(share(work, request.curve_count - len(read))):
                        known[curve] = points_of(curves, direction, rates), curves.notes_since(before)
                points, notes = known[curve]
                read.append((points, curve.evidence))
                fields.append(
                    {
                        "threat_model": threat_model,
                        "requested_method": request.methods[number],
                        "method": curve.method,
                        "direction": direction,
                        **_drawn(curves, curve, points, request, notes, conditional=is_relaxed(threat_model)),
                    }
                )
        except PrivacyComputationError as error:
            raise _attribute_error(error, request, place, number) from None
    return fields, read


def _assumptions_about_attackers(request: CurvesRequest) -> tuple[Assumption, ...]:
    mechanism = mechanism_of(request.mechanism)
    asked = [assumptions_of(threat_model_of(each), mechanism) for each in request.threat_models]
    return tuple({assumption.text: assumption for each in asked for assumption in each}.values())


def _attribute_error(
    error: PrivacyComputationError, request: CurvesRequest, place: int, number: int
) -> PrivacyComputationError:
    places = {
        "mechanism": "/mechanism",
        "threat_model": f"/threat_models/{place}",
        "method": f"/methods/{number}",
    }
    named: tuple[Request, ...] = (request, *(() if request.grid is None else (request.grid,)))
    return attribute_error(error, places["method"], *named, places=places)


def _drawn(
    curves: TradeOffPair,
    curve: AbstractTradeOff,
    points: CurvePoints,
    request: CurvesRequest,
    notes: tuple[str, ...],
    *,
    conditional: bool,
) -> ResponseFields:
    evidence = curve.evidence
    limit = limit_of_points(curves, evidence, points, request.relative_tolerance)
    return {
        "type_two_error": enclosed_column(points.type_two_error, "lower", evidence),
        "power": enclosed_column(points.power, "upper", evidence),
        "evidence": evidence,
        "tight": tightness(evidence, curves.bracket),
        "conditional": conditional,
        "tolerance_met": limit is None,
        **limit_fields(limit),
        "source": curves.source,
        "notes": notes_for(curves, evidence) + notes,
    }


def _comparisons(rates: FloatArray, read: list[Read]) -> list[ResponseFields]:
    found: list[ResponseFields] = []
    for (first, one), (second, other) in combinations(enumerate(read), 2):
        found.append({"first": first, "second": second, **curve_verdict(rates, one, other)})
    return found


CURVES: Final = Computation(
    name="curves",
    path="/v1/curves",
    description="Compute trade-off curves with lower and upper bounds, and determine the curve that is harder for the "
    "attacker.",
    examples=CURVES_EXAMPLES,
    request_type=CurvesRequest,
    response_type=CurvesResponse,
    function=compute_curves,
    quote=_curves_quote,
    ends_early=True,
)
