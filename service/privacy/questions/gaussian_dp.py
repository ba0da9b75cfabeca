"""Gaussian differential privacy as a summary: the mu of the largest Gaussian curve below a given curve.

mu is the supremum of Phi^-1(power) - Phi^-1(alpha) over the part of a curve where alpha >= a_min and beta >= b_min.
`gdp_range.py` computes mu over one range of a curve. This module combines ranges, curves and both directions.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final, Literal, TypeVar

import numpy as np
from scipy import special

from service.privacy.enclosure import Enclosure, EnclosureArray, Evidence
from service.privacy.errors import OutOfDomain
from service.privacy.numerics.rounding import UNIT_ROUNDOFF
from service.privacy.numerics.work import at_most, compute_complete_once, remaining_work
from service.privacy.questions.empty_range import NOTHING_IN_RANGE, RANGE_MAY_BE_EMPTY
from service.privacy.questions.gdp_lists import ListSearch
from service.privacy.questions.gdp_range import BOTH, PROVED_FROM, Needed, corner, over_range
from service.privacy.questions.gdp_tangents import STRONGEST
from service.privacy.questions.normal_points import CLOSE, SMALLEST_RATE, normal_points
from service.privacy.questions.reading import Reading
from service.privacy.questions.strongest_parts import strongest_parts
from service.privacy.trade_off.abstract import CLOSED_FORM, AbstractTradeOff
from service.privacy.trade_off.approximate_dp import ApproximateDpTradeOff
from service.privacy.trade_off.combinators.bracketed import Bracketed
from service.privacy.trade_off.combinators.extreme_of import EasiestOf, TighterOf
from service.privacy.trade_off.combinators.symmetrised import Symmetrised
from service.privacy.trade_off.delegating import MemoisedCurve
from service.privacy.trade_off.enclosed.ulps import LOG_QUANTILE_ERROR
from service.privacy.trade_off.pair import TradeOffPair
from service.privacy.trade_off.shifted.gaussian import GaussianTradeOff

Direction = Literal["add", "remove", "both"]
Result = TypeVar("Result")

LATTICE: Final = "discretised"
SHARE_OF_PARTS: Final = 0.2
"""Share of the remaining work that the mu of parts of a composition may use."""

SOURCE = "Dong, Roth, Su 2022, Definition 2.6; smallest mu over the stated range of error rates"


@dataclass(frozen=True, slots=True)
class GdpReading(Reading):
    """Answer with mu over the requested range (`value`) and over the whole curve (`global_mu`).

    The *mu* of Gaussian DP is the supremum of Phi^-1(power) - Phi^-1(false positive rate) over the points of the curve.
    """

    global_mu: Enclosure = field(kw_only=True)


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
    return _of_valid(curve, false_positive_rate_min, type_two_error_min, Needed(lower, upper))


def _of_valid(curve: AbstractTradeOff, rate_min: float, error_min: float, needed: Needed) -> GdpReading:
    """Return mu of a curve over a range of error rates after a check of `rate_min` and `error_min`."""
    for name, value in (("false_positive_rate_min", rate_min), ("type_two_error_min", error_min)):
        if not 0 <= value <= 1:
            raise OutOfDomain(name, value, "in [0, 1]")
    return _of_curve(curve, rate_min, error_min, needed)


def mu_in_direction(
    pair: TradeOffPair, direction: Direction, false_positive_rate_min: float, type_two_error_min: float
) -> GdpReading:
    """Return `mu` of a curve of `pair`, the one of the given direction, over a range of error rates.

    Parameters
    ----------
    pair : TradeOffPair
        Curves of a mechanism.
    direction : "add", "remove" or "both"
        The curve.
    false_positive_rate_min, type_two_error_min : float
        Limits of the range, in [0, 1].

    Returns
    -------
    GdpReading
        mu over the range and over the whole curve.

    Notes
    -----
    The points of the inverse of a curve have both error rates exchanged. So mu of `remove` is mu of `add` over the
    range with both limits exchanged, and a request searches for this number once. Curves of a weaker attacker are
    evaluated in the given direction.
    """
    needed = Needed(second=pair.second)
    if direction == "remove" and pair.worst_case is None and pair.add.evidence.is_certain:
        return _of_valid(pair.add, type_two_error_min, false_positive_rate_min, needed)
    return _of_valid(getattr(pair, direction), false_positive_rate_min, type_two_error_min, needed)


def _of_curve(
    curve: AbstractTradeOff,
    rate_min: float,
    error_min: float,
    needed: Needed,
    evaluated: AbstractTradeOff | None = None,
) -> GdpReading:
    """Return mu of a curve over a range of error rates, computed once for each curve and range of a request.

    mu is that of the largest Gaussian curve below the curve, where the false positive rate is at least `rate_min` and
    the type II error at least `error_min`. `evaluated` is an equal curve that keeps its points, or None.
    """
    compute = partial(_over_ranges, evaluated or curve, rate_min, error_min, needed)
    return _once(curve, ("mu", rate_min, error_min), needed, compute)


def _once(curve: AbstractTradeOff, key: Hashable, needed: Needed, compute: Callable[[], Result]) -> Result:
    """Return the result of `compute`, called once for each curve, `key` and needed bounds of a request.

    The uses of the second engine in the first call count in every call.
    """
    before = needed.uses

    def counted() -> tuple[Result, int]:
        return compute(), needed.uses - before

    found, uses = compute_complete_once(curve, (key, needed.lower, needed.upper), counted)
    if needed.second is not None:
        needed.second.times = max(needed.second.times, before + uses)
    return found


def _over_ranges(curve: AbstractTradeOff, rate_min: float, error_min: float, needed: Needed) -> GdpReading:
    """Return mu of a curve over a range of error rates, and over all rates.

    mu is that of the largest Gaussian curve below the curve, where the false positive rate is at least `rate_min` and
    the type II error at least `error_min`.
    """
    if isinstance(curve, Bracketed):
        return _between(curve, rate_min, error_min, needed)
    if isinstance(curve, EasiestOf):
        found = [_of_curve(each, rate_min, error_min, needed) for each in curve.curves]
        best = max(found, key=lambda each: each.value.lower)
        return replace(best, global_mu=max((each.global_mu for each in found), key=lambda each: each.lower))
    if isinstance(curve, Symmetrised) and curve.evidence.is_certain:
        both = _of_both(curve, rate_min, error_min, needed)
        if both is not None:
            return both
    if rate_min == error_min == 0:
        whole = _global(curve, needed)
        return GdpReading(whole, "upper", SOURCE, global_mu=whole)
    # The smaller of several profiles bounds the power from above only.
    has_lists = curve.serves_lists and curve.evidence is Evidence.CERTIFIED
    has_lists = has_lists and not (isinstance(curve, TighterOf) and needed.lower)
    if has_lists:
        parts = [curve] if needed.upper else strongest_parts(curve, is_even=rate_min == error_min)
        is_rough = curve.has_rough_lists and not needed.lower and math.isfinite(needed.floor)
        rough = ListSearch(curve, is_rough=True) if is_rough else None
        needed = replace(needed, lists=tuple(ListSearch(part) for part in parts), rough=rough)
    cap = _cap_alone(curve) if curve.global_gdp_mu is None else None
    if cap is not None:
        ranged = over_range(curve, rate_min, error_min, cap, needed)
        whole = Enclosure(_proved(curve, rate_min, ranged), cap, curve.evidence)
    elif has_lists and curve.global_gdp_mu is None:
        ranged = over_range(curve, rate_min, error_min, _cap(curve), needed)
        whole = _global(curve, replace(needed, known=ranged.lower))
        ranged = Enclosure(ranged.lower, max(min(ranged.upper, whole.upper), ranged.lower), curve.evidence)
    else:
        whole = _global(curve, needed)
        ranged = whole
        attained = curve.global_gdp_mu_error
        outside = attained is None or attained < max(rate_min, error_min)
        if outside and not _is_gaussian_in_range(curve, rate_min, error_min):
            ranged = over_range(curve, rate_min, error_min, whole.upper, needed)
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
    ranges = [(rate_min, error_min), (error_min, rate_min)][: len(firsts)]
    evaluated = None if curve.first.serves_lists else first
    found = [_of_curve(curve.first, *each, needed, evaluated) for each in ranges]
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


def _between(curve: Bracketed, rate_min: float, error_min: float, needed: Needed) -> GdpReading:
    """Return mu of a curve f over a range of error rates, from the mu of two curves that enclose f.

    mu is that of the largest Gaussian curve below f. Over the whole curve mu rises with the power. Over a range mu also
    rises with the power if the range is not empty for g, the curve with more power. Then g reaches error_min at a
    smaller rate than f, and its mu there is at least that of f from this rate on. If the range of g may be empty, the
    range of f may be empty too. No point of any range has a mu of more than Phi^-1(1 - error_min) - Phi^-1(rate_min).
    """
    start = max(rate_min, SMALLEST_RATE)
    # The searches may spend all allowed work, so that this point is evaluated first.
    some = _reaches(curve.dominating, start, error_min)
    least = _of_curve(curve.attained, rate_min, error_min, replace(needed, lower=True, upper=False))
    above = replace(needed, lower=False, upper=True, floor=least.value.lower)
    most = _of_curve(curve.dominating, rate_min, error_min, above)
    whole = Enclosure(least.global_mu.lower, most.global_mu.upper, curve.evidence)
    if some:
        ranged = Enclosure(least.value.lower, most.value.upper, curve.evidence)
    else:
        ranged = Enclosure(0.0, min(corner(start, max(error_min, SMALLEST_RATE)), whole.upper), curve.evidence)
    notes = tuple(note for note in most.notes if note != NOTHING_IN_RANGE)
    if most.notes != notes:  # the range of the easier side is empty, the range of the harder side perhaps not
        notes += (NOTHING_IN_RANGE if ranged.upper == 0 else RANGE_MAY_BE_EMPTY,)
    return GdpReading(ranged, "upper", SOURCE, notes, global_mu=whole)


def _reaches(curve: AbstractTradeOff, rate: float, error: float) -> bool:
    """Return whether the type II error at a rate is proved to be at least `error`.

    The type II error is at least 1 - delta(0) - rate.
    """
    if curve.has_rough_lists:
        half = float(curve.rough_profile(np.zeros(1), 0.5).upper[0])
        if 1 - half - rate - 4 * UNIT_ROUNDOFF >= error:
            return True
    return float(curve.type_two_error(np.array([rate])).lower[0]) >= error


def _global(curve: AbstractTradeOff, needed: Needed) -> Enclosure:
    """Return mu over all error rates, computed once for each curve of a request."""
    known = curve.global_gdp_mu
    if known is not None:
        return known
    return _once(curve, "global mu", needed, lambda: _searched_globally(curve, needed))


def _searched_globally(curve: AbstractTradeOff, needed: Needed) -> Enclosure:
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
    lower = max(inner.lower, needed.known)
    return Enclosure(lower, max(min(max(inner.upper, ends), cap), lower), curve.evidence)


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

    mu is that of Gaussian DP. If |L| <= eps, the curve lies above that of eps-DP, whose mu has a closed form. On a
    lattice the parts of a composition count, too: their mu^2 add up (Dong, Roth, Su 2022, Corollary 3.3).
    """
    alone = min(ApproximateDpTradeOff(_strongest(curve), 0.0).global_gdp_mu.upper, curve.global_gdp_mu_limit)
    if curve.method != LATTICE or not curve.composed_of:
        return alone
    return min(alone, _once(curve, "mu of parts", BOTH, lambda: _mu_of_parts(curve)))


def _mu_of_parts(curve: AbstractTradeOff) -> float:
    """Return the root of the sum of all upper bounds of mu^2 of the steps of a composition.

    Alternative descriptions of a part are equal steps. The smallest sum counts.
    """
    with at_most(SHARE_OF_PARTS * remaining_work()):
        roots = [min(math.sqrt(count) * _most(part) for part, count in each) for each in curve.composed_of]
    return math.hypot(*roots) * (1 + CLOSE)


def _most(part: AbstractTradeOff) -> float:
    """Return an upper bound of mu of a part of a composition, by a search if its points cost little."""
    if math.isinf(_strongest(part)):
        return part.global_gdp_mu_limit
    return _global(part, BOTH).upper if part.method == CLOSED_FORM else _cap(part)


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
