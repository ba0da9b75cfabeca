"""Runs of many points read together, before each point is answered as it is alone."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Final

from api_schemas.bounds import BoundsRequest
from api_schemas.questions import QuestionSpec
from service.computations.answers import said
from service.computations.bounds import plan_of
from service.privacy.composition.contour.asked import asked_of
from service.privacy.composition.contour.many import Wanted, read_ahead, run_of
from service.privacy.composition.lines import CONTOUR
from service.privacy.composition.plan import Plan
from service.privacy.errors import PrivacyComputationError

NARROW: Final = 1e-7
"""Relative width of what is taken as it is read together; tolerances below it ask for less."""
MOST_QUESTIONS: Final = 4_096


def planned(requests: Sequence[BoundsRequest | None]) -> list[Plan | None]:
    """The plan of every request; the curves of those that lines serve know already what the questions read, where that
    could be read together. None where there is none to be had: who asks again is told why.
    """
    plans = [None if request is None else _plan(request) for request in requests]
    narrow = NARROW
    wanted: list[Wanted] = []
    for request, plan in zip(requests, plans, strict=True):
        if request is None or plan is None or plan.engine != CONTOUR or request.threat_model.type != "worst_case":
            continue
        run = run_of(plan.curves.add)
        if run is not None:
            readings = (reading for question in request.questions for reading in _readings(question))
            wanted.append(Wanted(run, tuple(dict.fromkeys(readings))))
            narrow = min(narrow, request.relative_tolerance)
    if len(wanted) > 1:
        read_ahead(wanted, narrow)
    return plans


def _plan(request: BoundsRequest) -> Plan | None:
    try:
        return plan_of(request)
    except PrivacyComputationError:
        return None


@lru_cache(maxsize=MOST_QUESTIONS)
def _readings(question: QuestionSpec) -> tuple[object, ...]:
    return asked_of(lambda curves: said(curves, question, 1.0))
