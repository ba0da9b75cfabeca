"""Joint evaluation of the mechanisms of many points of a sweep, before each point is answered on its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any, Final

from api_schemas.bounds import BoundsRequest
from api_schemas.questions import QuestionSpec
from service.privacy.composition.inversion.many import Wanted, evaluate_together, run_of
from service.privacy.composition.inversion.recorded_queries import recorded_queries_of
from service.privacy.composition.inversion.run_law import RunLaw
from service.privacy.composition.planning.contour_inversion import CONTOUR
from service.privacy.composition.summands.abstract import Summand
from service.privacy.enclosure import Enclosure
from service.privacy.errors import PrivacyComputationError
from service.privacy.trade_off.combinators.prefetched import Known, PrefetchedCurve
from service.resources.answers import evaluate_question
from service.resources.bounds import ResolvedRequest, resolve_request

NARROW: Final = 1e-7
"""Largest relative width of jointly evaluated numbers. Smaller tolerances of requests apply."""
MOST_QUESTIONS: Final = 4_096

RunQueries = tuple[tuple[Summand, ...], tuple[Known, ...]]
"""Steps of a run, and the queries on its curves."""


def resolve_together(requests: Sequence[BoundsRequest | None], wanted: range) -> list[ResolvedRequest | None]:
    """Return the requests at the indices `wanted`, each with its engines and numbers that were evaluated together.

    All requests are evaluated, so that the numbers do not depend on `wanted`. Only contour inversion evaluates numbers
    together. The entry is None for other engines, for a weaker attacker, and for a request that is None or cannot be
    served.
    """
    asked: dict[int, RunQueries] = {}
    resolved_requests: list[ResolvedRequest | None] = []
    narrow = NARROW
    for place, request in enumerate(requests):
        resolved = None if request is None else _resolve(request)
        run = None if resolved is None else run_of(resolved.primary.curves.add)
        if request is not None and run is not None:
            questions: tuple[Any, ...] = request.questions  # frozen at run time, unknown to the type checker
            readings = (reading for question in questions for reading in _readings(question))
            asked[place] = run.summands, tuple(dict.fromkeys(readings))
            narrow = min(narrow, request.relative_tolerance)
        if place in wanted:
            resolved_requests.append(resolved)
    if not any(place in asked for place in wanted):
        return resolved_requests
    known = dict(zip(asked, _read_together(tuple(asked.values()), narrow), strict=True))
    return [
        _with_known_answers(resolved, known.get(place))
        for place, resolved in zip(wanted, resolved_requests, strict=True)
    ]


@lru_cache(maxsize=2)  # chunks shorter than a block share its result
def _read_together(asked: tuple[RunQueries, ...], width: float) -> tuple[Mapping[Known, Enclosure], ...]:
    wanted = [Wanted(RunLaw.of(0.0, steps), readings) for steps, readings in asked]
    evaluate_together(wanted, width)
    return tuple(each.known for each in wanted)


def _resolve(request: BoundsRequest) -> ResolvedRequest | None:
    if request.threat_model.type != "worst_case":
        return None
    try:
        resolved = resolve_request(request)
        if resolved.primary.engine == CONTOUR:
            _ = resolved.primary.curves  # building curves may raise an error of the engine
            return resolved
    except PrivacyComputationError:
        pass
    return None


def _with_known_answers(
    resolved: ResolvedRequest | None, known: Mapping[Known, Enclosure] | None
) -> ResolvedRequest | None:
    if resolved is None or not known:
        return resolved
    pair = resolved.primary.curves
    add = PrefetchedCurve(pair.add, known, reflected=False)
    knowing = replace(pair, add=add, remove=PrefetchedCurve(pair.remove, known, reflected=True))
    return replace(resolved, primary=replace(resolved.primary, build=lambda: knowing))


@lru_cache(maxsize=MOST_QUESTIONS)
def _readings(question: QuestionSpec) -> tuple[Known, ...]:
    return recorded_queries_of(lambda curves: evaluate_question(curves, question, 1.0))
