"""Guarantees for records whose deletion is requested, without training again."""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass
from typing import Final, Literal

from service.privacy.enclosure import SMALLEST, Enclosure, Evidence
from service.privacy.numerics.rounding import UNIT_ROUNDOFF
from service.privacy.questions.membership import largest_log_ratio, negative_predictive_value, unbounded
from service.privacy.questions.reading import Reading, check_probabilities
from service.privacy.trade_off.abstract import AbstractTradeOff

SOURCE: Final = (
    "Thudi et al. 2022, section 6, with the right lower bound L = 1/(1 + e^{+eps} p/(1 - p)) (printed with e^{-eps}: "
    "/errata#thudi-capacity)"
)
GUARANTEE: Final = "Thudi et al. 2022, Definition 2 (B-MI unlearning guarantee) by Corollary 1, for any trade-off curve"
NO_BOUND: Final = (
    "No positive lower bound L exists, because the likelihood ratio of this curve is unbounded. "
    "The capacity is 0 at every confidence. Send negative_predictive_value with a "
    "false_positive_rate for the success of an attack with typical outputs."
)
Held = Literal["yes", "no", "unknown"]


@dataclass(frozen=True, slots=True)
class UnlearningGuarantee:
    """Answer of whether a record counts as unlearnt, from the smallest probability that it was not used.

    `reading` encloses this probability. `holds` states whether it reaches the required confidence.
    """

    reading: Reading
    holds: Held


def unlearning_guarantee(curve: AbstractTradeOff, prior: float, confidence: float) -> UnlearningGuarantee:
    """Return whether a record is B-MI unlearnt without any change: P(not a member | release) >= B for every release.

    Parameters
    ----------
    curve : AbstractTradeOff
        Trade-off curve of the release.
    prior : float
        Probability that the record was used, in [0, 1].
    confidence : float
        The required probability B, in [0, 1].

    Returns
    -------
    UnlearningGuarantee
        The reading is the smallest negative predictive value, 1/(1 + e^L p/(1 - p)), at the largest log-likelihood
        ratio L of the curve. The lower bound never overstates privacy. `holds` is "unknown" if B lies inside the
        enclosure or the evidence is asymptotic.

    Raises
    ------
    OutOfDomain
        If the prior or the confidence is outside [0, 1].

    Notes
    -----
    The accuracy is that of `negative_predictive_value`.
    """
    check_probabilities(prior=prior, confidence=confidence)
    smallest = negative_predictive_value(curve, prior, side="at_least").value
    holds: Held = "unknown"
    if smallest.evidence is not Evidence.ASYMPTOTIC and curve.evidence is not Evidence.ASYMPTOTIC:
        if smallest.lower >= confidence:
            holds = "yes"
        elif smallest.upper < confidence:
            holds = "no"
    notes = () if prior in (0.0, 1.0) else unbounded(largest_log_ratio(curve), "0", "negative_predictive_value")
    return UnlearningGuarantee(Reading(smallest, "lower", GUARANTEE, notes), holds)


def deletion_capacity(curve: AbstractTradeOff, prior: float, confidence: float) -> Reading:
    """Return floor(ln B / ln L), the number of records that together were not used with probability at least B.

    Parameters
    ----------
    curve : AbstractTradeOff
        Trade-off curve of the release.
    prior : float
        Probability that a record was used, in [0, 1].
    confidence : float
        The required probability B, in [0, 1].

    Returns
    -------
    Reading
        An integer: infinite where L = 1 or B = 0, and 0 where L = 0. If rounding leaves the floor open, the enclosure
        has both integers as bounds. The lower bound never overstates privacy.

    Raises
    ------
    OutOfDomain
        If the prior or the confidence is outside [0, 1].

    Notes
    -----
    L is the smallest probability that a record was not used, over all outputs. For pure DP up to epsilon 1e6 the two
    integers differ by at most 3e-8 of their value and 1 (tested against 700 digits).
    """
    check_probabilities(prior=prior, confidence=confidence)
    if prior == 0 or confidence == 0:
        return Reading(Enclosure.point(math.inf), "lower", SOURCE)
    if prior == 1:
        return Reading(
            Enclosure.point(0.0), "lower", SOURCE, ("A record that is in the data with certainty leaves no doubt.",)
        )
    smallest = negative_predictive_value(curve, prior, side="at_least").value
    log_lower, log_upper = _logarithms(smallest)
    if log_upper == -math.inf:
        return Reading(Enclosure.point(0.0), "lower", SOURCE, (NO_BOUND,))
    needed = abs(math.log(confidence))
    low = min(_floor_ratio(needed * (1 - 4 * UNIT_ROUNDOFF), -log_lower, -1), sys.float_info.max)
    high = _floor_ratio(needed * (1 + 4 * UNIT_ROUNDOFF), -log_upper, 1)
    return Reading(Enclosure(low, high, Evidence.EXACT if low == high else smallest.evidence), "lower", SOURCE)


def _logarithms(value: Enclosure) -> tuple[float, float]:
    """Return (lower, upper) bounds of ln of the enclosed probability `value`, moved outwards by the smallest double."""
    if value.log_lower is None or value.log_upper is None:
        return -math.inf, 0.0
    return value.log_lower - SMALLEST, min(value.log_upper + SMALLEST, 0.0)


def _floor_ratio(numerator: float, denominator: float, side: int) -> float:
    if denominator == 0:
        return math.inf
    ratio = numerator / denominator * (1 + side * 4 * UNIT_ROUNDOFF)
    return float(math.floor(ratio)) if math.isfinite(ratio) else ratio
