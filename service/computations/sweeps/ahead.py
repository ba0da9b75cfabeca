"""Runs of many points read together, before each point is answered as it is alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any, Final

from api_schemas.bounds import BoundsRequest
from api_schemas.questions import QuestionSpec
from service.computations.answers import said
from service.computations.bounds import plan_of
from service.privacy.composition.contour.asked import asked_of
from service.privacy.composition.contour.many import Wanted, read_ahead, run_of
from service.privacy.composition.lines import CONTOUR
from service.privacy.errors import PrivacyComputationError
from service.privacy.trade_off.combinators.read_ahead import Known, ReadAhead
from service.privacy.trade_off.pair import TradeOffPair

NARROW: Final = 1e-7
"""Relative width of what is taken as it is read together; tolerances below it ask for less."""
MOST_QUESTIONS: Final = 4_096


def curves_of(requests: Sequence[BoundsRequest | None]) -> list[TradeOffPair | None]:
    """The curves of requests that lines serve, which know what the questions read where that could be read together;
    None of others, and where there are none to be had: who asks again is told why.
    """
    curves = [None if request is None else _curves(request) for request in requests]
    wanted: dict[int, Wanted] = {}
    narrow = NARROW
    for index, (request, pair) in enumerate(zip(requests, curves, strict=True)):
        run = None if pair is None else run_of(pair.add)
        if request is not None and run is not None:
            questions: tuple[Any, ...] = request.questions  # frozen, which their type does not say
            readings = (reading for question in questions for reading in _readings(question))
            wanted[index] = Wanted(run, tuple(dict.fromkeys(readings)))
            narrow = min(narrow, request.relative_tolerance)
    if len(wanted) > 1:
        read_ahead(wanted.values(), narrow)
    return [_knowing(pair, wanted.get(index)) for index, pair in enumerate(curves)]


def _curves(request: BoundsRequest) -> TradeOffPair | None:
    if request.threat_model.type != "worst_case":
        return None
    try:
        plan = plan_of(request)
        return plan.curves if plan.engine == CONTOUR else None
    except PrivacyComputationError:
        return None


def _knowing(pair: TradeOffPair | None, read: Wanted | None) -> TradeOffPair | None:
    if pair is None or read is None or not read.known:
        return pair
    add = ReadAhead(pair.add, read.known, reflected=False)
    return replace(pair, add=add, remove=ReadAhead(pair.remove, read.known, reflected=True))


@lru_cache(maxsize=MOST_QUESTIONS)
def _readings(question: QuestionSpec) -> tuple[Known, ...]:
    return asked_of(lambda curves: said(curves, question, 1.0))
