"""Runs of many points read together, before each point is answered as it is alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any, Final

from api_schemas.bounds import BoundsRequest
from api_schemas.questions import QuestionSpec
from service.computations.answers import evaluate_question
from service.computations.bounds import ResolvedRequest, resolve_request
from service.privacy.composition.inversion.many import Wanted, evaluate_together, run_of
from service.privacy.composition.inversion.recorded_queries import recorded_queries_of
from service.privacy.composition.inversion.run import ContourRun
from service.privacy.composition.planning.contour_inversion import CONTOUR
from service.privacy.composition.summands.abstract import Summand
from service.privacy.enclosure import Enclosure
from service.privacy.errors import PrivacyComputationError
from service.privacy.trade_off.combinators.prefetched import Known, PrefetchedCurve

NARROW: Final = 1e-7
"""Relative width of what is taken as it is read together; tolerances below it ask for less."""
MOST_QUESTIONS: Final = 4_096

RunQueries = tuple[tuple[Summand, ...], tuple[Known, ...]]
"""The steps of a run, and what is read of it."""


def resolve_together(requests: Sequence[BoundsRequest | None], wanted: range) -> list[ResolvedRequest | None]:
    """The settings of those at the places `wanted` among requests that are read together, as far as lines serve them:
    their curves know what the questions read where that could be read together. None of others, and where there are
    none to be had: who asks again is told why.
    """
    asked: dict[int, RunQueries] = {}
    resolved_requests: list[ResolvedRequest | None] = []
    narrow = NARROW
    for place, request in enumerate(requests):
        resolved = None if request is None else _resolve(request)
        run = None if resolved is None else run_of(resolved.primary.curves.add)
        if request is not None and run is not None:
            questions: tuple[Any, ...] = request.questions  # frozen, which their type does not say
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


@lru_cache(maxsize=2)  # pieces that are shorter than a block ask for it again
def _read_together(asked: tuple[RunQueries, ...], width: float) -> tuple[Mapping[Known, Enclosure], ...]:
    wanted = [Wanted(ContourRun.of(0.0, steps), readings) for steps, readings in asked]
    evaluate_together(wanted, width)
    return tuple(each.known for each in wanted)


def _resolve(request: BoundsRequest) -> ResolvedRequest | None:
    if request.threat_model.type != "worst_case":
        return None
    try:
        resolved = resolve_request(request)
        if resolved.primary.engine == CONTOUR:
            _ = resolved.primary.curves  # making them may say what only the engine knows
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
