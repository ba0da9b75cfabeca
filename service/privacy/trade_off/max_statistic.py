"""Threshold tests on the maximum of many normal numbers, one of which is shifted.

Z_1 .. Z_T are independent N(0, 1), and one of them is shifted by a >= 0. Then P(max <= x) = Phi(x - a) Phi(x)^(T-1) =
F_a(x). This law does not depend on the index of the shifted number, so that a secret choice of the index changes
nothing. An attacker who compares the maximum with a threshold attains the lower bounds in this module.
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
from service.privacy.numerics.work import count_work
from service.privacy.trade_off.abstract import AbstractTradeOff, CurvePoints
from service.privacy.trade_off.enclosed.logs import log_ends
from service.privacy.trade_off.shifted.location_law import NORMAL

LEFTMOST: Final = -9.0
RIGHTMOST: Final = 40.0
"""Standard deviations from a mode to thresholds whose tails underflow, on the left and on the right."""


class LogTails(NamedTuple):
    """Bounds of the log tails of a maximum: ln P(max <= x) (`below_`) and ln P(max > x) (`above_`).

    Each of the four arrays has a lower (`_low`) or upper (`_high`) bound for each x.
    """

    below_low: FloatArray
    below_high: FloatArray
    above_low: FloatArray
    above_high: FloatArray


@final
@dataclass(frozen=True, slots=True)
class LargestOfMany:
    """Law of the maximum of T independent normal numbers, one of which is shifted.

    Attributes
    ----------
    count : int
        T >= 1.
    shift : float
        Exact shift a >= 0.
    """

    count: int
    shift: float

    def tails(self, x: FloatArray) -> LogTails:
        """Return bounds of ln P(max <= x) and ln P(max > x) at finite doubles x, shape (n,).

        The maximum is over T normal numbers, one of them shifted by a. u = 2^-53 is the unit of rounding.

        Notes
        -----
        ln F = ln Phi(x - a) + (T - 1) ln Phi(x). The rounding of t = x - a moves ln Phi(t) by at most 4 u |ln Phi(t)|
        where t < 0. Elsewhere it moves ln Phi(t) by at most t^2 u |ln Phi(t)|, as phi(t)/Phi(t) <= |t| + 1. The error
        of the functions is at most half of the error allowed here (`enclosed/ulps.py`). ln(1 - F) = ln(-expm1(ln F))
        moves relatively by no more than ln F, as y/(e^y - 1) <= 1.
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
    """Return candidate thresholds for the maximum of `count` normal numbers, one of them shifted, shape (n,).

    They are ascending multiples of `spacing`, and serve any of the `shifts`.
    """
    typical = math.sqrt(2 * math.log(count)) if count > 1 else 0.0
    ends = [(mode + LEFTMOST, mode + RIGHTMOST) for mode in (0.0, typical, *shifts)]
    places = [
        np.arange(math.floor(low / spacing), math.ceil(high / spacing) + 1, dtype=np.float64) for low, high in ends
    ]
    return np.unique(np.concatenate(places)) * spacing


SLACK: Final = 8 * FUNCTION_ERROR
FINER: Final = np.linspace(-1.0, 1.0, 33)
ROUNDS: Final = 5
"""Rounds of refinement. Each round has a grid around the best threshold that is 16 times finer."""
COARSE: Final = 0.125
"""Distance of the thresholds of the first grid, in standard deviations."""
BISECTIONS: Final = 64
A_SEARCH, A_VALUE = 400.0, 25.0
"""CPU time in microseconds of a search for thresholds, and of each value in it."""
CHUNK: Final = 1 << 20
"""Largest count of values times thresholds in one array."""


class Rates(NamedTuple):
    """Error rates of tests in logarithms, arrays of one shape.

    Attributes
    ----------
    alpha, rest : array
        ln of the false positive rate (upper bounds), and of its complement (lower bounds).
    power, error : array
        ln of the power (lower bounds), and of the type II error (upper bounds).
    """

    alpha: FloatArray
    rest: FloatArray
    power: FloatArray
    error: FloatArray


@final
@dataclass(frozen=True)
class ThresholdTests:
    """Tests that compare the maximum of T normal numbers with a threshold.

    Attributes
    ----------
    absent, present : LargestOfMany
        Laws of the maximum under H0 (record absent) and H1. The attacker decides for the hypothesis with the larger
        shift above the threshold.
    """

    absent: LargestOfMany
    present: LargestOfMany

    @cached_property
    def coarse(self) -> tuple[FloatArray, Rates]:
        """Widely spaced thresholds, in the order of rising false positive rates, and the error rates of their tests."""
        return self.spaced(COARSE)

    def spaced(self, spacing: float) -> tuple[FloatArray, Rates]:
        """Return thresholds at equal distances, with the error rates of their tests.

        Parameters
        ----------
        spacing : float
            Distance in standard deviations of a number.

        Returns
        -------
        (array, Rates)
            Thresholds in the order of rising false positive rates, and their rates.
        """
        x = thresholds(self.absent.count, (self.absent.shift, self.present.shift), spacing)
        x = x[::-1] if self._above else x
        return x, self.rates(x)

    @property
    def _above(self) -> bool:
        return self.present.shift > self.absent.shift

    @np.errstate(all="ignore")
    def rates(self, x: FloatArray) -> Rates:
        """Return bounds of the error rates of the tests with the thresholds `x`, in logarithms, in the shape of x."""
        h0, h1 = self.absent.tails(x), self.present.tails(x)
        return _rates(h0, h1) if self._above else _rates(_swapped(h0), _swapped(h1))

    def at_rates(self, alpha: FloatArray) -> Rates:
        """Return the error rates of tests whose false positive rate is at most alpha, and near alpha by a bisection.

        The false positive rates are proved. If even the first threshold has a larger rate, the test never rejects H0,
        with power 0.
        """
        count_work(A_SEARCH + A_VALUE * len(alpha))
        x, known = self.coarse
        place = np.searchsorted(known.alpha, np.log(alpha) * (1 + FUNCTION_ERROR))
        inside = x[np.clip(place - 1, 0, len(x) - 1)]
        outside = x[np.clip(place, 0, len(x) - 1)]
        log_alpha = np.log(alpha) - FUNCTION_ERROR * (1 + np.abs(np.log(alpha)))
        inside, _ = many_bisected(lambda x: ~(self.rates(x).alpha <= log_alpha), inside, outside, BISECTIONS)
        found = self.rates(inside)
        useless = found.alpha > log_alpha
        # If even the first threshold has too large a false positive rate, the attack calls nobody a member.
        return Rates(
            found.alpha,
            found.rest,
            np.where(useless, -np.inf, found.power),
            np.where(useless, 0.0, found.error),
        )

    def best(self, values: FloatArray, gain: Gain) -> FloatArray:
        """Return the largest gain over all thresholds, for each value.

        Parameters
        ----------
        values : array, shape (n,)
            Arguments of the gain, such as epsilons or false positive rates.
        gain : callable
            Returns the gain at a value, given the rates of a test, for example `log_delta`.

        Returns
        -------
        array, shape (n,)
            The largest gains.
        """
        count_work(A_SEARCH + A_VALUE * len(values))
        found = np.full(len(values), -np.inf)
        x, known = self.coarse
        size = max(CHUNK // len(x), 1)
        for start in range(0, len(values), size):
            some = slice(start, start + size)
            requested = values[some, None]
            gains = gain(requested, known)
            at = np.argmax(gains, axis=1)
            reached = gains[np.arange(len(at)), at]
            centre, width = x[at], _gap(x, at)
            for _ in range(ROUNDS):
                near = centre[:, None] + width[:, None] * FINER
                gains = gain(requested, self.rates(near))
                at = np.argmax(gains, axis=1)
                reached = np.maximum(reached, gains[np.arange(len(at)), at])
                centre, width = near[np.arange(len(at)), at], width / 16
            found[some] = reached
        return found


Gain = Callable[[FloatArray, Rates], FloatArray]
"""Gain of tests at values, with broadcasting: a lower bound of delta at an epsilon, or of epsilon at a delta."""


@np.errstate(all="ignore")
def log_delta(epsilon: FloatArray, rates: Rates) -> FloatArray:
    """Return ln(power - e^`epsilon` alpha) of tests with the bounds `rates`, a lower bound of ln of the profile.

    alpha is the false positive rate of a test. The shapes are broadcast, and the result is minus infinity where the
    difference is not positive. For epsilon < 0 the argument is computed as (1 - e^epsilon) + e^epsilon (1 - alpha) - (1
    - power).
    """
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
    """Return ln((power - delta)/alpha) of tests with the bounds `rates`, a lower bound of epsilon(delta) in nats.

    alpha is the false positive rate of a test, and ln(delta) is `log_delta`.
    """
    left = np.log1p(-np.exp(np.minimum(log_delta - rates.power + SLACK * (2 + np.abs(log_delta)), 0.0)))
    found = rates.power + left - rates.alpha
    found -= SLACK * (1 + np.abs(rates.power) + np.abs(left) + np.abs(rates.alpha))
    return np.nan_to_num(found, nan=-np.inf, neginf=-np.inf)


@final
class ThresholdCurve(AbstractTradeOff):
    """Trade-off curve with lower bounds of the power from threshold tests, and upper bounds from the curve `above`.

    A search finds the threshold of each test, and every result of the search is valid. If `tests` has several attacks,
    the stronger attack counts at each rate.
    """

    evidence = Evidence.CERTIFIED
    method = "closed_form"

    def __init__(
        self, tests: tuple[ThresholdTests, ...], backward: tuple[ThresholdTests, ...], above: AbstractTradeOff
    ) -> None:
        """Store the tests of this and of the other direction (`backward`), and a curve `above` of no less power."""
        self._tests, self._backward, self._above = tests, backward, above

    @property
    @override
    def largest_log_ratio(self) -> Enclosure:
        """Infinite, because the likelihood ratio of the two maxima is unbounded at one end.

        F_a is the distribution function of the maximum of normal numbers, one of them shifted by a. With shifts a (H0)
        and b (H1), (1 - F_b)/(1 - F_a) is unbounded at infinity for b > a, and F_b/F_a at minus infinity for b < a.
        """
        return Enclosure.point(math.inf)

    @property
    @override
    def smallest_log_ratio(self) -> Enclosure:
        """Minus infinity: the ratio F_b/F_a of the distribution functions tends to 0.

        F_a is the distribution function of the maximum of normal numbers, one of them shifted by a. With the shifts a
        (H0) and b > a (H1) the ratio tends to 0 at minus infinity.
        """
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
        return CurvePoints.without_slopes(
            _between(log_ends(above.type_two_error)[0], error), _between(power, log_ends(above.power)[1])
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
    """Return the distance, for each index in `at`, of that entry of `x` to the farther of its two neighbours in `x`."""
    steps = np.concatenate(([0.0], np.abs(np.diff(x)), [0.0]))
    return np.maximum(steps[at], steps[at + 1])


def _between(low: FloatArray, high: FloatArray) -> EnclosureArray:
    """Return enclosures from the logarithms `low` and `high` of bounds, arrays of one shape.

    `low` is replaced by `high` where rounding makes it larger, and by minus infinity where it is NaN.
    """
    low = np.where(np.isnan(low), -np.inf, low)
    return EnclosureArray.from_logs(np.minimum(low, high), np.minimum(high, 0.0))
