"""Gaussian differential privacy as a summary: the mu of the Gaussian curve that lies below a given one.

The supremum of Phi^-1(power) - Phi^-1(alpha) over the part of a curve where alpha >= a_min and beta >= b_min: by
tangents of the curve (`gdp_tangents.py`) or, of curves whose points cost little, by its points (`gdp_cells.py`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
from scipy import special

from service.privacy.enclosure import Enclosure, EnclosureArray, Evidence
from service.privacy.errors import OutOfDomain
from service.privacy.numerics.rounding import UNIT_ROUNDOFF
from service.privacy.questions.empty_range import NOTHING_IN_RANGE, RANGE_MAY_BE_EMPTY
from service.privacy.questions.gdp_cells import CellSearch, Half
from service.privacy.questions.gdp_tangents import STRONGEST, tangent_bounds
from service.privacy.questions.normal_points import CLOSE, SMALLEST_RATE, normal_points
from service.privacy.questions.reading import Reading
from service.privacy.trade_off.abstract import AbstractTradeOff
from service.privacy.trade_off.approximate_dp import ApproximateDpTradeOff
from service.privacy.trade_off.combinators.bracketed import Bracketed
from service.privacy.trade_off.combinators.symmetrised import Symmetrised
from service.privacy.trade_off.delegating import MemoisedCurve
from service.privacy.trade_off.enclosed.ulps import LOG_QUANTILE_ERROR

SOURCE = "Dong, Roth, Su 2022, Definition 2.6; smallest mu over the stated range"
PROVED_FROM = 1e-12
"""Rates from which on mu is looked for where nothing but a limit bounds it over the whole curve."""


@dataclass(frozen=True, slots=True)
class GdpReading(Reading):
    """`value`: mu over the range asked for. `global_mu`: mu over the whole curve."""

    global_mu: Enclosure = field(kw_only=True)


def mu(curve: AbstractTradeOff, false_positive_rate_min: float, type_two_error_min: float) -> GdpReading:
    """Smallest mu >= 0 with f >= g_mu wherever alpha >= false_positive_rate_min and f(alpha) >= type_two_error_min
    (both in [0, 1]).

    Relative width at most 1e-8 where mu >= 1e-6, on single steps, sampled ones and a run of 300 (tested over three
    ranges). mu is 0, with a note, where nothing of the curve is in its range. Raises OutOfDomain outside [0, 1].
    """
    for name, value in (
        ("false_positive_rate_min", false_positive_rate_min),
        ("type_two_error_min", type_two_error_min),
    ):
        if not 0 <= value <= 1:
            raise OutOfDomain(name, value, "in [0, 1]")
    if isinstance(curve, Bracketed):
        return _between(curve, false_positive_rate_min, type_two_error_min)
    if isinstance(curve, Symmetrised) and curve.evidence.is_certain:
        both = _of_both(curve, false_positive_rate_min, type_two_error_min)
        if both is not None:
            return both
    if false_positive_rate_min == type_two_error_min == 0:
        whole = _global(curve)
        return GdpReading(whole, "upper", SOURCE, global_mu=whole)
    cap = _cap_alone(curve) if curve.global_gdp_mu is None else None
    if cap is not None:
        ranged = over_range(curve, false_positive_rate_min, type_two_error_min, cap)
        whole = Enclosure(_proved(curve, false_positive_rate_min, ranged), cap, curve.evidence)
    else:
        whole = _global(curve)
        ranged = over_range(curve, false_positive_rate_min, type_two_error_min, whole.upper)
    notes = (NOTHING_IN_RANGE,) if ranged.upper == 0 < whole.lower else ()
    return GdpReading(ranged, "upper", SOURCE, notes, global_mu=whole)


def _of_both(curve: Symmetrised, rate_min: float, error_min: float) -> GdpReading | None:
    """mu of the hull of a curve f and its inverse; None where its range may be empty.

    The hull consists of pieces of both and of lines, along which mu has no inner maximum (`gdp_tangents.py`): over its
    range mu is the largest of those of f, of its inverse, and of the hull's points at both ends, none of which exceeds
    it: where the range of f goes on beyond that of the hull, the hull has reached error_min at a smaller rate.
    """
    if not SMALLEST_RATE <= min(rate_min, error_min) <= max(rate_min, error_min) < 1:
        return None
    first = MemoisedCurve(curve.first, curve.second)
    hull, firsts = Symmetrised(first, first.reversed()), np.array(list(dict.fromkeys((rate_min, error_min))))
    powers = [hull.power_at(each) for each in firsts.tolist()]
    lower, upper = (np.array([getattr(each, end) for each in powers]) for end in ("lower", "upper"))
    if lower[0] > 1 - error_min:
        # The curve falls below error_min before the range begins, where mu is at least this.
        least = (float(special.ndtri(1 - error_min)) - float(special.ndtri(rate_min))) * (1 - CLOSE)
        whole = curve.global_gdp_mu or Enclosure(max(least, 0.0), first.global_gdp_mu_limit, curve.evidence)
        return GdpReading(Enclosure.point(0.0), "upper", SOURCE, (NOTHING_IN_RANGE,), global_mu=whole)
    if upper.max() >= STRONGEST or 1 - upper[0] <= error_min:
        return None
    rest = EnclosureArray(1 - upper - UNIT_ROUNDOFF, 1 - lower + UNIT_ROUNDOFF)
    at_ends = normal_points(firsts, EnclosureArray(lower, upper), rest).mu
    directions = (first,) if rate_min == error_min else (first, first.reversed())
    found = [mu(each, rate_min, error_min) for each in directions]
    lower = max(*(each.value.lower for each in found), float(at_ends.lower.max()), 0.0)
    upper = max(*(each.value.upper for each in found), float(at_ends.upper.max()), 0.0)
    whole = found[0].global_mu  # g_mu is below f exactly when it is below its inverse
    value = Enclosure(lower, max(min(upper, whole.upper), lower), curve.evidence)
    return GdpReading(value, "upper", SOURCE, (), global_mu=whole)


def _between(curve: Bracketed, rate_min: float, error_min: float) -> GdpReading:
    """mu of a curve f known from two sides, by the mu of each side.

    Over the whole curve mu rises with the power. Over a range it does where the range of the easier side g is not
    empty: g reaches error_min at a smaller rate than f, with a mu that is at least that of f from there on. If it may
    be empty, so may that of f, and no point of any range has more than Phi^-1(1 - error_min) - Phi^-1(rate_min).
    """
    least, most = (mu(side, rate_min, error_min) for side in (curve.attained, curve.dominating))
    whole = Enclosure(least.global_mu.lower, most.global_mu.upper, curve.evidence)
    start = max(rate_min, SMALLEST_RATE)
    if float(curve.dominating.type_two_error(np.array([start])).lower[0]) >= error_min:
        ranged = Enclosure(least.value.lower, most.value.upper, curve.evidence)
    else:
        ranged = Enclosure(0.0, min(_corner(start, max(error_min, SMALLEST_RATE)), whole.upper), curve.evidence)
    notes = tuple(note for note in most.notes if note != NOTHING_IN_RANGE)
    if most.notes != notes:  # nothing is of the easier side: of the harder one something may be
        notes += (NOTHING_IN_RANGE if ranged.upper == 0 else RANGE_MAY_BE_EMPTY,)
    return GdpReading(ranged, "upper", SOURCE, notes, global_mu=whole)


def _global(curve: AbstractTradeOff) -> Enclosure:
    known = curve.global_gdp_mu
    if known is not None:
        return known
    alone = _cap_alone(curve)
    if alone is not None:
        inner = over_range(curve, PROVED_FROM, PROVED_FROM, alone)
        return Enclosure(_proved(curve, PROVED_FROM, inner), alone, curve.evidence)
    strongest = _strongest(curve)
    cap = _cap(curve)
    # Below a rate a the power is at most e^L alpha, and Phi^-1(e^L alpha) - Phi^-1(alpha) rises with alpha: both ends
    # of the curve are bounded by what they reach at a.
    edge = max(1e-9 * math.exp(-strongest), SMALLEST_RATE)
    inner = over_range(curve, edge, edge, cap)
    return Enclosure(inner.lower, min(max(inner.upper, _end_bound(strongest, edge)), cap), curve.evidence)


def _cap_alone(curve: AbstractTradeOff) -> float | None:
    """What bounds mu over the whole curve where no search can bound it better: ratios e^L are unbounded, or so large
    that they reach from the smallest rate to 1.
    """
    if math.isinf(_strongest(curve)) or curve.singular_power.upper > 0:
        return curve.global_gdp_mu_limit
    return _cap(curve) if math.isinf(_end_bound(_strongest(curve), SMALLEST_RATE)) else None


def _cap(curve: AbstractTradeOff) -> float:
    """Every curve with |L| <= eps lies above that of eps-DP."""
    return min(ApproximateDpTradeOff(_strongest(curve), 0.0).global_gdp_mu.upper, curve.global_gdp_mu_limit)


def _proved(curve: AbstractTradeOff, rate_min: float, ranged: Enclosure) -> float:
    """Lower end of mu over the whole curve: that of a range, or of the first point where the range is empty."""
    if ranged.upper > 0 or not SMALLEST_RATE <= rate_min < 1:
        return ranged.lower
    rates = np.array([rate_min])
    points = curve.points(rates)
    return max(float(normal_points(rates, points.power, points.type_two_error).mu.lower[0]), 0.0)


def _strongest(curve: AbstractTradeOff) -> float:
    return max(curve.largest_log_ratio.upper, -curve.smallest_log_ratio.lower)


def _end_bound(log_ratio: float, edge: float) -> float:
    log_power = log_ratio + math.log(edge)
    if log_power >= 0:
        return math.inf
    x = float(special.ndtri(edge))
    return float(special.ndtri_exp(log_power)) - x + 3 * LOG_QUANTILE_ERROR * abs(x)


def _corner(rate_min: float, error_min: float) -> float:
    """Return Phi^-1(1 - error_min) - Phi^-1(rate_min), which no point of the range exceeds, both above 0."""
    corner = -float(special.ndtri(error_min)) - float(special.ndtri(rate_min))
    return max(corner * (1 + CLOSE), 0.0)


def over_range(curve: AbstractTradeOff, rate_min: float, error_min: float, limit: float) -> Enclosure:
    """The supremum over the range; `limit` is known to bound it."""
    cut_short = min(rate_min, error_min) < SMALLEST_RATE
    limit = limit if cut_short else min(limit, _corner(rate_min, error_min))
    if cut_short and curve.evidence is Evidence.CERTIFIED:
        # The upper end is the limit, and points where doubles end are dear.
        inner = over_range(curve, max(rate_min, PROVED_FROM), max(error_min, PROVED_FROM), limit)
        return Enclosure(inner.lower, limit, curve.evidence)
    searched = curve.searches_points and curve.evidence.is_certain
    if (searched or curve.evidence is Evidence.CERTIFIED) and min(rate_min, error_min) >= SMALLEST_RATE:
        ends = tangent_bounds(curve, rate_min, error_min, limit)
        if ends is not None:
            return Enclosure(*ends, curve.evidence)
    inverse = curve.reversed()
    start, end = max(rate_min, SMALLEST_RATE), max(error_min, SMALLEST_RATE)
    # f falls: the range ends where f = error_min. Its outer end bounds from above, its inner end may be claimed from
    # below.
    last, middle, at_start = (
        read.type_two_error(np.array([rate])) for read, rate in ((inverse, end), (curve, 0.5), (curve, start))
    )
    if float(last.upper[0]) < rate_min or max(rate_min, error_min) == 1:
        return Enclosure.point(0.0)
    halves = (
        Half(curve, start, min(0.5, float(last.upper[0])), float(last.lower[0])),
        Half(
            inverse,
            end,
            min(float(middle.upper[0]), float(at_start.upper[0])),
            min(float(middle.lower[0]), float(at_start.lower[0])),
        ),
    )
    search = CellSearch(limit)
    for half in halves:
        if half.first <= half.last:
            search.run(half)
    upper = limit if cut_short else min(max(search.settled, search.best), limit)
    return Enclosure(min(search.best, upper), upper, curve.evidence)
