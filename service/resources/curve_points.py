"""Points of trade-off curves, where the power of a weaker attacker is at most that of the worst case.

Each point is evaluated once.
"""

from __future__ import annotations

import math
from typing import Literal

import numpy as np

from service.privacy.enclosure import EnclosureArray
from service.privacy.numerics.arrays import FloatArray
from service.privacy.numerics.rounding import UNIT_ROUNDOFF
from service.privacy.numerics.work import compute_once
from service.privacy.questions.capping import capped_points
from service.privacy.trade_off.abstract import AbstractTradeOff, CurvePoints
from service.privacy.trade_off.pair import TradeOffPair
from service.resources.deadlines import is_too_late


def points_of(curves: TradeOffPair, direction: Literal["add", "remove", "both"], rates: FloatArray) -> CurvePoints:
    """Return type II error and power of the trade-off curve of `direction` at the false positive rates `rates`.

    When the time of the request is over, each point is enclosed only between guessing and an attacker without errors.
    Raises PrivacyComputationError.
    """
    if curves.origin is None:
        return _points(curves, direction, rates)
    key = (curves.origin, direction, rates.tobytes())
    return compute_once(key, lambda: _points(curves, direction, rates))


def _points(curves: TradeOffPair, direction: Literal["add", "remove", "both"], rates: FloatArray) -> CurvePoints:
    curve: AbstractTradeOff = getattr(curves, direction)
    if curve.evidence.is_certain and is_too_late(has_answer=False):
        return _points_without_evaluation(rates)
    worst = curves.worst_case
    if worst is None or not curve.evidence.is_certain:
        return curve.points(rates)
    bound: AbstractTradeOff = getattr(worst, direction)
    if not bound.evidence.is_certain:
        return curve.points(rates)
    most = points_of(worst, direction, rates)
    return capped_points(curve.points(rates), most)


def _points_without_evaluation(rates: FloatArray) -> CurvePoints:
    # between the points of guessing and those of an attacker without errors
    nothing, anything = np.zeros_like(rates), np.full_like(rates, math.inf)
    return CurvePoints(
        EnclosureArray(nothing, np.minimum(1 - rates + UNIT_ROUNDOFF, 1.0)),
        EnclosureArray(rates, nothing + 1),
        EnclosureArray(-anything, anything),
    )
