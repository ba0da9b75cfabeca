"""Tests of the number of ones among many shuffled binary reports, by contour integrals. `ones.py` has the notation.

**Contour.** Let K(s) = ln E e^{s R} and s = s0 + i t with s0 > 0. Integrals are over -pi < t < pi, times 1/(2 pi).
r(J - 1) is the integral of e^{K(s) - s (J - 1)}. P(R >= J) is that of e^{K(s) - s J}/(1 - e^-s).

**Aliasing.** The mean over N nodes is sum_k f(J + k N) e^{s0 k N} for both functions f. They are at most 1, and at most
e^{K(s) - s (J - 1)} for s > 0. Two geometric series follow, with s above s0 for k > 0 and below s0 for k < 0.

**Truncation.** The tilted law has |1 - a' + a' e^{it}|^2 = 1 - 4 a' (1 - a') sin^2(t/2), which falls for 0 < t < pi.
Beyond the last node, the integrand is at most its bound there, with |1 - e^-s| >= 1 - e^-s0.

**Rounding.** Let a' be the share of a tilted law. Its transform, turned by its mean, is (1 - a') e^{-i a' t} + a' e^{i
(1 - a') t}. In its imaginary part a' (1 - a') t cancels exactly: what is left is (1 - a') k(a' t) - a' k((1 - a') t)
with k(x) = x - sin x <= x^3/6, which has relative digits. The mean of R minus J, the tilts a', K(s0) and E have 40
digits. So the rounding of a' to a double changes each of n angles and each logarithm of a size by at most u t^2. p has
40 digits, too, which changes masses by less than 1e-28 of them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from operator import mul
from typing import Any, Final, final

import numpy as np

from service.privacy.numerics.arrays import FloatArray
from service.privacy.numerics.rounding import UNIT_ROUNDOFF, sum_error
from service.privacy.numerics.work import count_work
from service.privacy.trade_off.bounded_tests import BoundedTests
from service.privacy.trade_off.shuffled.mean_form import exponential

NATS: Final = 60.0
"""Nats by which neglected parts are smaller than the integral."""
LEAST_TILT: Final = 2.5
"""Smallest tilt, in units of 1 over the standard deviation of R."""
AROUND: Final = np.arange(-6.0, 7.0)
MOST_MOVES: Final = 30
SLACK: Final = 16 * UNIT_ROUNDOFF
TINY: Final = 1e-300
LARGEST_SCALE: Final = 700.0
"""Largest logarithm of the unit of probabilities whose exponential is a double."""
SHARES: Final = (1.0, 0.3, 0.1, 0.03, 0.01)
"""Distances of larger tilts for the bound of aliases, as shares of half the length over the variance."""
DISTANCES: Final = (2.0, 4.0, 8.0, 16.0)
"""Distances of smaller tilts for the bound of aliases, in units of 1 over the standard deviation of R."""
LARGE_TILT: Final = 700.0
"""Tilt above which its exponential may exceed the doubles. Probabilities of reports are above e^-101."""
BITS: Final = 200
"""Binary places of exact numbers, and `PRECISION` their relative precision in bits: more than 40 digits."""
PRECISION: Final = 140
ONE: Final = 1 << BITS
A_NODE, A_CALL = 1.5, 300.0
"""Work of a node and of a contour, in microseconds."""


Ends = tuple[FloatArray, FloatArray]
"""Lower and upper bounds, two arrays of one shape."""


@final
@dataclass(frozen=True, slots=True)
class OnesNear:
    """Tests "at least J ones" for some J around the best J at a threshold, and bounds of ln delta there.

    Attributes
    ----------
    log_low, log_high : float
        Bounds of ln delta.
    tests : BoundedTests
        The tests.
    """

    log_low: float
    log_high: float
    tests: BoundedTests


@final
class OnesContour:
    """Contour integrals of r(J - 1) = P(R = J - 1) and P(R >= J) for several J at one tilt.

    R is the number of ones in the reports of the other persons.

    Parameters
    ----------
    ratio : Fraction
        p = e^eps0, so that the probabilities of both bits are a = p/(p + 1) and b = 1/(p + 1).
    kinds : (int, int)
        Numbers of other persons who hold 1 and 0.
    epsilon : float
        Threshold in [0, eps0), nats.
    """

    def __init__(self, ratio: Fraction, kinds: tuple[int, int], epsilon: float) -> None:
        self.kinds = kinds
        p, unit = self._odds = ratio.numerator, ratio.denominator
        self.shares = p / (p + unit), unit / (p + unit)
        threshold = exponential(epsilon)
        e, of_e = threshold.numerator, threshold.denominator
        gap = p * of_e - e * unit
        self.excess, self.first = (e - of_e) / of_e, max(gap / (of_e * (p + unit)), 0.0)
        spread = math.sqrt(sum(kinds) * self.shares[0] * self.shares[1])
        # The tilt at which r(J - 1)/r(J) is (p E - 1)/(p - E), where P(J) = E Q(J).
        crossing = math.log1p((p + unit) * (e - of_e) / gap if gap > 0 else 1e300)
        self.tilt = max(crossing, LEAST_TILT / max(spread, 1.0))
        self._grown = exponential(self.tilt)
        tilted = self._tilted()
        self.tilted = tuple(math.ldexp(each, -BITS) for each in tilted)
        self._mean = sum(map(mul, kinds, tilted))
        self.variance = math.fsum(
            count * math.ldexp(each, -BITS) * math.ldexp(ONE - each, -BITS)
            for count, each in zip(kinds, tilted, strict=True)
        )
        self.start = self._rough_mean(crossing) if self.tilt > crossing else self._mean >> BITS
        self.start += 1

    def _tilted(self) -> tuple[int, int]:
        """Return the probabilities of a 1 under the tilted law, for others who hold 1 and 0, in units of 2^-BITS."""
        truth, other = self._odds
        grown, unit = self._grown.numerator, self._grown.denominator
        return (
            (truth * grown << BITS) // (other * unit + truth * grown),
            (other * grown << BITS) // (truth * unit + other * grown),
        )

    def _rough_mean(self, tilt: float) -> int:
        """Return about the mean of the number of ones of the others, under its law tilted at `tilt`."""
        grown = math.exp(min(tilt, 600.0))
        shares = zip(self.shares, self.shares[::-1], strict=True)
        return math.floor(
            math.fsum(
                count * (share * grown / (rest + share * grown))
                for count, (share, rest) in zip(self.kinds, shares, strict=True)
            )
        )

    def _moment(self, number: float) -> float:
        """Return K(s0) - s0 J at the tilt s0 of the contour for J = `number`, within a few roundings.

        K is the log-moment function of the number of ones.
        """
        import mpmath.libmp

        many_digits: Any = mpmath.libmp
        truth, other = self._odds
        grown, unit = self._grown.numerator, self._grown.denominator
        total = 0
        for count, (own, rest) in zip(self.kinds, ((truth, other), (other, truth)), strict=True):
            if count:
                ratio = many_digits.from_rational(rest * unit + own * grown, (truth + other) * unit, PRECISION)
                total += count * int(many_digits.to_fixed(many_digits.mpf_log(ratio, PRECISION), BITS))
        exact = Fraction(self.tilt) * Fraction(number)
        return float(Fraction(total, ONE) - exact)

    def _rough_moment(self, tilt: float, number: float) -> float:
        """Return an upper bound of K(s) - s J at a real tilt s for J = `number`; K(s) = ln E e^{s R} for R ones."""
        moment = _large_moment if tilt > LARGE_TILT else _moment
        parts = [count * moment(tilt, p) for count, p in zip(self.kinds, self.shares, strict=True)]
        parts.append(-tilt * number)
        return math.fsum(parts) + 64 * UNIT_ROUNDOFF * math.fsum(map(abs, parts))

    def maximum(self) -> OnesNear:
        """Return tests "at least J ones" around the best J at the threshold, and bounds of ln delta there."""
        start = float(self.start)
        # Masses at these distances differ by at most e^600 from those of the tilted law.
        around = AROUND[np.abs(AROUND) * self.tilt <= 600.0]
        mass, tail, scale = self.values(start + around)
        for _ in range(MOST_MOVES):
            low = self.first * mass[0] * (1 - SLACK) - self.excess * tail[1] * (1 + SLACK)
            high = self.first * mass[1] * (1 + SLACK) - self.excess * tail[0] * (1 - SLACK)
            best = int(np.argmax(low))
            left, right = np.flatnonzero(high[:best] < low[best]), np.flatnonzero(high[best + 1 :] < low[best])
            if len(left) and len(right):
                most = float(high[left[-1] + 1 : best + 1 + right[0]].max())
                return self._found((float(low[best]), most), scale, mass, tail)
            start += around[0] + 1 if not len(left) else around[-1] - 1
            mass, tail, scale = self.values(start + around)
        return self._found((0.0, math.inf), scale, mass, tail)

    def _found(self, ends: tuple[float, float], scale: float, mass: Ends, tail: Ends) -> OnesNear:
        room = 8 * UNIT_ROUNDOFF * (1 + abs(scale))
        low = math.log(ends[0]) + scale - room if ends[0] > 0 else -math.inf
        high = math.log(ends[1]) + scale + room if ends[1] > 0 else -math.inf
        if not low <= high < math.inf:  # out of the range of doubles
            low, high = -math.inf, 0.0
        return OnesNear(low, min(high, 0.0), self.tests(mass, tail, scale))

    def tests(self, mass: Ends, tail: Ends, scale: float) -> BoundedTests:
        """Return the tests "at least J ones", from bounds of r(J - 1) and of P(R >= J) as `values` returns them.

        `mass` and `tail` are (lower, upper) bounds for n numbers J, shape (n,), and `scale` is ln of their
        unit. The result is a single test without any information if the unit is too large.
        """
        if scale > LARGEST_SCALE:  # no bound of a test is below 1
            return BoundedTests.of(np.ones(1), np.zeros(1))
        room = 8 * UNIT_ROUNDOFF * (1 + abs(scale))
        more, less = math.exp(scale + room), math.exp(scale - room)
        a, b = self.shares
        rate = (tail[1] + b * mass[1]) * more * (1 + SLACK) + TINY
        power = (tail[0] + a * mass[0]) * less * (1 - SLACK)
        return BoundedTests.of(rate, power)

    def values(self, numbers: FloatArray) -> tuple[Ends, Ends, float]:
        """Return bounds of P(R = J - 1) and of P(R >= J) for each J of `numbers`, and about ln of their unit.

        R is the number of ones of the others. The error of the unit is a common factor, which `_found` adds.
        """
        s0, middle = self.tilt, float(numbers[len(numbers) // 2])
        moment, deviation = self._moment(middle), math.sqrt(self.variance)
        smaller = self._smaller_tilts(middle)
        needed = min((NATS + most - min(moment, 0.0) + s2) / (s0 - s2) for s2, most in smaller)
        length = math.ceil(max(needed, 16 * deviation + 32))
        reach = math.pi
        if deviation > 0:
            sine = math.sqrt(NATS / 2) / deviation
            reach = min(2 * math.asin(min(sine, 1.0)), math.pi)
        last = min(math.ceil(reach * length / (2 * math.pi)) + 1, length // 2)
        count_work(A_NODE * last + A_CALL)
        t = (2 * math.pi / length) * np.arange(last + 1, dtype=np.float64)
        value, error = self._transform(t, middle)
        s = s0 + 1j * t
        weight = np.full(last + 1, 2.0 / length)
        weight[0] = 1.0 / length
        if 2 * last == length:
            weight[-1] = 1.0 / length
        offsets = numbers - middle
        turned = np.exp(-np.outer(offsets, s))
        aliases = self._aliases(numbers, length, moment, smaller)
        ends: list[Ends] = []
        for factor in (np.exp(s), 1 / -np.expm1(-s)):
            found = np.real(turned @ (weight * value * factor))
            sizes = weight * np.abs(value) * np.abs(factor)
            slack = float(sizes @ (error + sum_error(last + 1) + 64 * UNIT_ROUNDOFF))
            rest = float(np.abs(value[-1])) * 1.01 * float(np.abs(factor[0])) if 2 * last < length - 1 else 0.0
            changes = (slack + rest) * np.exp(-offsets * s0) + aliases
            low, high = found - changes, found + changes
            ends.append((np.maximum(low, 0.0), np.maximum(high, 0.0)))
        return ends[0], ends[1], moment

    def _smaller_tilts(self, number: float) -> list[tuple[float, float]]:
        """Return tilts s2 from 0 to below s0, each with an upper bound of K(s2) - s2 J for J = `number`.

        K is the log-moment function of the number of ones, and s0 the tilt of the contour.
        """
        unit = 1 / math.sqrt(max(self.variance, 0.05))
        tilts = [self.tilt - each * unit for each in DISTANCES]
        return [(0.0, 0.0), *((each, self._rough_moment(each, number)) for each in tilts if each > 0)]

    def _transform(self, t: FloatArray, middle: float) -> tuple[np.ndarray, FloatArray]:
        """Return e^{K(s0 + i t) - K(s0) - i t J} for J = `middle`, and a bound of its relative error.

        K is the log-moment function of the number of ones, and s0 the tilt of the contour.
        """
        half = np.sin(0.5 * t)
        log_size = np.zeros_like(t)
        angle = math.ldexp(self._mean - (int(middle) << BITS), -BITS) * t
        turns = np.abs(angle)
        some = [(count, each) for count, each in zip(self.kinds, self.tilted, strict=True) if count]
        shares = np.array([side for _, each in some for side in (each, 1 - each)])
        parts = np.outer(shares, t)
        squares, defects = np.sin(0.5 * parts) ** 2, _sine_defect(parts)
        for index, (count, each) in enumerate(some):
            log_size += 0.5 * count * np.log1p(np.maximum(-4 * each * (1 - each) * half * half, -1 + 1e-16))
            rest, at = 1 - each, 2 * index
            real = 1 - 2 * rest * squares[at] - 2 * each * squares[at + 1]
            # The imaginary part of the turned transform is that of the defects, with this sign.
            turned = count * np.arctan2(rest * defects[at] - each * defects[at + 1], real)
            angle, turns = angle + turned, turns + np.abs(turned)
        size = np.exp(np.maximum(log_size, -700.0))
        total, cubes = sum(self.kinds), t * t * t
        error = UNIT_ROUNDOFF * (total * (4 * t * t + 32 * cubes) + 16 * (1 + np.abs(log_size) + turns))
        return size * np.exp(1j * angle), error

    def _aliases(
        self, numbers: FloatArray, length: int, moment: float, smaller: list[tuple[float, float]]
    ) -> FloatArray:
        """Return bounds of the aliases (errors of the trapezoidal rule) at each J of `numbers`, divided by e^`moment`.

        `length` is the period of the aliases in J, and `moment` the log-moment K(s0) - s0 J at the contour's tilt s0.
        `smaller` has tilts below s0, with their moments (`_smaller_tilts`).
        """
        s0, middle = self.tilt, float(numbers[len(numbers) // 2])
        # Every s1 > s0 and every s2 < s0 gives a bound.
        larger = [s0 + share * min(0.5 * length / max(self.variance, 0.05), 40.0) for share in SHARES]
        sides = [(each, self._rough_moment(each, middle)) for each in larger], smaller
        offsets, total = (numbers - middle - 1)[:, None], np.zeros_like(numbers)
        for side in sides:
            tilts, logs = np.array(side).T
            falls = np.abs(tilts - s0) * length
            logs = logs - moment - falls - np.log(-np.expm1(-falls))
            total += np.exp(np.minimum((logs - tilts * offsets).min(axis=1), 690.0))
        return total * (1 + 1e-9)


def _moment(tilt: float, p: float) -> float:
    return math.log1p(p * math.expm1(tilt))


def _large_moment(tilt: float, p: float) -> float:
    """Return ln(1 - p + p e^tilt) for a probability p that is much larger than e^-`tilt`."""
    return tilt + math.log(p + (1 - p) * math.exp(-tilt))


def _sine_defect(x: FloatArray) -> FloatArray:
    """Return x - sin x for 0 <= x <= pi with a relative error of about 8 roundings."""
    square = x * x
    series = np.ones_like(x)
    for k in (21.0, 19.0, 17.0, 15.0, 13.0, 11.0, 9.0, 7.0, 5.0):
        series = 1 - square / (k * (k - 1)) * series
    return np.where(x < 1, x * square / 6 * series, x - np.sin(x))
