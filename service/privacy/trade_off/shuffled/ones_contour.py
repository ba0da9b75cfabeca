"""Tests of the number of ones among many shuffled binary reports, by contour integrals. `ones.py` has the notation.

**Contour.** Let K(s) = ln E e^{s R}. For s = s0 + i t with s0 > 0, r(J - 1) is 1/(2 pi) times the integral of e^{K(s) -
s (J - 1)} over -pi < t < pi, and P(R >= J) that of e^{K(s) - s J}/(1 - e^-s).

**Aliasing.** The mean over N nodes is sum_k f(J + k N) e^{s0 k N} for both functions f. They are at most 1, and at most
e^{K(s1) - s1 (J - 1)} for s1 > s0. Two geometric series follow.

**Truncation.** The tilted law has |1 - a' + a' e^{it}|^2 = 1 - 4 a' (1 - a') sin^2(t/2), which falls for 0 < t < pi.
Beyond the last node, the integrand is at most its bound there, with |1 - e^-s| >= 1 - e^-s0.

**Rounding.** Let a' be the share of a tilted law. Its transform, turned by its mean, is (1 - a') e^{-i a' t} + a' e^{i
(1 - a') t}. In its imaginary part a' (1 - a') t cancels exactly: what is left is (1 - a') k(a' t) - a' k((1 - a') t)
with k(x) = x - sin x <= x^3/6, which has relative digits. The mean of R minus J, the tilts a', K(s0) and E have 40
digits. So the rounding of a' to a double changes each of n angles by at most u t^2, and each logarithm of a size by at
most u t^2. p has 40 digits, too, which changes masses by less than 1e-28 of them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Final, final

import numpy as np

from service.privacy.numerics.arrays import FloatArray
from service.privacy.numerics.rounding import UNIT_ROUNDOFF, sum_error
from service.privacy.numerics.work import count_work
from service.privacy.trade_off.shuffled.drawn_tests import DrawnTests
from service.privacy.trade_off.shuffled.mean_form import DIGITS, exponential

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
"""Distances of tilts for the bound of aliases, as shares of half the length over the variance."""


Ends = tuple[FloatArray, FloatArray]
"""Lower and upper bounds, two arrays of one shape."""


@final
@dataclass(frozen=True, slots=True)
class OnesNear:
    """Tests "at least J ones" for some J around the best one at a threshold, and bounds of ln delta there.

    Attributes
    ----------
    log_low, log_high : float
        Bounds of ln delta.
    tests : DrawnTests
        The tests.
    """

    log_low: float
    log_high: float
    tests: DrawnTests


@final
class OnesContour:
    """Contour integrals of r(J - 1) and P(R >= J) for several J at one tilt.

    Parameters
    ----------
    shares : (Fraction, Fraction)
        Probabilities a and b.
    kinds : (int, int)
        Numbers of other persons who hold 1 and 0.
    epsilon : float
        Threshold in [0, eps0), nats.
    """

    def __init__(self, shares: tuple[Fraction, Fraction], kinds: tuple[int, int], epsilon: float) -> None:
        self.exact_shares, self.kinds = shares, kinds
        p, threshold = shares[0] / shares[1], exponential(epsilon)
        self.excess, self.first = float(threshold - 1), max(float((p - threshold) / (p + 1)), 0.0)
        spread = math.sqrt(sum(kinds) * float(shares[0] * shares[1]))
        # The tilt at which r(J - 1)/r(J) is (p E - 1)/(p - E), where P(J) = E Q(J).
        rise = float((p + 1) * (threshold - 1) / (p - threshold)) if p > threshold else 1e300
        crossing = math.log1p(rise)
        self.tilt = max(crossing, LEAST_TILT / max(spread, 1.0))
        self.start = math.floor(self._mean(self._tilted(crossing))) + 1
        self.exact_tilted = self._tilted(self.tilt)
        self.tilted = tuple(map(float, self.exact_tilted))
        self.variance = math.fsum(
            count * float(each * (1 - each)) for count, each in zip(self.kinds, self.exact_tilted, strict=True)
        )

    def _tilted(self, tilt: float) -> tuple[Fraction, ...]:
        grown = exponential(tilt)
        return tuple(share * grown / (1 - share + share * grown) for share in self.exact_shares)

    def _mean(self, shares: tuple[Fraction, ...]) -> Fraction:
        return sum((count * share for count, share in zip(self.kinds, shares, strict=True)), Fraction(0))

    def _moment(self, tilt: float, number: float) -> float:
        """Return K(s) - s J at a real tilt s for J = `number`, within a few roundings.

        K is the log-moment function of the number of ones.
        """
        import mpmath

        many_digits: Any = mpmath
        with many_digits.workdps(DIGITS):
            grown = many_digits.exp(many_digits.mpf(tilt))
            p = many_digits.mpf(self.exact_shares[0].numerator) / self.exact_shares[0].denominator
            logs = (many_digits.log(1 - share + share * grown) for share in (p, 1 - p))
            total = sum(count * each for count, each in zip(self.kinds, logs, strict=True))
            return float(total - many_digits.mpf(tilt) * many_digits.mpf(number))

    def _rough_moment(self, tilt: float, number: float) -> float:
        """Return an upper bound of K(s) - s J at a real tilt s for J = `number`."""
        grown = math.expm1(tilt)
        parts = [count * math.log1p(float(p) * grown) for count, p in zip(self.kinds, self.exact_shares, strict=True)]
        parts.append(-tilt * number)
        return math.fsum(parts) + 64 * UNIT_ROUNDOFF * math.fsum(map(abs, parts))

    def maximum(self) -> OnesNear:
        """Return tests around the J with the largest G(J), and bounds of ln G there."""
        start = float(self.start)
        mass, tail, scale = self._values(start + AROUND)
        for _ in range(MOST_MOVES):
            low = self.first * mass[0] * (1 - SLACK) - self.excess * tail[1] * (1 + SLACK)
            high = self.first * mass[1] * (1 + SLACK) - self.excess * tail[0] * (1 - SLACK)
            best = int(np.argmax(low))
            left, right = np.flatnonzero(high[:best] < low[best]), np.flatnonzero(high[best + 1 :] < low[best])
            if len(left) and len(right):
                most = float(high[left[-1] + 1 : best + 1 + right[0]].max())
                return self._found((float(low[best]), most), scale, mass, tail)
            start += AROUND[0] + 1 if not len(left) else AROUND[-1] - 1
            mass, tail, scale = self._values(start + AROUND)
        return self._found((0.0, math.inf), scale, mass, tail)

    def _found(self, ends: tuple[float, float], scale: float, mass: Ends, tail: Ends) -> OnesNear:
        room = 8 * UNIT_ROUNDOFF * (1 + abs(scale))
        low = math.log(ends[0]) + scale - room if ends[0] > 0 else -math.inf
        high = math.log(ends[1]) + scale + room if ends[1] > 0 else -math.inf
        if not low <= high < math.inf:  # out of the range of doubles
            low, high = -math.inf, 0.0
        if scale > LARGEST_SCALE:  # no bound of a test is below 1
            return OnesNear(low, min(high, 0.0), DrawnTests.of(np.ones(1), np.zeros(1)))
        more, less = math.exp(scale + room), math.exp(scale - room)
        a, b = (float(each) for each in self.exact_shares)
        rate = (tail[1] + b * mass[1]) * more * (1 + SLACK) + TINY
        power = (tail[0] + a * mass[0]) * less * (1 - SLACK)
        return OnesNear(low, min(high, 0.0), DrawnTests.of(rate, power))

    def _values(self, numbers: FloatArray) -> tuple[Ends, Ends, float]:
        """Return bounds of r(J - 1) and of P(R >= J) for each J of `numbers`, and about ln of their unit.

        The error of the unit is a common factor of all numbers, which `_found` adds.
        """
        s0, middle = self.tilt, float(numbers[len(numbers) // 2])
        moment, deviation = self._moment(s0, middle), math.sqrt(self.variance)
        length = math.ceil(max((NATS - min(moment, 0.0)) / s0, 16 * deviation + 32))
        reach = math.pi
        if deviation > 0:
            sine = math.sqrt(NATS / 2) / deviation
            reach = min(2 * math.asin(min(sine, 1.0)), math.pi)
        last = min(math.ceil(reach * length / (2 * math.pi)) + 1, length // 2)
        count_work(0.5 * last + 60)
        t = (2 * math.pi / length) * np.arange(last + 1, dtype=np.float64)
        value, error = self._transform(t, middle)
        s = s0 + 1j * t
        weight = np.full(last + 1, 2.0 / length)
        weight[0] = 1.0 / length
        if 2 * last == length:
            weight[-1] = 1.0 / length
        offsets = numbers - middle
        turned = np.exp(-np.outer(offsets, s))
        aliases = self._aliases(numbers, length, moment)
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

    def _transform(self, t: FloatArray, middle: float) -> tuple[np.ndarray, FloatArray]:
        """Return e^{K(s0 + i t) - K(s0) - i t J} for J = `middle`, and its relative error.

        K is the log-moment function of the number of ones, and s0 the tilt of the contour.
        """
        half = np.sin(0.5 * t)
        log_size = np.zeros_like(t)
        angle = float(self._mean(self.exact_tilted) - Fraction(middle)) * t
        turns = np.abs(angle)
        for count, each in zip(self.kinds, self.tilted, strict=True):
            log_size += 0.5 * count * np.log1p(np.maximum(-4 * each * (1 - each) * half * half, -1 + 1e-16))
            rest = 1 - each
            first, second = np.sin(0.5 * each * t), np.sin(0.5 * rest * t)
            real = 1 - 2 * rest * first * first - 2 * each * second * second
            # The imaginary part of the turned transform is that of the defects, with this sign.
            turned = count * np.arctan2(rest * _sine_defect(each * t) - each * _sine_defect(rest * t), real)
            angle, turns = angle + turned, turns + np.abs(turned)
        size = np.exp(np.maximum(log_size, -700.0))
        total, cubes = sum(self.kinds), t * t * t
        error = UNIT_ROUNDOFF * (total * (4 * t * t + 32 * cubes) + 16 * (1 + np.abs(log_size) + turns))
        return size * np.exp(1j * angle), error

    def _aliases(self, numbers: FloatArray, length: int, moment: float) -> FloatArray:
        s0, middle = self.tilt, float(numbers[len(numbers) // 2])
        offsets = numbers - middle
        right = np.full_like(offsets, np.inf)
        for share in SHARES:  # every s1 > s0 gives a bound
            s1 = s0 + share * min(0.5 * length / max(self.variance, 0.05), 40.0)
            drop = (s1 - s0) * length
            other = self._rough_moment(s1, middle) - moment - drop - math.log(-math.expm1(-drop))
            right = np.minimum(right, other - s1 * (offsets - 1))
        fall = s0 * length
        left = -moment - fall - math.log(-math.expm1(-fall)) + 0 * offsets
        right, left = (np.exp(np.minimum(each, 690.0)) for each in (right, left))
        return (right + left) * (1 + 1e-9)


def _sine_defect(x: FloatArray) -> FloatArray:
    """Return x - sin x for 0 <= x <= pi with a relative error of about 8 roundings."""
    square = x * x
    series = np.ones_like(x)
    for k in (21.0, 19.0, 17.0, 15.0, 13.0, 11.0, 9.0, 7.0, 5.0):
        series = 1 - square / (k * (k - 1)) * series
    return np.where(x < 1, x * square / 6 * series, x - np.sin(x))
