"""Runs of many points read together, before each point is answered as it is alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any, Final

from api_schemas.bounds import BoundsRequest
from api_schemas.questions import QuestionSpec
from service.computations.answers import said
from service.computations.bounds import Setting, setting_of
from service.privacy.composition.contour.asked import asked_of
from service.privacy.composition.contour.many import Wanted, read_ahead, run_of
from service.privacy.composition.lines import CONTOUR
from service.privacy.errors import PrivacyComputationError
from service.privacy.trade_off.combinators.read_ahead import Known, ReadAhead

NARROW: Final = 1e-7
"""Relative width of what is taken as it is read together; tolerances below it ask for less."""
MOST_QUESTIONS: Final = 4_096


def settings_of(requests: Sequence[BoundsRequest | None]) -> list[Setting | None]:
    """The settings of requests that lines serve, whose curves know what the questions read where that could be read
    together; None of others, and where there are none to be had: who asks again is told why.
    """
    settings = [None if request is None else _setting(request) for request in requests]
    wanted: dict[int, Wanted] = {}
    narrow = NARROW
    for index, (request, setting) in enumerate(zip(requests, settings, strict=True)):
        run = None if setting is None else run_of(setting.main.curves.add)
        if request is not None and run is not None:
            questions: tuple[Any, ...] = request.questions  # frozen, which their type does not say
            readings = (reading for question in questions for reading in _readings(question))
            wanted[index] = Wanted(run, tuple(dict.fromkeys(readings)))
            narrow = min(narrow, request.relative_tolerance)
    if len(wanted) > 1:
        read_ahead(wanted.values(), narrow)
    return [_knowing(setting, wanted.get(index)) for index, setting in enumerate(settings)]


def _setting(request: BoundsRequest) -> Setting | None:
    if request.threat_model.type != "worst_case":
        return None
    try:
        setting = setting_of(request)
        if setting.main.engine == CONTOUR:
            _ = setting.main.curves  # making them may say what only the engine knows
            return setting
    except PrivacyComputationError:
        pass
    return None


def _knowing(setting: Setting | None, read: Wanted | None) -> Setting | None:
    if setting is None or read is None or not read.known:
        return setting
    pair = setting.main.curves
    add = ReadAhead(pair.add, read.known, reflected=False)
    known = replace(pair, add=add, remove=ReadAhead(pair.remove, read.known, reflected=True))
    return replace(setting, main=replace(setting.main, build=lambda: known))


@lru_cache(maxsize=MOST_QUESTIONS)
def _readings(question: QuestionSpec) -> tuple[Known, ...]:
    return asked_of(lambda curves: said(curves, question, 1.0))
