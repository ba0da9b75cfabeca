"""Curve of an attacker whom two curves bound at once: at every false positive rate the smaller power holds."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Final, final

import numpy as np
from scipy import special
from typing_extensions import override

from service.privacy.enclosure import SMALLEST, Enclosure, EnclosureArray, Evidence
from service.privacy.numerics.arrays import BoolArray, FloatArray
from service.privacy.numerics.roots import sectioned
from service.privacy.numerics.rounding import FUNCTION_ERROR, UNIT_ROUNDOFF
from service.privacy.numerics.work import is_spent
from service.privacy.trade_off.abstract import CLOSED_FORM, AbstractTradeOff, CurvePoints
from service.privacy.trade_off.combinators.common_tangent import envelope_epsilon
from service.privacy.trade_off.combinators.extremes import larger, largest, smaller, smallest
from service.privacy.trade_off.enclosed.decreasing_root import decreasing_root
from service.privacy.trade_off.enclosed.logs import log, log_down, log_ends, logged
from service.privacy.trade_off.enclosed.ulps import LARGEST_SCORE, LEAST_SCORE
from service.privacy.trade_off.enclosed.weighted_sums import log_sum

ASIDE: Final = (1e-3, 1e-6)
"""Distances from eps (nats) of the chords that enclose the rate where a line of slope e^eps touches a curve."""
SLACK: Final = 8 * FUNCTION_ERROR
ROUNDS, CLOSE = 8, 1e-15
"""Rounds of 128 sections, and relative width of an interval, of the search for a crossing."""


@final
class PointwiseMax(AbstractTradeOff):
    """Curve max(f, g) of type II errors, which is convex like f and g. Its power is the smaller power of f and g.

    Notes
    -----
    The minimum of two upper bounds on the power is an upper bound too, and the curve encloses this bound. The bound
    need not be attained by any pair of data sets, so that answers report bounds from two theorems (a bracket).

    The profile is the convex envelope of min(delta_f, delta_g) as functions of x = e^eps. Let a_f be the rate at which
    a line of slope x touches the power of f, so that delta_f = power_f(a_f) - x a_f, and let a_g be that rate for g.
    There are two cases:

    - If power_f(a_f) <= power_g(a_f), the profile is delta_f. If power_g(a_g) <= power_f(a_g), it is delta_g. Profiles
      are convex in x, so that their chords on either side of x enclose a_f and a_g.
    - Otherwise the curves cross once between a_f and a_g, and the profile is power(a) - x a at the crossing. This
      expression is a lower bound at every a. An upper bound is the chord in x between the profiles at the slopes that
      both curves have at the crossing.

    In the first case the relative accuracy is that of the curves. In the second case the difference loses the digits
    that cancel.
    """

    def __init__(self, first: AbstractTradeOff, second: AbstractTradeOff) -> None:
        self.first, self.second = first, second
        self.evidence = Evidence.weakest(first.evidence, second.evidence)
        self.method = first.method
        self._met: list[float] = []
        """Normal scores of the rates at which the curves cross, as far as they are known."""

    @property
    @override
    def largest_log_ratio(self) -> Enclosure:
        first, second = self.first.largest_log_ratio, self.second.largest_log_ratio
        at_zero = self.first.singular_power, self.second.singular_power
        if at_zero[0].upper < at_zero[1].lower:
            return first
        if at_zero[1].upper < at_zero[0].lower:
            return second
        equal = at_zero[0].upper == at_zero[1].upper == 0
        upper = min(first.upper, second.upper) if equal else max(first.upper, second.upper)
        return Enclosure(min(first.lower, second.lower), upper, Evidence.weakest(first.evidence, second.evidence))

    @property
    @override
    def smallest_log_ratio(self) -> Enclosure:
        # Near alpha = 1 the curve is e^l (1 - alpha), and 0 where l is minus infinity.
        return largest(self.first.smallest_log_ratio, self.second.smallest_log_ratio)

    @property
    @override
    def singular_power(self) -> Enclosure:
        return smallest(self.first.singular_power, self.second.singular_power)

    @property
    @override
    def global_gdp_mu_limit(self) -> float:
        """Upper bound of the smallest mu for mu-GDP: the smaller bound of f and g, as max(f, g) lies above both."""
        known = ((curve, curve.global_gdp_mu) for curve in (self.first, self.second))
        return min(curve.global_gdp_mu_limit if mu is None else mu.upper for curve, mu in known)

    @override
    def reversed(self) -> AbstractTradeOff:
        return PointwiseMax(self.first.reversed(), self.second.reversed())

    @override
    def _points_formula(self, alpha: FloatArray) -> CurvePoints:
        first, second = self.first.points(alpha), self.second.points(alpha)
        power = smaller(logged(first.power), logged(second.power))
        error = larger(logged(first.type_two_error), logged(second.type_two_error))
        one = _surely_smaller(first.power, second.power)
        other = _surely_smaller(second.power, first.power)
        one |= _surely_smaller(second.type_two_error, first.type_two_error)
        other |= _surely_smaller(first.type_two_error, second.type_two_error)
        low = np.minimum(first.log_slope.lower, second.log_slope.lower)
        high = np.maximum(first.log_slope.upper, second.log_slope.upper)
        slope = EnclosureArray(
            np.where(one, first.log_slope.lower, np.where(other, second.log_slope.lower, low)),
            np.where(one, first.log_slope.upper, np.where(other, second.log_slope.upper, high)),
        )
        return CurvePoints(error, power, slope)

    @override
    @np.errstate(all="ignore")
    def _profile_formula(self, epsilon: FloatArray) -> EnclosureArray:
        lower = log(np.maximum(-np.expm1(np.minimum(epsilon, 0.0)) * (1 - SLACK), 0.0))
        upper, most = np.zeros_like(epsilon), np.ones_like(epsilon)
        settled = np.zeros(len(epsilon), dtype=np.bool_)
        touching: _Touching | None = None
        for aside in ASIDE:
            at = np.flatnonzero(~settled)
            if not at.size:
                break
            touching = self._touching(epsilon[at], aside)
            by_first, by_second = touching.smaller_powers(epsilon[at], self.first, self.second)
            low, high = touching.profiles(by_first, by_second)
            most[at] = np.minimum(touching.first.upper, touching.second.upper)
            active = by_first | by_second
            lower[at] = np.where(active, low, lower[at])
            upper[at] = np.minimum(upper[at], high)
            settled[at] = active
            touching = touching.select(~active)
        if touching is not None and not settled.all() and not is_spent():  # otherwise the wider bounds hold
            at = np.flatnonzero(~settled)
            low, high = self._crossed(epsilon[at], touching)
            upper[at] = np.minimum(upper[at], high)
            lower[at] = np.minimum(np.maximum(lower[at], low), upper[at])
        # The result exceeds neither profile, not even by the rounding of a logarithm.
        found = EnclosureArray.from_logs(np.minimum(lower, 0.0), upper)
        return replace(found, lower=np.minimum(found.lower, most), upper=np.minimum(found.upper, most))

    def _touching(self, epsilon: FloatArray, aside: float) -> _Touching:
        """Return the rates at which lines of slope e^`epsilon` touch the powers of both curves, with bounds.

        The bounds follow from lines whose slopes are `aside` smaller and larger in epsilon.
        """
        places = np.concatenate((epsilon - aside, epsilon, epsilon + aside))
        rates: list[FloatArray] = []
        profiles: list[EnclosureArray] = []
        for curve in (self.first, self.second):
            read = logged(curve.profile(places))
            count = len(epsilon)
            (at_left, here, at_right) = (read[k * count : (k + 1) * count] for k in range(3))
            with np.errstate(over="ignore"):  # rates below the smallest double
                x = np.exp(epsilon)
            low = (here.lower - at_right.upper) / (x * math.expm1(aside)) * (1 - SLACK)
            high = np.maximum((at_left.upper - here.lower) / (x * -math.expm1(-aside)) * (1 + SLACK), SMALLEST)
            # The rounding of eps + aside moves x by less than this share of the distance.
            share = 4 * UNIT_ROUNDOFF * (1 + np.abs(epsilon)) / aside
            low, high = low * (1 - share), high * (1 + share)
            rates += [np.clip(np.nan_to_num(low), 0.0, 1.0), np.clip(np.nan_to_num(high, nan=1.0), 0.0, 1.0)]
            profiles.append(here)
        return _Touching(np.stack(rates), profiles[0], profiles[1])

    def _crossed(self, epsilon: FloatArray, touching: _Touching) -> tuple[FloatArray, FloatArray]:
        """Return (lower, upper) bounds of ln of the profile at each `epsilon`, from a rate at which the powers cross.

        The bounds hold everywhere, but are meant for epsilons at which neither curve has the smaller power at its own
        touching rate. `touching` has the touching rates of both curves, where lines of slope e^`epsilon` touch their
        powers.
        """
        scores = special.ndtri(touching.rates)
        low = np.clip(scores.min(axis=0), LEAST_SCORE, LARGEST_SCORE)
        high = np.clip(scores.max(axis=0), LEAST_SCORE, LARGEST_SCORE)
        crossing = self._crossings(low, high)
        middles = special.ndtri(0.5 * (touching.rates[0::2] + touching.rates[1::2]))
        places = np.clip(np.stack((crossing, *middles)), LEAST_SCORE, LARGEST_SCORE)
        rates = special.ndtr(places)
        power = self.points(rates.ravel()).power.lower.reshape(rates.shape)
        lines = rates * np.exp(epsilon)
        least = (power - lines) - SLACK * (np.abs(lines) * (1 + np.abs(epsilon)) + power)
        return log_down(np.clip(least.max(axis=0), 0.0, 1.0)), self._chord(epsilon, rates[0])

    def _crossings(self, low: FloatArray, high: FloatArray) -> FloatArray:
        """Return normal scores, between `low` and `high`, of rates at which the powers of both curves about cross.

        No bound relies on the crossings. The search is expensive, and most curves cross once. So the crossing in one
        interval serves all intervals that contain it. When the work limit is reached, the endpoint at which the curves
        are closer replaces the crossing.
        """
        at_low, at_high = np.split(self._difference(np.concatenate((low, high))), 2)
        nearer = np.where(np.abs(at_low) < np.abs(at_high), low, high)
        crossing = np.where(np.sign(at_low) == np.sign(at_high), nearer, np.nan)  # these values show no crossing
        for known in self._met:
            crossing = np.where(np.isnan(crossing) & (low < known) & (known < high), known, crossing)
        while (missing := np.flatnonzero(np.isnan(crossing))).size:
            if is_spent():
                return np.where(np.isnan(crossing), nearer, crossing)
            middle = [missing[missing.size // 2]]
            sign = np.sign(at_low[middle])
            left, right = sectioned(
                lambda scores, sign=sign: np.sign(self._difference(scores[0]))[None] != sign,
                low[middle],
                high[middle],
                ROUNDS,
                relative=CLOSE,
            )
            found = float(np.minimum(0.5 * (left + right), high[middle])[0])
            self._met.append(found)
            crossing[missing] = np.where((low <= found) & (found <= high), found, np.nan)[missing]
        return crossing

    def _difference(self, scores: FloatArray) -> FloatArray:
        """Return the approximate log ratio of the powers of both curves at rates with these normal `scores`.

        For rates from 1/2 on the result is the log ratio of the type II errors, of the second to the first curve. It is
        positive where the first curve has more power.
        """
        rates = special.ndtr(scores)
        first, second = self.first.points(rates), self.second.points(rates)
        powers, errors = (
            np.nan_to_num(_middle(one) - _middle(other))
            for one, other in ((first.power, second.power), (second.type_two_error, first.type_two_error))
        )
        return np.where(scores < 0, powers, errors)

    def _chord(self, epsilon: FloatArray, crossing: FloatArray) -> FloatArray:
        """Return upper bounds of ln of the profile at `epsilon` by chords between the two profiles.

        The endpoints of a chord are the slopes that both curves have at the rate `crossing`, where their powers cross.
        The bound is 0 where `epsilon` is not between these slopes.
        """
        slopes = [curve.points(crossing).log_slope for curve in (self.first, self.second)]
        ends = np.sort([0.5 * (slope.lower + slope.upper) for slope in slopes], axis=0)
        between = (ends[0] < epsilon) & (epsilon < ends[1]) & np.isfinite(ends).all(axis=0)
        left, right = np.where(between, ends[0], epsilon - 1), np.where(between, ends[1], epsilon + 1)
        high = [
            np.minimum(log_ends(self.first.profile(end))[1], log_ends(self.second.profile(end))[1])
            for end in (left, right)
        ]
        whole = log(np.expm1(right - left))
        to_right, to_left = epsilon - left + log(np.expm1(right - epsilon)), log(np.expm1(epsilon - left))
        error = (
            SLACK
            * (4 + np.abs(epsilon) + np.abs(left) + np.abs(right) + np.abs(whole))
            / np.minimum(1.0, np.minimum(right - epsilon, epsilon - left))
        )
        mixed = log_sum(high[0] + to_right - whole + error, high[1] + to_left - whole + error, 1)
        return np.where(between & ~np.isnan(mixed), np.minimum(mixed, 0.0), 0.0)

    @override
    def _epsilon_formula(self, delta: float) -> Enclosure:
        # Many points of a profile cost little in closed form, and much in composed runs.
        if self.first.method == self.second.method == CLOSED_FORM:
            found = envelope_epsilon(self.first, self.second, delta, self.evidence)
            if found is not None:
                return found
        return self._searched_epsilon(delta)

    def _searched_epsilon(self, delta: float) -> Enclosure:
        """Return the epsilon (nats) at which the profile is `delta`, by a search on the profile.

        The search is slow for curves that are expensive to evaluate.
        """
        first, second = self.first.epsilon(delta), self.second.epsilon(delta)
        smaller = smallest(first, second)
        if smaller.upper == 0:
            return smaller
        if math.isfinite(smaller.lower):
            # Below its own lower bound a profile exceeds delta. If its curve holds there, so does the envelope.
            touching = self._touching(np.array([smaller.lower]), ASIDE[0])
            by_first, by_second = touching.smaller_powers(np.array([smaller.lower]), self.first, self.second)
            if bool((by_first if smaller.lower == first.lower else by_second)[0]):
                return smaller
        high = smaller.upper
        if math.isinf(high):
            return Enclosure(0.0, high, self.evidence)
        if float(self.profile(np.zeros(1)).upper[0]) <= delta:
            return Enclosure(0.0, 0.0, self.evidence)
        return decreasing_root(self._profile_formula, delta, 0.0, high, self.evidence)


@dataclass(frozen=True, slots=True)
class _Touching:
    """Rates at which lines of slope e^eps touch the powers of two curves, and the profiles of both curves.

    `rates` has the shape (4, n): both bounds of the rate for the first curve, then both bounds for the second.
    """

    rates: FloatArray
    first: EnclosureArray
    second: EnclosureArray

    def smaller_powers(
        self, epsilon: FloatArray, first: AbstractTradeOff, second: AbstractTradeOff
    ) -> tuple[BoolArray, BoolArray]:
        """Return masks where the first (second) curve is proved to have the smaller power at its own touching rate.

        `epsilon` and the masks have the shape (n,). The touching rate of a curve is the rate where a line of slope
        e^eps touches its power. A curve's power is at most that line, so the test evaluates only points of the other
        curve. Points of the second curve, which may be expensive, are evaluated only where the first test fails.
        """
        by_second = _is_weaker(epsilon, self.second, self.rates[2:], first)
        by_first, at = np.zeros_like(by_second), np.flatnonzero(~by_second)
        if at.size:
            own = self.select(~by_second)
            by_first[at] = _is_weaker(epsilon[at], own.first, own.rates[:2], second)
        return by_first, by_second

    def profiles(self, by_first: BoolArray, by_second: BoolArray) -> tuple[FloatArray, FloatArray]:
        """Return (lower, upper) bounds of ln of the profile, from the profiles of both curves.

        `by_first` and `by_second` state where the first and the second curve is proved to have the smaller power.
        Where neither is, the lower bound is minus infinity.
        """
        (first_low, first_high), (second_low, second_high) = log_ends(self.first), log_ends(self.second)
        low = np.maximum(np.where(by_first, first_low, -np.inf), np.where(by_second, second_low, -np.inf))
        high = np.minimum(first_high, second_high)
        return np.minimum(low, high), high

    def select(self, which: BoolArray) -> _Touching:
        return _Touching(self.rates[:, which], self.first[which], self.second[which])


@np.errstate(all="ignore")
def _is_weaker(epsilon: FloatArray, profile: EnclosureArray, rates: FloatArray, other: AbstractTradeOff) -> BoolArray:
    """Return a mask of the epsilons at which a curve is proved to have less power than `other` at its touching rate.

    `profile` is the profile of the curve. `rates` holds both bounds of the rate where lines of slope e^eps touch it.
    Powers rise, so that the comparison at the far bounds holds at the touching rate itself.
    """
    logs = epsilon + log(rates[1])
    most = log_sum(log_ends(profile)[1], logs + SLACK * (1 + np.abs(epsilon) + np.abs(logs)), 1)
    return np.asarray(most <= log_ends(other.points(rates[0]).power)[0])


def _surely_smaller(first: EnclosureArray, second: EnclosureArray) -> BoolArray:
    return np.asarray(log_ends(first)[1] < log_ends(second)[0])


def _middle(bounds: EnclosureArray) -> FloatArray:
    lower, upper = log_ends(bounds)
    return np.where(lower > -np.inf, 0.5 * (lower + upper), upper)
