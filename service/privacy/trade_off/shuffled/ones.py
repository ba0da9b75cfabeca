"""Number of ones among shuffled binary reports, when m of the other persons hold 1.

Every report is the true bit with probability a = p/(p + 1), p = e^eps0, and the other bit with probability b = 1 - a.
The reports of the others have R = Bin(m, a) + Bin(n - 1 - m, b) ones, with masses r(j). The own bit is 1 under H1 and 0
under H0. So the shuffled reports, which are their number of ones, have the masses

    P(j) = a r(j - 1) + b r(j),    Q(j) = b r(j - 1) + a r(j).

r is log-concave, so r(j - 1)/r(j) and the loss ln P(j)/Q(j) rise with j. Let E = e^eps, c1 = (p - E)/(p + 1) and c2 =
(1 - p E)/(p + 1). The term P(j) - E Q(j) = c1 r(j - 1) + c2 r(j) changes its sign once. So delta(eps) = max_J G(J) with
G(J) = c1 P(R >= J - 1) + c2 P(R >= J).

**Contour.** Let K(s) = ln E e^{s R}. For s = s0 + i t with s0 > 0, P(R >= J) is 1/(2 pi) times the integral of e^{K(s)
- s J}/(1 - e^-s) over -pi < t < pi. So G(J) = (1/2 pi) int (c1 e^s + c2) e^{K(s) - s J}/(1 - e^-s) dt.

**Aliasing.** The mean over N nodes is sum_k G(J + k N) e^{s0 k N}. |G| is at most c = |c1| + |c2|, and |G(J)| <= c P(R
>= J - 1) <= c e^{K(s1) - s1 (J - 1)} for s1 > s0. Two geometric series follow.

**Truncation.** The tilted law has |1 - a' + a' e^{it}|^2 = 1 - 4 a' (1 - a') sin^2(t/2), which falls for 0 < t < pi.
Beyond the last node, the integrand is at most its bound there, with |1 - e^-s| >= 1 - e^-s0.

**Rounding.** Let a' be the share of a tilted law. Its transform, turned by its mean, is (1 - a') e^{-i a' t} + a' e^{i
(1 - a') t}. In its imaginary part a' (1 - a') t cancels exactly: what is left is (1 - a') k(a' t) - a' k((1 - a') t)
with k(x) = x - sin x <= x^3/6, which has relative digits. The mean of R minus J, the tilts a', K(s0) and E have 40
digits. So the rounding of a' to a double changes each of n angles by at most u t^2, and each logarithm of a size by at
most u t^2.

G rises, then falls in J. If it is smaller at two numbers around a third one, its maximum is between the two.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Final, final

import numpy as np

from service.privacy.numerics.arrays import FloatArray
from service.privacy.numerics.rounding import FUNCTION_ERROR, UNIT_ROUNDOFF, sum_error
from service.privacy.numerics.work import count_work
from service.privacy.trade_off.atomic_law import AtomicLaw
from service.privacy.trade_off.shuffled.mean_atoms import law_of_outcomes
from service.privacy.trade_off.shuffled.mean_form import DIGITS, exponential

NATS: Final = 60.0
"""Nats by which neglected parts are smaller than the integral."""
LEAST_TILT: Final = 2.5
"""Smallest tilt, in units of 1 over the standard deviation of R."""
AROUND: Final = np.arange(-6.0, 7.0)
MOST_MOVES: Final = 30
SHARES: Final = (1.0, 0.3, 0.1, 0.03, 0.01)
"""Distances of tilts for the bound of aliases, as shares of half the length over the variance."""


@final
@dataclass(frozen=True)
class Ones:
    """Pair of laws of the number of ones, for p exactly the stated fraction.

    Attributes
    ----------
    reports, others : int
        n, and the number m of other persons who hold 1.
    ratio : Fraction
        p = e^eps0 > 1.
    """

    reports: int
    others: int
    ratio: Fraction

    def swapped(self) -> Ones:
        """Return the pair with swapped hypotheses: zeros take the place of ones."""
        return Ones(self.reports, self.reports - 1 - self.others, self.ratio)

    @property
    def is_symmetric(self) -> bool:
        """Whether swapped hypotheses give the same pair."""
        return 2 * self.others == self.reports - 1

    def listed(self, error: float) -> AtomicLaw:
        """Return the law of the loss, for few reports; `error` bounds the relative error of p."""
        truth = float(self.ratio / (self.ratio + 1))
        other = float(1 / (self.ratio + 1))
        masses = np.convolve(_binomial(self.others, truth, other), _binomial(self.swapped().others, other, truth))
        before, after = np.concatenate([[0.0], masses]), np.concatenate([masses, [0.0]])
        present, absent = truth * before + other * after, other * before + truth * after
        relative = 2 * self.reports * (error + 4 * UNIT_ROUNDOFF) + 8 * FUNCTION_ERROR
        relative += 2 * self.reports * UNIT_ROUNDOFF
        logs = np.log(absent), np.log(present)
        relative += FUNCTION_ERROR * float(max(np.abs(each).max() for each in logs))
        return law_of_outcomes(*logs, relative, self.is_symmetric)

    def log_delta(self, epsilon: float) -> tuple[float, float]:
        """Return bounds of ln of the privacy profile delta(eps).

        Parameters
        ----------
        epsilon : float
            Threshold eps in [0, eps0), nats.

        Returns
        -------
        (float, float)
            Lower and upper bound.
        """
        p, threshold = self.ratio, exponential(epsilon)
        first, second = (p - threshold) / (p + 1), (1 - p * threshold) / (p + 1)
        if first <= 0:
            return -math.inf, -math.inf
        with np.errstate(all="ignore"):
            low, high = _Contour(self, first, second).maximum()
        least = math.log(low[0]) + low[1] if low[0] > 0 else -math.inf
        most = math.log(high[0]) + high[1] if high[0] > 0 else -math.inf
        if not least <= most < math.inf:  # out of the range of doubles
            return -math.inf, 0.0
        return least, most


def _binomial(count: int, truth: float, other: float) -> FloatArray:
    """Return the masses of a binomial law of `count` trials, shape (count + 1,), from exact binomial coefficients.

    `truth` is the probability of a success, and `other` its complement.
    """
    logs = np.array([math.log(math.comb(count, j)) for j in range(count + 1)])
    j = np.arange(count + 1, dtype=np.float64)
    return np.exp(logs + j * math.log(truth) + (count - j) * math.log(other))


class _Contour:
    """Contour integral of G(J) for several J at one tilt, with G of the module docstring of `ones.py`."""

    def __init__(self, ones: Ones, first: Fraction, second: Fraction) -> None:
        self.first, self.second = float(first), float(second)
        self.kinds = (ones.others, ones.swapped().others)
        self.exact_shares = (ones.ratio / (ones.ratio + 1), 1 / (ones.ratio + 1))
        spread = math.sqrt((ones.reports - 1) * float(self.exact_shares[0] * self.exact_shares[1]))
        crossing = math.log(-self.second / self.first) if second < 0 else 0.0
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

    def maximum(self) -> tuple[tuple[float, float], tuple[float, float]]:
        """Return lower and upper bound of max_J G(J), each as (factor, logarithm of the scale).

        G is that of the module docstring of `ones.py`.
        """
        start = float(self.start)
        for _ in range(MOST_MOVES):
            low, high, scale = self._values(start + AROUND)
            best = int(np.argmax(low))
            left, right = np.flatnonzero(high[:best] < low[best]), np.flatnonzero(high[best + 1 :] < low[best])
            if len(left) and len(right):
                inside = high[left[-1] + 1 : best + 1 + right[0]]
                return (float(low[best]), scale), (float(inside.max()), scale)
            start += AROUND[0] + 1 if not len(left) else AROUND[-1] - 1
        return (0.0, 0.0), (1.0, 0.0)

    def _values(self, numbers: FloatArray) -> tuple[FloatArray, FloatArray, float]:
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
        factor = (self.first * np.exp(s) + self.second) / -np.expm1(-s)
        sizes = (self.first * math.exp(s0) + abs(self.second)) / np.abs(np.expm1(-s))
        weight = np.full(last + 1, 2.0 / length)
        weight[0] = 1.0 / length
        if 2 * last == length:
            weight[-1] = 1.0 / length
        offsets = numbers - middle
        turned = np.exp(-np.outer(offsets, s))
        found = (turned @ (weight * value * factor)).real
        slack = (weight * np.abs(value) * sizes) @ (error + sum_error(last + 1) + 64 * UNIT_ROUNDOFF)
        rest = 0.0
        if 2 * last < length - 1:
            rest = float(np.abs(value[-1])) * 1.01 * float(sizes[0])
        changes = (float(slack) + rest) * np.exp(-offsets * s0)
        aliases = self._aliases(numbers, length, moment)
        room = 4 * UNIT_ROUNDOFF * (1 + abs(moment))
        low = (found - changes - aliases) * (1 - 2 * room)
        return low, (found + changes + aliases) * (1 + 2 * room), moment

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
        log_size = math.log(abs(self.first) + abs(self.second))
        right, left = (np.exp(np.minimum(each + log_size, 690.0)) for each in (right, left))
        return (right + left) * (1 + 1e-9)


def _sine_defect(x: FloatArray) -> FloatArray:
    """Return x - sin x for 0 <= x <= pi with a relative error of about 8 roundings."""
    square = x * x
    series = np.ones_like(x)
    for k in (21.0, 19.0, 17.0, 15.0, 13.0, 11.0, 9.0, 7.0, 5.0):
        series = 1 - square / (k * (k - 1)) * series
    return np.where(x < 1, x * square / 6 * series, x - np.sin(x))
