"""The largest of many normal numbers, one of which is shifted, and lower ends of what an attacker reaches who compares
the largest with a threshold.

Z_1 .. Z_T are independent N(0, 1), and one of them, whichever, is moved by a >= 0: P(max <= x) = Phi(x - a)
Phi(x)^(T-1) = F_a(x). It does not depend on which one, so that a secret choice of it changes nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Final, NamedTuple, final

import numpy as np
from typing_extensions import override

from service.privacy.enclosure import Enclosure, EnclosureArray, Evidence
from service.privacy.numerics.arrays import FloatArray, IndexArray
from service.privacy.numerics.roots import many_bisected
from service.privacy.numerics.rounding import FUNCTION_ERROR, UNIT_ROUNDOFF
from service.privacy.trade_off.abstract import AbstractTradeOff, CurvePoints
from service.privacy.trade_off.enclosed.logs import log_ends
from service.privacy.trade_off.shifted.location_law import NORMAL

LEFTMOST: Final = -9.0
RIGHTMOST: Final = 40.0
"""Standard deviations beyond a hump where tails underflow."""


class LogTails(NamedTuple):
    """Ends of ln P(max <= x) and of ln P(max > x)."""

    below_low: FloatArray
    below_high: FloatArray
    above_low: FloatArray
    above_high: FloatArray


@final
@dataclass(frozen=True, slots=True)
class LargestOfMany:
    """`count` = T >= 1 numbers; `shift` = a, exact."""

    count: int
    shift: float

    def tails(self, x: FloatArray) -> LogTails:
        """At finite x, which are exact.

        ln F = ln Phi(x - a) + (T - 1) ln Phi(x). The rounding of t = x - a moves ln Phi(t) by at most 4 u |ln Phi(t)|
        where t < 0 and by t^2 u |ln Phi(t)| elsewhere, as phi(t)/Phi(t) <= |t| + 1; the functions themselves are off by
        half as much as is allowed here (`enclosed/ulps.py`). ln(1 - F) = ln(-expm1(ln F)) moves by no more, relatively,
        than ln F, as y/(e^y - 1) <= 1.
        """
        t = x - self.shift
        first, first_error = NORMAL.log_cdf(t)
        others, others_error = NORMAL.log_cdf(x)
        rest = float(self.count - 1)
        value = first + rest * others
        error = 2 * (first_error + rest * others_error) + 4 * UNIT_ROUNDOFF * np.abs(value)
        low, high = value - error, np.minimum(value + error, -5e-324)
        slack = 2 * FUNCTION_ERROR
        above = [np.log(-np.expm1(end)) for end in (high, low)]
        return LogTails(
            low,
            high,
            above[0] - slack * (1 + np.abs(above[0])),
            np.minimum(above[1] + slack * (1 + np.abs(above[1])), 0.0),
        )


def thresholds(count: int, shifts: tuple[float, ...], spacing: float) -> FloatArray:
    """Where the largest of so many numbers may be, moved by any of the shifts: multiples of the spacing, ascending."""
    typical = math.sqrt(2 * math.log(count)) if count > 1 else 0.0
    ends = [(hump + LEFTMOST, hump + RIGHTMOST) for hump in (0.0, typical, *shifts)]
    places = [
        np.arange(math.floor(low / spacing), math.ceil(high / spacing) + 1, dtype=np.float64) for low, high in ends
    ]
    return np.unique(np.concatenate(places)) * spacing


SLACK: Final = 8 * FUNCTION_ERROR
FINER: Final = np.linspace(-1.0, 1.0, 33)
ROUNDS: Final = 5
"""Each looks 16 times closer at the best threshold."""
COARSE: Final = 0.125
"""Standard deviations between thresholds that are all looked at."""
BISECTIONS: Final = 64
CHUNK: Final = 1 << 20
"""Readings times thresholds at once."""


class Rates(NamedTuple):
    """Of a test: ln of its false positive rate and its complement's, the first from above and the second from below;
    ln of its power from below, and of its type II error from above.
    """

    alpha: FloatArray
    rest: FloatArray
    power: FloatArray
    error: FloatArray


@final
@dataclass(frozen=True)
class ThresholdTests:
    """H0 moves one of T numbers by `absent`, H1 by `present`: which of both shifts is larger says on which side of a
    threshold an attacker says member.
    """

    absent: LargestOfMany
    present: LargestOfMany

    @cached_property
    def coarse(self) -> tuple[FloatArray, Rates]:
        """Thresholds over all humps, in the order of rising false positive rates, and their tests."""
        return self.spaced(COARSE)

    def spaced(self, spacing: float) -> tuple[FloatArray, Rates]:
        """Thresholds so many standard deviations apart, by rising false positive rates, and their tests."""
        x = thresholds(self.absent.count, (self.absent.shift, self.present.shift), spacing)
        x = x[::-1] if self._above else x
        return x, self.rates(x)

    @property
    def _above(self) -> bool:
        return self.present.shift > self.absent.shift

    @np.errstate(all="ignore")
    def rates(self, x: FloatArray) -> Rates:
        """Of the tests with these thresholds."""
        h0, h1 = self.absent.tails(x), self.present.tails(x)
        return _rates(h0, h1) if self._above else _rates(_swapped(h0), _swapped(h1))

    def at_rates(self, alpha: FloatArray) -> Rates:
        """The tests whose false positive rate surely is at most alpha, and nearly that."""
        x, known = self.coarse
        place = np.searchsorted(known.alpha, np.log(alpha) * (1 + FUNCTION_ERROR))
        inside = x[np.clip(place - 1, 0, len(x) - 1)]
        outside = x[np.clip(place, 0, len(x) - 1)]
        log_alpha = np.log(alpha) - FUNCTION_ERROR * (1 + np.abs(np.log(alpha)))
        inside, _ = many_bisected(lambda x: ~(self.rates(x).alpha <= log_alpha), inside, outside, BISECTIONS)
        found = self.rates(inside)
        useless = found.alpha > log_alpha
        # Where even the first threshold raises too many false alarms: nobody is called a member.
        return Rates(
            found.alpha,
            found.rest,
            np.where(useless, -np.inf, found.power),
            np.where(useless, 0.0, found.error),
        )

    def best(self, values: FloatArray, gain: Gain) -> FloatArray:
        """The largest gain of any threshold, for each value."""
        found = np.full(len(values), -np.inf)
        x, known = self.coarse
        size = max(CHUNK // len(x), 1)
        for start in range(0, len(values), size):
            some = slice(start, start + size)
            asked = values[some, None]
            gains = gain(asked, known)
            at = np.argmax(gains, axis=1)
            reached = gains[np.arange(len(at)), at]
            centre, width = x[at], _gap(x, at)
            for _ in range(ROUNDS):
                near = centre[:, None] + width[:, None] * FINER
                gains = gain(asked, self.rates(near))
                at = np.argmax(gains, axis=1)
                reached = np.maximum(reached, gains[np.arange(len(at)), at])
                centre, width = near[np.arange(len(at)), at], width / 16
            found[some] = reached
        return found


Gain = Callable[[FloatArray, Rates], FloatArray]
"""What a test is good for: delta at an epsilon, or epsilon at a delta, from below; broadcasts."""


@np.errstate(all="ignore")
def log_delta(epsilon: FloatArray, rates: Rates) -> FloatArray:
    """ln of power - e^eps alpha; for eps < 0 of (1 - e^eps) + e^eps (1 - alpha) - (1 - power)."""
    lost = rates.alpha + epsilon
    right = rates.power + np.log1p(-np.exp(np.minimum(lost - rates.power + SLACK * (2 + np.abs(lost)), 0.0)))
    if float(epsilon.min()) >= 0:
        return np.nan_to_num(right, nan=-np.inf, neginf=-np.inf)
    negative = np.minimum(epsilon, 0.0)
    kept = -np.expm1(negative) + np.exp(negative + rates.rest) - np.exp(rates.error)
    left = np.log(np.maximum(kept - SLACK, 0.0))
    return np.nan_to_num(np.where(epsilon < 0, np.maximum(left, right), right), nan=-np.inf, neginf=-np.inf)


@np.errstate(all="ignore")
def epsilon_at(log_delta: FloatArray, rates: Rates) -> FloatArray:
    """ln of (power - delta)/alpha."""
    left = np.log1p(-np.exp(np.minimum(log_delta - rates.power + SLACK * (2 + np.abs(log_delta)), 0.0)))
    found = rates.power + left - rates.alpha
    found -= SLACK * (1 + np.abs(rates.power) + np.abs(left) + np.abs(rates.alpha))
    return np.nan_to_num(found, nan=-np.inf, neginf=-np.inf)


@final
class ThresholdCurve(AbstractTradeOff):
    """What the best of such tests reach, from below, and from above what `above` says.

    Each reading is that of some test, at thresholds that are searched for: whatever was found is a lower end.
    `tests`: of several attacks the better one.
    """

    evidence = Evidence.CERTIFIED
    method = "closed_form"

    def __init__(
        self, tests: tuple[ThresholdTests, ...], backward: tuple[ThresholdTests, ...], above: AbstractTradeOff
    ) -> None:
        """`backward`: the tests of the other direction."""
        self._tests, self._backward, self._above = tests, backward, above

    @property
    @override
    def largest_log_ratio(self) -> Enclosure:
        """Infinite, as (1 - F_b)/(1 - F_a) is at infinity where b > a, and F_b/F_a at minus infinity where b < a."""
        return Enclosure.point(math.inf)

    @property
    @override
    def smallest_log_ratio(self) -> Enclosure:
        """Minus infinity: F_b/F_a falls to 0 at minus infinity where b > a."""
        return Enclosure.point(-math.inf)

    @property
    @override
    def singular_power(self) -> Enclosure:
        return Enclosure(0.0, self._above.singular_power.upper, self.evidence)

    @property
    @override
    def global_gdp_mu(self) -> Enclosure | None:
        most = self._above.global_gdp_mu
        return None if most is None else Enclosure(0.0, most.upper, self.evidence)

    @override
    def reversed(self) -> AbstractTradeOff:
        return ThresholdCurve(self._backward, self._tests, self._above.reversed())

    @override
    @np.errstate(all="ignore")
    def _points_formula(self, alpha: FloatArray) -> CurvePoints:
        above = self._above.points(alpha)
        found = [tests.at_rates(alpha) for tests in self._tests]
        power = np.max([each.power for each in found], axis=0)
        error = np.min([each.error for each in found], axis=0)
        anything = np.full_like(alpha, np.inf)
        return CurvePoints(
            _between(log_ends(above.type_two_error)[0], error),
            _between(power, log_ends(above.power)[1]),
            EnclosureArray(-anything, anything),
        )

    @override
    def _profile_formula(self, epsilon: FloatArray) -> EnclosureArray:
        found = np.max([tests.best(epsilon, log_delta) for tests in self._tests], axis=0)
        return _between(found - SLACK * (1 + np.abs(found)), log_ends(self._above.profile(epsilon))[1])

    @override
    def _epsilon_formula(self, delta: float) -> Enclosure:
        most = self._above.epsilon(delta).upper
        found = max(float(tests.best(np.array([math.log(delta)]), epsilon_at)[0]) for tests in self._tests)
        return Enclosure(min(max(found, 0.0), most), most, self.evidence)


def _rates(h0: LogTails, h1: LogTails) -> Rates:
    return Rates(h0.above_high, h0.below_low, h1.above_low, h1.below_high)


def _swapped(tails: LogTails) -> LogTails:
    return LogTails(tails.above_low, tails.above_high, tails.below_low, tails.below_high)


def _gap(x: FloatArray, at: IndexArray) -> FloatArray:
    """The distance to the farther neighbour of each place."""
    steps = np.concatenate(([0.0], np.abs(np.diff(x)), [0.0]))
    return np.maximum(steps[at], steps[at + 1])


def _between(low: FloatArray, high: FloatArray) -> EnclosureArray:
    """Two lines of reasoning about one truth: where rounding puts them out of order the upper end holds both."""
    low = np.where(np.isnan(low), -np.inf, low)
    return EnclosureArray.from_logs(np.minimum(low, high), np.minimum(high, 0.0))
