"""How many deletion requests a model can absorb before it has to be retrained."""

from __future__ import annotations

import math
import sys

from service.privacy.enclosure import Enclosure, Evidence
from service.privacy.errors import OutOfDomain
from service.privacy.numerics.rounding import UNIT_ROUNDOFF
from service.privacy.questions.membership import smallest_log_npv
from service.privacy.questions.reading import Reading
from service.privacy.trade_off.abstract import AbstractTradeOff

SOURCE = (
    "Thudi et al. 2022, section 6, with the right lower bound L = 1/(1 + e^{+eps} p/(1 - p)) (printed with e^{-eps})"
)


def deletion_capacity(curve: AbstractTradeOff, prior: float, confidence: float) -> Reading:
    """floor(ln B / ln L): how many records can be said, with probability B together, not to have been used.

    L is the smallest probability that a record was not used, whatever the output. An integer, infinite where L = 1 or B
    = 0, 0 where L = 0; when rounding leaves the floor open, both integers are the ends and the lower one is safe.
    """
    for name, value in (("prior", prior), ("confidence", confidence)):
        if not 0 <= value <= 1:
            raise OutOfDomain(name, value, "in [0, 1]")
    if prior == 0 or confidence == 0:
        return Reading(Enclosure.point(math.inf), "lower", SOURCE)
    if prior == 1:
        return Reading(Enclosure.point(0.0), "lower", SOURCE, ("A record that is certainly in leaves no doubt.",))
    log_l = smallest_log_npv(curve, prior)
    if log_l.upper == -math.inf:
        note = "No positive lower bound L exists: the likelihood ratio of this curve is unbounded."
        return Reading(Enclosure.point(0.0), "lower", SOURCE, (note,))
    needed = abs(math.log(confidence))
    low = min(_floor_ratio(needed * (1 - 4 * UNIT_ROUNDOFF), -log_l.lower, -1), sys.float_info.max)
    high = _floor_ratio(needed * (1 + 4 * UNIT_ROUNDOFF), -log_l.upper, 1)
    return Reading(Enclosure(low, high, Evidence.EXACT if low == high else log_l.evidence), "lower", SOURCE)


def _floor_ratio(numerator: float, denominator: float, side: int) -> float:
    if denominator == 0:
        return math.inf
    ratio = numerator / denominator * (1 + side * 4 * UNIT_ROUNDOFF)
    return float(math.floor(ratio)) if math.isfinite(ratio) else ratio
