"""Answers for a weaker attacker, capped by the answers of the worst case that bounds this attacker.

At every rate the weaker attacker has at most the power of the worst case. The same order holds for every question whose
answer rises with the power. The two answers come from different searches with their own rounding and work limits. So
the wider enclosure may extend beyond the narrower one. A cap moves the safe bound only to what the worst case proves.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import numpy as np

from service.privacy.enclosure import Enclosure, EnclosureArray, Evidence
from service.privacy.questions.reading import SafeEnd
from service.privacy.trade_off.abstract import CurvePoints
from service.privacy.trade_off.enclosed.logs import log_ends, log_number

SMALLEST_NORMAL: Final = 1e-290
"""Numbers below this are compared by their logarithms."""


def capped(own: Enclosure, worst: Enclosure, safe_end: SafeEnd) -> Enclosure:
    """Return `own` with the bound `safe_end` replaced by that of `worst` where the latter states more privacy.

    Parameters
    ----------
    own, worst : Enclosure
        Answers to one question for the weaker attacker, and for the worst case.
    safe_end : {"upper", "lower"}
        The bound that never overstates privacy: "upper" where the answer rises with the power of an attack, "lower"
        where it falls.

    Returns
    -------
    Enclosure
        `own` itself if the worst case proves no better bound, or if one of the two enclosures is not a proof.
    """
    if not (own.evidence.is_certain and worst.evidence.is_certain):
        return own
    (low, high), (_, most) = _logs(own), _logs(worst)
    evidence = Evidence.weakest(own.evidence, worst.evidence)
    if safe_end == "lower":
        if own.lower >= worst.lower:
            return own
        least = _logs(worst)[0]
        return Enclosure(worst.lower, max(own.upper, worst.lower), evidence, least, max(high, least))
    if own.upper <= worst.upper and (own.upper >= SMALLEST_NORMAL or high <= most):
        return own
    upper = min(own.upper, worst.upper)
    return Enclosure(min(own.lower, upper), upper, evidence, min(low, high, most), min(high, most))


def capped_points(own: CurvePoints, worst: CurvePoints) -> CurvePoints:
    """Return the points of a weaker attacker, capped by those of the worst case.

    Parameters
    ----------
    own, worst : CurvePoints
        Points of the weaker attacker and of the worst case, at the same false positive rates.

    Returns
    -------
    CurvePoints
        `own` with powers no larger, and type II errors no smaller, than those of `worst`.
    """
    power, error = _no_larger(own.power, worst.power), _no_smaller(own.type_two_error, worst.type_two_error)
    return replace(own, power=power, type_two_error=error)


def _no_larger(own: EnclosureArray, worst: EnclosureArray) -> EnclosureArray:
    (low, high), most = log_ends(own), log_ends(worst)[1]
    upper, log_upper = np.minimum(own.upper, worst.upper), np.minimum(high, most)
    return EnclosureArray(np.minimum(own.lower, upper), upper, np.minimum(low, log_upper), log_upper)


def _no_smaller(own: EnclosureArray, worst: EnclosureArray) -> EnclosureArray:
    (low, high), least = log_ends(own), log_ends(worst)[0]
    lower, log_lower = np.maximum(own.lower, worst.lower), np.maximum(low, least)
    return EnclosureArray(lower, np.maximum(own.upper, lower), log_lower, np.maximum(high, log_lower))


def _logs(number: Enclosure) -> tuple[float, float]:
    low, high = number.log_lower, number.log_upper
    return log_number(number.lower) if low is None else low, log_number(number.upper) if high is None else high
