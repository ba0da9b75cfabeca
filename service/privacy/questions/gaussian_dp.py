"""Gaussian differential privacy as a summary: the mu of the largest Gaussian curve below a given curve.

mu is the supremum of Phi^-1(power) - Phi^-1(alpha) over the part of a curve where alpha >= a_min and beta >= b_min. Two
methods compute it: tangents of the curve (`gdp_tangents.py`), or points of the curve where points are inexpensive
(`gdp_cells.py`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np
from scipy import special

from service.privacy.enclosure import Enclosure, EnclosureArray, Evidence
from service.privacy.errors import OutOfDomain
from service.privacy.numerics.rounding import UNIT_ROUNDOFF
from service.privacy.questions.empty_range import NOTHING_IN_RANGE, RANGE_MAY_BE_EMPTY
from service.privacy.questions.gdp_cells import CellSearch, Half
from service.privacy.questions.gdp_lists import ListSearch, strongest_parts
from service.privacy.questions.gdp_tangents import STRONGEST, Bounds, tangent_bounds
from service.privacy.questions.normal_points import CLOSE, SMALLEST_RATE, normal_points
from service.privacy.questions.reading import Reading
from service.privacy.trade_off.abstract import AbstractTradeOff
from service.privacy.trade_off.approximate_dp import ApproximateDpTradeOff
from service.privacy.trade_off.combinators.bracketed import Bracketed
from service.privacy.trade_off.combinators.easiest import EasiestOf
from service.privacy.trade_off.combinators.symmetrised import Symmetrised
from service.privacy.trade_off.delegating import MemoisedCurve
from service.privacy.trade_off.enclosed.ulps import LOG_QUANTILE_ERROR
from service.privacy.trade_off.shifted.gaussian import GaussianTradeOff

SOURCE = "Dong, Roth, Su 2022, Definition 2.6; smallest mu over the stated range of error rates"
PROVED_FROM = 1e-12
"""Smallest rates of the search if only a limit bounds mu over the whole curve."""


@dataclass(frozen=True, slots=True)
class GdpReading(Reading):
    """Answer with mu over the requested range (`value`) and over the whole curve (`global_mu`).

    The *mu* of Gaussian DP is the supremum of Phi^-1(power) - Phi^-1(false positive rate) over the points of the curve.
    """

    global_mu: Enclosure = field(kw_only=True)


@dataclass(frozen=True, slots=True)
class Needed:
    """Bounds of mu that are needed, and the searches of curves whose profiles are evaluated in lists."""

    lower: bool = True
    upper: bool = True
    lists: tuple[ListSearch, ...] = ()


BOTH: Final = Needed()


def mu(
    curve: AbstractTradeOff,
    false_positive_rate_min: float,
    type_two_error_min: float,
    *,
    lower: bool = True,
    upper: bool = True,
) -> GdpReading:
    """Return the smallest mu >= 0 whose Gaussian curve g_mu lies below a curve f over a range of error rates.

    Parameters
    ----------
    curve : AbstractTradeOff
        The curve f.
    false_positive_rate_min, type_two_error_min : float
        The range consists of the points with alpha and f(alpha) at least these numbers, both in [0, 1].
    lower, upper : bool
        Which bounds are needed. A bound that is not needed is valid, and may be far.

    Returns
    -------
    GdpReading
        mu over the range and over the whole curve. The upper bounds never overstate privacy. If no point of the curve
        is in the range, mu is 0 with a note.

    Raises
    ------
    OutOfDomain
        If an argument is outside [0, 1].

    Notes
    -----
    The relative width is at most 1e-8 where mu >= 1e-6, for single steps, sampled steps and a run of 300 steps (tested
    over three ranges).
    """
    for name, value in (
        ("false_positive_rate_min", false_positive_rate_min),
        ("type_two_error_min", type_two_error_min),
    ):
        if not 0 <= value <= 1:
            raise OutOfDomain(name, value, "in [0, 1]")
    needed = Needed(lower, upper)
    if isinstance(curve, Bracketed):
        return _between(curve, false_positive_rate_min, type_two_error_min)
    if isinstance(curve, EasiestOf):
        return _of_the_easiest(curve, false_positive_rate_min, type_two_error_min, needed)
    if isinstance(curve, Symmetrised) and curve.evidence.is_certain:
        both = _of_both(curve, false_positive_rate_min, type_two_error_min, needed)
        if both is not None:
            return both
    if false_positive_rate_min == type_two_error_min == 0:
        whole = _global(curve, needed)
        return GdpReading(whole, "upper", SOURCE, global_mu=whole)
    if curve.serves_lists and curve.evidence is Evidence.CERTIFIED:
        is_even = false_positive_rate_min == type_two_error_min
        parts = [curve] if upper else strongest_parts(curve, is_even=is_even)
        needed = replace(needed, lists=tuple(ListSearch(part) for part in parts))
    cap = _cap_alone(curve) if curve.global_gdp_mu is None else None
    if cap is not None:
        ranged = over_range(curve, false_positive_rate_min, type_two_error_min, cap, needed)
        whole = Enclosure(_proved(curve, false_positive_rate_min, ranged), cap, curve.evidence)
    else:
        whole = _global(curve, needed)
        ranged = whole
        attained = curve.global_gdp_mu_error
        outside = attained is None or attained < max(false_positive_rate_min, type_two_error_min)
        if outside and not _is_gaussian_in_range(curve, false_positive_rate_min, type_two_error_min):
            ranged = over_range(curve, false_positive_rate_min, type_two_error_min, whole.upper, needed)
    notes = (NOTHING_IN_RANGE,) if ranged.upper == 0 < whole.lower else ()
    return GdpReading(ranged, "upper", SOURCE, notes, global_mu=whole)


def _is_gaussian_in_range(curve: AbstractTradeOff, rate_min: float, error_min: float) -> bool:
    """Return whether the curve is that of mu-GDP, with a point in the range of error rates.

    The range has the false positive rates of at least `rate_min` whose type II error is at least `error_min`. A curve
    of mu-GDP has one mu at every rate.
    """
    if not isinstance(curve, GaussianTradeOff) or rate_min == 1:
        return False
    start = max(rate_min, SMALLEST_RATE)
    return float(curve.type_two_error(np.array([start])).lower[0]) >= error_min


def _of_the_easiest(curve: EasiestOf, rate_min: float, error_min: float, needed: Needed) -> GdpReading:
    """Return mu of the strongest of several attacks over a range of error rates.

    mu is that of the largest Gaussian trade-off curve below the curve, at false positive rates of at least `rate_min`
    where the type II error is at least `error_min`.
    """
    found = [mu(each, rate_min, error_min, lower=needed.lower, upper=needed.upper) for each in curve.curves]
    best = max(found, key=lambda each: each.value.lower)
    return replace(best, global_mu=max((each.global_mu for each in found), key=lambda each: each.lower))


def _of_both(curve: Symmetrised, rate_min: float, error_min: float, needed: Needed) -> GdpReading | None:
    """Return mu of the convex hull of a curve f and its inverse, for error rates from `rate_min` and `error_min` on.

    None means that the range may be empty. mu is that of the largest Gaussian curve below the hull. The hull consists
    of pieces of both curves and of line segments. Along a segment mu has no inner maximum (`gdp_tangents.py`).
    Therefore mu over the range is the largest of three numbers: mu of f, mu of its inverse, and mu of the hull at both
    ends of the range. None of these numbers exceeds mu of the hull: where the range of f extends beyond that of the
    hull, the hull has reached `error_min` at a smaller rate.
    """
    if not SMALLEST_RATE <= min(rate_min, error_min) <= max(rate_min, error_min) < 1:
        return None
    if 1 - curve.first.profile_at(0.0).lower < min(rate_min, error_min):
        # At some point of the curve both rates together are 1 - delta(0), so the range is empty.
        return _of_nothing(curve, rate_min, error_min)
    first = MemoisedCurve(curve.first, curve.second)
    hull, firsts = Symmetrised(first, first.reversed()), np.array(list(dict.fromkeys((rate_min, error_min))))
    powers = [hull.power_at(each) for each in firsts.tolist()]
    lower, upper = (np.array([getattr(each, end) for each in powers]) for end in ("lower", "upper"))
    if lower[0] > 1 - error_min:
        return _of_nothing(curve, rate_min, error_min)
    if upper.max() >= STRONGEST or 1 - upper[0] <= error_min:
        return None
    rest = EnclosureArray(1 - upper - UNIT_ROUNDOFF, 1 - lower + UNIT_ROUNDOFF)
    at_ends = normal_points(firsts, EnclosureArray(lower, upper), rest).mu
    directions = (first,) if rate_min == error_min else (first, first.reversed())
    found = [mu(each, rate_min, error_min, lower=needed.lower, upper=needed.upper) for each in directions]
    lower = max(*(each.value.lower for each in found), float(at_ends.lower.max()), 0.0)
    upper = max(*(each.value.upper for each in found), float(at_ends.upper.max()), 0.0)
    whole = found[0].global_mu  # g_mu is below f exactly when g_mu is below the inverse of f
    value = Enclosure(lower, max(min(upper, whole.upper), lower), curve.evidence)
    return GdpReading(value, "upper", SOURCE, (), global_mu=whole)


def _of_nothing(curve: Symmetrised, rate_min: float, error_min: float) -> GdpReading:
    """Return mu = 0 for a range of error rates without a point of the curve, and mu over the whole curve.

    mu is that of Gaussian DP. The range has false positive rates of at least `rate_min` and type II errors of at least
    `error_min`, and the curve falls below `error_min` before `rate_min`.
    """
    least = (float(special.ndtri(1 - error_min)) - float(special.ndtri(rate_min))) * (1 - CLOSE)
    whole = curve.global_gdp_mu or Enclosure(max(least, 0.0), curve.first.global_gdp_mu_limit, curve.evidence)
    return GdpReading(Enclosure.point(0.0), "upper", SOURCE, (NOTHING_IN_RANGE,), global_mu=whole)


def _between(curve: Bracketed, rate_min: float, error_min: float) -> GdpReading:
    """Return mu of a curve f over a range of error rates, from the mu of two curves that enclose f.

    mu is that of the largest Gaussian curve below f. Over the whole curve mu rises with the power. Over a range mu also
    rises with the power if the range is not empty for g, the curve with more power. Then g reaches error_min at a
    smaller rate than f, and its mu there is at least that of f from this rate on. If the range of g may be empty, the
    range of f may be empty too. No point of any range has a mu of more than Phi^-1(1 - error_min) - Phi^-1(rate_min).
    """
    start = max(rate_min, SMALLEST_RATE)
    # The searches may spend all allowed work, so that this point is evaluated first.
    some = float(curve.dominating.type_two_error(np.array([start])).lower[0]) >= error_min
    least = mu(curve.attained, rate_min, error_min, upper=False)
    most = mu(curve.dominating, rate_min, error_min, lower=False)
    whole = Enclosure(least.global_mu.lower, most.global_mu.upper, curve.evidence)
    if some:
        ranged = Enclosure(least.value.lower, most.value.upper, curve.evidence)
    else:
        ranged = Enclosure(0.0, min(_corner(start, max(error_min, SMALLEST_RATE)), whole.upper), curve.evidence)
    notes = tuple(note for note in most.notes if note != NOTHING_IN_RANGE)
    if most.notes != notes:  # the range of the easier side is empty, the range of the harder side perhaps not
        notes += (NOTHING_IN_RANGE if ranged.upper == 0 else RANGE_MAY_BE_EMPTY,)
    return GdpReading(ranged, "upper", SOURCE, notes, global_mu=whole)


def _global(curve: AbstractTradeOff, needed: Needed) -> Enclosure:
    known = curve.global_gdp_mu
    if known is not None:
        return known
    alone = _cap_alone(curve)
    if alone is not None:
        inner = over_range(curve, PROVED_FROM, PROVED_FROM, alone, needed)
        return Enclosure(_proved(curve, PROVED_FROM, inner), alone, curve.evidence)
    strongest = _strongest(curve)
    cap = _cap(curve)
    # Below a rate a the power is at most e^L alpha, and Phi^-1(e^L alpha) - Phi^-1(alpha) rises with alpha. So the
    # value at a bounds both tails of the curve.
    edge = max(1e-9 * math.exp(-strongest), SMALLEST_RATE)
    ends = _end_bound(strongest, edge)
    inner = over_range(curve, edge, edge, cap, needed, ends)
    return Enclosure(inner.lower, min(max(inner.upper, ends), cap), curve.evidence)


def _cap_alone(curve: AbstractTradeOff) -> float | None:
    """Return an upper bound of mu over the whole curve if no search can lower it; None if a search may.

    mu is that of the largest Gaussian curve below the curve. A search is useless if the likelihood ratios e^L are
    unbounded, or so large that a slope e^L reaches from the smallest double to 1.
    """
    if math.isinf(_strongest(curve)) or curve.singular_power.upper > 0:
        return curve.global_gdp_mu_limit
    return _cap(curve) if math.isinf(_end_bound(_strongest(curve), SMALLEST_RATE)) else None


def _cap(curve: AbstractTradeOff) -> float:
    """Return an upper bound of mu of a curve whose log-likelihood ratios L are bounded.

    mu is that of Gaussian DP. If |L| <= eps, the curve lies above that of eps-DP, whose mu has a closed form.
    """
    return min(ApproximateDpTradeOff(_strongest(curve), 0.0).global_gdp_mu.upper, curve.global_gdp_mu_limit)


def _proved(curve: AbstractTradeOff, rate_min: float, ranged: Enclosure) -> float:
    """Return a proved lower bound of mu over the whole curve: that over a range, or at the first rate of the range.

    mu is that of the largest Gaussian curve below the curve. `ranged` encloses mu over the range from the false
    positive rate `rate_min` on.
    """
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
    """Return Phi^-1(1 - error_min) - Phi^-1(rate_min), the largest mu that a point can have.

    The range has false positive rates of at least `rate_min` and type II errors of at least `error_min`, both above 0.
    The mu of a point is Phi^-1(power) - Phi^-1(false positive rate).
    """
    corner = -float(special.ndtri(error_min)) - float(special.ndtri(rate_min))
    return max(corner * (1 + CLOSE), 0.0)


def _by_lists(needed: Needed, rate_min: float, error_min: float, limit: float, enough: float) -> Bounds | None:
    """Return bounds of mu over a range by the searches of `needed`, or None if a search by single points has to follow.

    The arguments are those of `over_range`. Each of these searches evaluates many epsilons in one call.
    Several of them are of curves whose largest mu is needed. Then only their lower bounds are needed, and the upper
    bound is that of the first search. No search serves false positive rates or type II errors below 1e-300.
    """
    if min(rate_min, error_min) < SMALLEST_RATE:
        return None
    tried = (
        each.bounds(rate_min, error_min, limit, enough, lower=needed.lower, upper=needed.upper) for each in needed.lists
    )
    found = [ends for ends in tried if ends is not None]
    return (max(ends[0] for ends in found), found[0][1]) if found else None


def over_range(
    curve: AbstractTradeOff,
    rate_min: float,
    error_min: float,
    limit: float,
    needed: Needed = BOTH,
    enough: float = 0.0,
) -> Enclosure:
    """Enclose the largest mu over a range of error rates, given an upper bound of it.

    Parameters
    ----------
    curve : AbstractTradeOff
        The curve.
    rate_min, error_min : float
        Smallest false positive rate and smallest type II error of the range, in [0, 1].
    limit : float
        A proved upper bound of mu over the range.
    needed : Needed
        Which bounds are needed. A bound that is not needed is valid, and may be far.
    enough : float
        No upper bound below this number is needed.

    Returns
    -------
    Enclosure
        mu over the range; 0 for a range that is proved to be empty.
    """
    cut_short = min(rate_min, error_min) < SMALLEST_RATE
    limit = limit if cut_short else min(limit, _corner(rate_min, error_min))
    if cut_short and curve.evidence is Evidence.CERTIFIED:
        # The upper bound is the limit, and points at the smallest doubles are expensive.
        inner = over_range(curve, max(rate_min, PROVED_FROM), max(error_min, PROVED_FROM), limit, needed)
        return Enclosure(inner.lower, limit, curve.evidence)
    listed = _by_lists(needed, rate_min, error_min, limit, enough)
    if listed is not None:
        return Enclosure(*listed, curve.evidence)
    searched = curve.searches_points and curve.evidence.is_certain
    if (searched or curve.evidence is Evidence.CERTIFIED) and min(rate_min, error_min) >= SMALLEST_RATE:
        ends = tangent_bounds(curve, rate_min, error_min, limit)
        if ends is not None:
            return Enclosure(*ends, curve.evidence)
    inverse = curve.reversed()
    start, end = max(rate_min, SMALLEST_RATE), max(error_min, SMALLEST_RATE)
    # f falls, so the range ends where f = error_min. The largest possible end gives upper bounds, the smallest one
    # gives lower bounds.
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
