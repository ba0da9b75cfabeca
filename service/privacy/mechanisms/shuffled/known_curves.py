"""Trade-off curves of pairs of laws of shuffled reports, and laws of listed losses for compositions."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Final

from service.privacy.trade_off.abstract import AbstractTradeOff
from service.privacy.trade_off.atomic_law import AtomicLaw
from service.privacy.trade_off.atoms import AtomsTradeOff
from service.privacy.trade_off.pair import TradeOffPair
from service.privacy.trade_off.shuffled.curves import MeanCurve, OnesCurve, WorstCurve
from service.privacy.trade_off.shuffled.data_sets import LEAST_MASS
from service.privacy.trade_off.shuffled.mean_atoms import MOST_OUTCOMES, listed_mean, listed_rare, rare_reports
from service.privacy.trade_off.shuffled.mean_form import MeanForm, exponential
from service.privacy.trade_off.shuffled.ones import Ones
from service.privacy.trade_off.shuffled.profile_curve import ProfileCurve

MOST_ONES: Final = 1_000
"""Largest number of binary reports whose numbers of ones are listed."""
MOST_ROUNDING: Final = 1e4
"""Largest n^1.5/eps0 for which the profile of listed ones has 9 digits. Losses are differences of logarithms."""
MOST_ROUNDING_OF_COUNTS: Final = 1e8
"""Largest n^1.5/(r - 1) for which few outcomes are listed, where r is the largest likelihood ratio, with 4 digits."""
COUNTED: Final = "The law of the counts of shuffled randomised responses (exact)"


@lru_cache(maxsize=32)
def curve_of(form: MeanForm) -> AbstractTradeOff:
    """Return the trade-off curve of a pair of laws of shuffled reports, given as counts of reports in categories.

    Its outcomes are listed if they are few and tell more apart than roundings. Otherwise a contour integral gives the
    curve.
    """
    if form.outcomes <= MOST_OUTCOMES:
        is_apart = form.reports**1.5 <= MOST_ROUNDING_OF_COUNTS * min(float(form.largest_ratio - 1), 1.0)
        return AtomsTradeOff(listed_mean(form)) if is_apart else MeanCurve(form)
    rare = rare_reports(form)
    return MeanCurve(form) if rare is None else AtomsTradeOff(listed_rare(form, rare))


@lru_cache(maxsize=32)
def ones_curve(reports: int, others: int, epsilon: float) -> AbstractTradeOff:
    """Return the trade-off curve of shuffled binary responses, for a person's own bit 1 under H1 and 0 under H0.

    `others` of the other persons hold 1. There are `reports` reports, each epsilon-DP.
    """
    ones = Ones(reports, others, exponential(epsilon))
    if _can_list(ones, epsilon) and reports**1.5 <= MOST_ROUNDING * epsilon:
        return AtomsTradeOff(ones.listed())
    return OnesCurve(ones)


def _can_list(ones: Ones, epsilon: float) -> bool:
    return ones.reports <= MOST_ONES and ones.reports * (epsilon + 0.7) <= LEAST_MASS


def worst_pair(curves: tuple[AbstractTradeOff, ...]) -> TradeOffPair:
    """Return the worst case of the `curves` of several attained pairs of laws: one curve for both directions."""
    worst = WorstCurve(curves)
    return TradeOffPair(worst, worst, COUNTED)


def dominating_law(curve: AbstractTradeOff) -> AtomicLaw | None:
    """Return a law of listed losses that is at least as easy to attack as a curve; None if no list is known."""
    return _listed(curve, 1)


def attained_law(curve: AbstractTradeOff) -> AtomicLaw | None:
    """Return a law of listed losses that is at most as easy to attack as a curve; None if no list is known."""
    return _listed(curve, -1)


def _listed(curve: AbstractTradeOff, side: int) -> AtomicLaw | None:
    if isinstance(curve, AtomsTradeOff):
        return curve.law
    if isinstance(curve, OnesCurve) and _can_list(curve.ones, math.log(curve.ones.ratio)):
        return curve.ones.listed()
    # A table is for many losses: lattices serve few ones better.
    return curve.listed_law(side) if isinstance(curve, ProfileCurve) and not curve.is_listed else None
