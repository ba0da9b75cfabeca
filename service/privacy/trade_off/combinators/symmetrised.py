"""Curve of an attacker who may face a trade-off curve or its inverse: concave envelope of the larger power."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np
from typing_extensions import override

from service.privacy.enclosure import SMALLEST, Enclosure, EnclosureArray, Evidence
from service.privacy.errors import NumericalFailure
from service.privacy.numerics.arrays import BoolArray, FloatArray
from service.privacy.numerics.rounding import FUNCTION_ERROR, UNIT_ROUNDOFF
from service.privacy.trade_off.abstract import AbstractTradeOff, CurvePoints
from service.privacy.trade_off.combinators.extremes import larger, largest
from service.privacy.trade_off.enclosed.logs import log, log_down, log_ends, log_up, logged, logs_of_guess, placed

HALVINGS = 60
SLACK = 2 * FUNCTION_ERROR
LOOSE = 1e-10
"""Relative width of the power above which bisection finds the tangent."""
FLAT = 1e-12
"""Largest log slope of two curves that reveal nothing at the precision of doubles."""
ROUNDING = 64 * UNIT_ROUNDOFF
"""Relative width of points from which no tangents are searched for."""
STEEPEST = 700.0
MOST_CAPS = 4
"""Largest count of bounds of epsilon that are computed for a list. Each bound serves many numbers."""
NARROW = 1e-9
"""Largest relative width of epsilon for which one number of the other profile may prove the other epsilon smaller."""


@dataclass(frozen=True, slots=True)
class _Tangents:
    """Bounds from tangents of a symmetrised curve, at the log slopes of two curves at each rate alpha.

    The symmetrised curve is the largest convex function below a curve and its inverse. M(c) is the larger of their
    profiles at the log slope c.

    Attributes
    ----------
    candidates : tuple of (array, array)
        Log slopes c, and upper bounds of ln M(c), with one entry for each rate.
    flipped : tuple of (array, array)
        Log slopes c, and upper bounds of M(-c), with one entry for each rate.
    first_active, second_active : array of bool
        Whether the first (second) curve is proved to have the larger profile at its own log slope at each rate.
    log_at_zero, at_zero
        Logarithm of a lower bound of delta(0), and the bound itself.
    """

    candidates: tuple[tuple[FloatArray, FloatArray], ...]
    flipped: tuple[tuple[FloatArray, FloatArray], ...]
    first_active: BoolArray
    second_active: BoolArray
    log_at_zero: FloatArray
    at_zero: float


@final
class Symmetrised(AbstractTradeOff):
    """Symmetrised curve: the largest convex function below f and its inverse g = f^-1.

    Notes
    -----
    For a sampled step this curve is the operator C_p of Dong, Roth, Su 2022. The profile is M = max(delta_f, delta_g).
    So power(alpha) = min_c h(c) with h(c) = M(c) + e^c alpha, which is convex in e^c. Every c gives an upper bound. Let
    c_f and c_g be the log slopes of the curves at alpha. The minimiser lies between them: where f (or g) has the larger
    profile at c (is active), h falls for c < c_f (c_g) and rises for c > c_f (c_g). Enclosures decide between three
    cases:

    - If f is active at c_f (or g at c_g), its tangent there is the answer, which is the power of this curve.
    - If c_f < 0 < c_g or conversely, 0 is the minimiser, since delta_f(0) = delta_g(0) for g = f^-1. The power is
      delta(0) + alpha.
    - Otherwise the profiles cross between c_f and c_g. Bisection finds [c, c'], and M(c') + e^c alpha is a lower bound.

    The type II error is at most that of each curve, and equals 1 - delta(0) - alpha on the middle piece. From below it
    is at least e^c ((1 - alpha) - M(-c)) for every c. This bound keeps relative accuracy for small errors.
    """

    def __init__(self, first: AbstractTradeOff, second: AbstractTradeOff) -> None:
        self.first, self.second = first, second
        self.evidence = Evidence.weakest(first.evidence, second.evidence)
        self.method = first.method
        self.is_one_sided = first.is_one_sided or second.is_one_sided

    @property
    @override
    def largest_log_ratio(self) -> Enclosure:
        return largest(self.first.largest_log_ratio, self.second.largest_log_ratio)

    @property
    @override
    def outer_log_ratios(self) -> tuple[float, float]:
        first, second = self.first.outer_log_ratios, self.second.outer_log_ratios
        return min(first[0], second[0]), max(first[1], second[1])

    @property
    @override
    def singular_power(self) -> Enclosure:
        return largest(self.first.singular_power, self.second.singular_power)

    @property
    @override
    def global_gdp_mu(self) -> Enclosure | None:
        # g_mu is convex, so g_mu lies below both curves exactly when g_mu lies below their hull.
        first, second = self.first.global_gdp_mu, self.second.global_gdp_mu
        return None if first is None or second is None else largest(first, second)

    @override
    def reversed(self) -> AbstractTradeOff:
        return self

    @override
    def _profile_formula(self, epsilon: FloatArray) -> EnclosureArray:
        first = self.first.profile(epsilon)
        left = ~_is_capped(self.second, epsilon, first.lower)
        if not left.any():
            return first
        both = larger(logged(first)[left], self.second.profile(epsilon[left]))
        return placed(first, left, both)

    @override
    def _profile_at_formula(self, epsilon: float) -> Enclosure:
        first = self.first.profile_at(epsilon)
        alone = bool(_is_capped(self.second, np.array([epsilon]), np.array([first.lower]))[0])
        alone = alone or self.second.profile_cap(epsilon) <= first.lower
        return first if alone else largest(first, self.second.profile_at(epsilon))

    @override
    def _epsilon_formula(self, delta: float) -> Enclosure:
        first = self.first.epsilon(delta)
        narrow = first.evidence.is_certain and first.relative_width() < NARROW
        # In most cases a bound of the other curve shows that its epsilon is smaller.
        cap = self.second.epsilon_cap(delta, first.lower) if narrow else self.second.epsilon_cap(delta)
        return first if cap <= first.lower else largest(first, self.second.epsilon(delta))

    @override
    def _power_at_formula(self, rate: float) -> Enclosure:
        # In most cases one curve is active at its own slope. Two profiles show this without points of both curves.
        for own, other in ((self.first, self.second), (self.second, self.first)):
            point = own.points(np.array([rate]))
            slope = point.log_slope
            if slope.lower[0] > -FLAT and slope.upper[0] < FLAT:
                break
            if slope.lower[0] > -STEEPEST and slope.upper[0] < STEEPEST:
                least, _ = log_ends(own.profile(slope.upper))
                if _is_smaller(other, slope.lower, least)[0]:
                    return point.power.at(0, self.evidence)
        return super()._power_at_formula(rate)

    @override
    def _points_formula(self, alpha: FloatArray) -> CurvePoints:
        # In most cases one curve is active at its own slope, and its point is the answer.
        first = self.first.points(alpha)
        if (np.abs([first.log_slope.lower, first.log_slope.upper]) < FLAT).all():
            flat = _flat_points(alpha, first, self.second.points(alpha))
            if flat is not None:
                return flat
        left = ~_surely_active(first, alpha, self.second)
        if not left.any():
            return first
        second = self.second.points(alpha[left])
        own = _surely_active(second, alpha[left], self.first)
        if not own.all():
            open_at = np.flatnonzero(left)[~own]
            hull = self._hull(alpha[open_at], first[open_at], second[~own])
            second = second.replaced(~own, hull)
        return first.replaced(left, second)

    def _hull(self, alpha: FloatArray, first: CurvePoints, second: CurvePoints) -> CurvePoints:
        """Return points of the symmetrised curve at the rates `alpha`.

        `first` and `second` are the points of a curve and of its inverse at these rates.
        """
        at_first, at_second = first.log_slope, second.log_slope
        tangents = self._tangents(at_first, at_second)
        log_alpha, (least, most) = np.log(alpha), logs_of_guess(alpha)
        lowest = np.maximum(log_ends(first.power)[0], log_ends(second.power)[0])
        highest = np.zeros_like(alpha)
        for slope, profile in tangents.candidates:
            highest = np.minimum(highest, _log_sum(profile, slope + log_alpha, 1))
        left = np.minimum(at_first.lower, at_second.lower)
        right = np.maximum(at_first.upper, at_second.upper)
        middle = ((at_first.upper < 0) & (at_second.lower > 0)) | ((at_second.upper < 0) & (at_first.lower > 0))
        lowest = np.where(middle, np.maximum(lowest, _log_sum(tangents.log_at_zero, log_alpha, -1)), lowest)
        left, right = np.where(middle, 0.0, left), np.where(middle, 0.0, right)
        for tangent, slope in ((tangents.first_active, at_first), (tangents.second_active, at_second)):
            left, right = np.where(tangent, slope.lower, left), np.where(tangent, slope.upper, right)
        loose = ~middle & ~tangents.first_active & ~tangents.second_active & (highest - lowest > LOOSE)
        if loose.any():
            left[loose], right[loose], lowest[loose] = self._bisected(
                left[loose], right[loose], alpha[loose], lowest[loose], at_first[loose], at_second[loose]
            )
        if self.is_one_sided:  # lower bounds of powers may contradict the upper ones
            lowest = np.minimum(least, highest)
        power = EnclosureArray.from_logs(self._in_order(lowest, highest, "power"), highest)
        log_low, log_high = self._type_two_errors(alpha, first, second, middle, tangents, power)
        if self.is_one_sided:
            log_high = np.maximum(most, log_low)
        log_low = self._in_order(log_low, log_high, "type II error")
        errors = EnclosureArray.from_logs(log_low, np.minimum(log_high, 0.0))
        return CurvePoints(errors, power, EnclosureArray(left, right))

    def _tangents(self, at_first: EnclosureArray, at_second: EnclosureArray) -> _Tangents:
        """Return bounds of the symmetrised curve by tangents at the log slopes of a curve and of its inverse.

        `at_first` and `at_second` enclose these log slopes. Slopes are rounded so that every bound stays valid.
        """
        count = len(at_first.lower)
        first_low, first_high = _finite(at_first.lower), _finite(at_first.upper)
        second_low, second_high = _finite(at_second.lower), _finite(at_second.upper)
        shared = (-first_low, -second_low, np.zeros(1))
        f = self.first.profile(np.concatenate((first_high, second_low, *shared)))
        g = self.second.profile(np.concatenate((first_low, second_high, *shared)))
        (f_low, f_high), (g_low, g_high) = log_ends(f), log_ends(g)
        highest, larger = np.maximum(f_high, g_high), np.maximum(f.upper, g.upper)
        own, other, flip_first, flip_second = (slice(i * count, (i + 1) * count) for i in range(4))
        usable = (np.maximum(first_high, second_high) < STEEPEST) & (np.minimum(first_low, second_low) > -STEEPEST)
        # Profiles fall. So g at the lower bound of the slope of f bounds g over the whole enclosure of the slope, and
        # f at the upper bound does so likewise.
        candidates = [
            (first_high, highest[own]),
            (second_high, highest[other]),
            (np.zeros(count), np.full(count, min(f_high[-1], g_high[-1]))),
        ]
        flipped = [(first_low, larger[flip_first]), (second_low, larger[flip_second])]
        steepest, singular = self.largest_log_ratio.upper, self.singular_power.upper
        if steepest < STEEPEST:
            # Beyond the largest ratio only the singular part remains. It is more accurate than a profile near its zero.
            candidates.append((np.full(count, steepest), log(np.full(count, singular))))
            flipped.append((np.full(count, -steepest), np.full(count, singular)))
        return _Tangents(
            candidates=tuple(candidates),
            flipped=tuple(flipped),
            first_active=usable & (f_low[own] >= g_high[own]),
            second_active=usable & (g_low[other] >= f_high[other]),
            log_at_zero=np.full(count, max(f_low[-1], g_low[-1])),
            at_zero=max(float(f.lower[-1]), float(g.lower[-1])),
        )

    def _bisected(
        self,
        left: FloatArray,
        right: FloatArray,
        alpha: FloatArray,
        lowest: FloatArray,
        at_first: EnclosureArray,
        at_second: EnclosureArray,
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Bisect [`left`, `right`] around the log slope whose tangent determines the power at each rate.

        The bisection continues while bounds prove which of two profiles is larger. Return the left and the right
        endpoint, and a lower bound of the power at the rates `alpha`. `lowest` is a lower bound from before. `at_first`
        and `at_second` enclose the log slopes of both curves at these rates.
        """
        left, right = np.maximum(left, -STEEPEST), np.minimum(right, STEEPEST)
        for _ in range(HALVINGS):
            c = 0.5 * (left + right)
            f, g = self.first.profile(c), self.second.profile(c)
            first, second = f.lower > g.upper, g.lower > f.upper
            falls = (first & (c < at_first.lower)) | (second & (c < at_second.lower))
            rises = (first & (c > at_first.upper)) | (second & (c > at_second.upper))
            if not (falls | rises).any():
                break
            left, right = np.where(falls, c, left), np.where(rises, c, right)
        profile, _ = log_ends(larger(self.first.profile(right), self.second.profile(right)))
        return left, right, np.maximum(lowest, _log_sum(profile, left + np.log(alpha), -1))

    def _in_order(self, lowest: FloatArray, highest: FloatArray, what: str) -> FloatArray:
        """Return `lowest`, reduced to at most `highest`, element by element.

        Raises NumericalFailure, with the name `what` of the quantity, for certain bounds that are out of order. Only
        approximations and samples may be out of order.
        """
        if self.evidence.is_certain and (lowest > highest).any():
            raise NumericalFailure(f"the {what} of a symmetrised curve is out of order")
        return np.minimum(lowest, highest)

    def _type_two_errors(
        self,
        alpha: FloatArray,
        first: CurvePoints,
        second: CurvePoints,
        middle: BoolArray,
        tangents: _Tangents,
        power: EnclosureArray,
    ) -> tuple[FloatArray, FloatArray]:
        """Return bounds of ln of the type II errors at the rates `alpha`, at which the curve has the `power`.

        The other arguments are those of `_hull`.
        """
        (f_low, f_high), (g_low, g_high) = log_ends(first.type_two_error), log_ends(second.type_two_error)
        rest = 1 - alpha
        high = np.minimum(first.type_two_error.upper, second.type_two_error.upper)
        high = np.minimum(high, np.where(middle, (rest - tangents.at_zero) + 4 * UNIT_ROUNDOFF, 1.0))
        high = np.minimum(high, (1 - power.lower) + UNIT_ROUNDOFF)
        low = np.maximum(1 - power.upper - UNIT_ROUNDOFF, 0.0)
        log_low = log_down(low)
        for slope, profile in tangents.flipped:
            gap = rest - profile - 2 * UNIT_ROUNDOFF * (np.where(alpha < 0.5, 1.0, 0.0) + profile)
            log_low = np.maximum(log_low, log_down(np.maximum(gap, 0.0)) + slope - SLACK * np.abs(slope))
        log_high = np.minimum(np.minimum(f_high, g_high), log_up(high))
        # Where one curve is active, its type II error is the answer.
        log_low = np.where(tangents.first_active, np.maximum(log_low, f_low), log_low)
        log_low = np.where(tangents.second_active, np.maximum(log_low, g_low), log_low)
        return np.minimum(log_low, 0.0), log_high


def _flat_points(alpha: FloatArray, first: CurvePoints, second: CurvePoints) -> CurvePoints | None:
    """Return points of the symmetrised curve at the rates `alpha` from points of two curves whose slopes are nearly 1.

    The result is None if it is not as narrow as rounding allows. `first` and `second` are the points of both curves.

    Notes
    -----
    Let P be the larger power at alpha, and l <= 1 <= h bounds of all slopes there. Both curves are concave, so their
    power at x is at most P + h (x - alpha) for x > alpha, and P - l (alpha - x) for x < alpha. The concave hull of this
    bound at alpha is P + (h - l) alpha (1 - alpha). A tangent of the hull at alpha touches the curves on both sides of
    alpha, so its slope is between l and h, too.
    """
    slopes = [*(each.log_slope.lower for each in (first, second)), *(each.log_slope.upper for each in (first, second))]
    least, most = np.minimum(np.min(slopes, axis=0), 0.0), np.maximum(np.max(slopes, axis=0), 0.0)
    if not (most - least < FLAT).all():
        return None
    rest = 1 - alpha
    kink = 2 * (most - least) * alpha * rest
    power = EnclosureArray(
        np.maximum(first.power.lower, second.power.lower),
        np.minimum((np.maximum(first.power.upper, second.power.upper) + kink) * (1 + 4 * UNIT_ROUNDOFF), 1.0),
    )
    low = np.minimum(first.type_two_error.lower, second.type_two_error.lower) - kink
    error = EnclosureArray(
        np.maximum(low * (1 - 4 * UNIT_ROUNDOFF), 0.0),
        np.minimum(first.type_two_error.upper, second.type_two_error.upper),
    )
    if any((each.upper - each.lower > ROUNDING * each.upper).any() for each in (power, error)):
        return None
    return CurvePoints(error, power, EnclosureArray(least, most))


def _surely_active(points: CurvePoints, alpha: FloatArray, other: AbstractTradeOff) -> BoolArray:
    """Return a mask of the rates where tangents of a curve's power lie above the other curve's tangents of equal slope.

    The entries are proved. `points` are those of the curve at the rates `alpha`. The height of a tangent of slope e^c
    is the profile delta(c), which is at least power - e^c alpha at every point. So only the profile of the other curve
    is evaluated.
    """
    slope, log_alpha = points.log_slope, np.log(alpha)
    low, high = _finite(slope.lower), _finite(slope.upper)
    usable = (slope.lower > -STEEPEST) & (slope.upper < STEEPEST)
    log_power, _ = log_ends(points.power)
    with np.errstate(all="ignore"):
        share = high + log_alpha - log_power
        share = share + SLACK * (1 + np.abs(high) + np.abs(log_alpha) + np.abs(log_power))
        least = log_power + np.log(-np.expm1(share))
        least = least - SLACK * (1 + np.abs(least))
        usable &= least > -np.inf  # NaN where the share exceeds 1, which proves nothing
    if not usable.any():
        return usable
    usable[usable] = _is_smaller(other, low[usable], least[usable])
    return usable


def _is_smaller(curve: AbstractTradeOff, epsilon: FloatArray, log_least: FloatArray) -> BoolArray:
    """Return where the profile of `curve` at `epsilon` is proved to be at most e^`log_least`.

    The proof is by a bound of epsilon, or by the profile itself. `epsilon` is in nats, and the result is a mask of its
    shape.
    """
    least = np.exp(log_least) * (1 - SLACK) - SMALLEST
    found = _is_capped(curve, epsilon, least)
    if len(found) == 1 and not found[0]:
        found[0] = curve.profile_cap(float(epsilon[0])) <= least[0]
    left = ~found
    if left.any():
        found[left] = log_least[left] >= log_ends(curve.profile(epsilon[left]))[1]
    return found


def _is_capped(curve: AbstractTradeOff, epsilon: FloatArray, least: FloatArray) -> BoolArray:
    """Return where a bound of epsilon proves that the profile of `curve` at `epsilon` is at most `least`.

    If the profile is at most delta at one epsilon, it is at most delta at all larger epsilons. So one bound proves
    several entries. Entries without a proof within MOST_CAPS bounds are False. For large epsilons the profile is often
    so small that its evaluation would cost more than everything else.
    """
    found = np.zeros(len(epsilon), dtype=bool)
    order = np.argsort(epsilon)
    smallest = np.minimum.accumulate(least[order])
    for _ in range(MOST_CAPS):
        open_at = np.flatnonzero(~found[order])
        if len(open_at) == 0 or not 0 < (delta := float(smallest[open_at[-1]])) < 1:
            break
        capped = epsilon[order] >= curve.epsilon_cap(delta)
        capped[open_at[-1] + 1 :] = False
        if not capped[open_at[-1]]:
            break
        found[order[capped]] = True
    return found


def _log_sum(first: FloatArray, second: FloatArray, side: int) -> FloatArray:
    value = np.logaddexp(first, second)
    largest = np.maximum(np.where(np.isfinite(first), np.abs(first), 0.0), np.abs(second))
    return value + side * SLACK * (1 + np.minimum(largest, 2 * np.abs(value) + 1))


def _finite(slopes: FloatArray) -> FloatArray:
    return np.clip(slopes, -STEEPEST, STEEPEST)
