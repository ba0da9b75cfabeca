"""Slow, independent reference: hypotheses as distribution functions in mpmath, and tests as thresholds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import mpmath
from mpmath import mpf

Real: TypeAlias = mpf
DIGITS = 60


def normal_tail(y: Real) -> Real:
    """Return P(N(0,1) > y), the normal tail."""
    return mpmath.erfc(y / mpmath.sqrt(2)) / 2


def laplace_tail(y: Real) -> Real:
    """Return P(Laplace(1) > y), the Laplace tail."""
    return mpmath.exp(-y) / 2 if y >= 0 else 1 - mpmath.exp(y) / 2


@dataclass(frozen=True)
class Pair:
    """Two hypotheses about an outcome y: H0 has the law F, and H1 is (1 - p) F + p F(. - mu).

    The likelihood ratio increases with y, so the best tests are y > t.
    """

    tail: Callable[[Real], Real]
    mu: Real
    rate: Real

    def power_tail(self, t: Real) -> Real:
        return (1 - self.rate) * self.tail(t) + self.rate * self.tail(t - self.mu)

    def power_head(self, t: Real) -> Real:
        return (1 - self.rate) * self.tail(-t) + self.rate * self.tail(self.mu - t)

    def add(self, alpha: float) -> tuple[Real, Real]:
        """Return (power, type II error) of the test y > t at the false positive rate `alpha`."""
        t = _solve(self.tail, mpf(alpha), self._far())
        return self.power_tail(t), self.power_head(t)

    def remove(self, alpha: float) -> tuple[Real, Real]:
        """Return (power, type II error) for swapped hypotheses: reject for y <= t."""
        t = -_solve(lambda s: self.power_head(-s), mpf(alpha), self._far())
        return self.tail(-t), self.tail(t)

    def delta_add(self, eps: float, threshold: Real | None) -> Real:
        """Return P1(y > t) - e^eps P0(y > t) at the t where dH1/dH0 is e^eps.

        The threshold is None if no y exceeds it.
        """
        if threshold is None:
            return mpf(0)
        return self.power_tail(threshold) - mpmath.exp(mpf(eps)) * self.tail(threshold)

    def delta_remove(self, eps: float, threshold: Real | None) -> Real:
        """Return P0(y <= t) - e^eps P1(y <= t) at the t where dH0/dH1 is e^eps."""
        if threshold is None:
            return mpf(0)
        return self.tail(-threshold) - mpmath.exp(mpf(eps)) * self.power_head(threshold)

    def _far(self) -> Real:
        return self.mu + 60 if self.tail is normal_tail else self.mu + 2000


def gaussian_pair(noise_multiplier: float, rate: float = 1.0) -> Pair:
    return Pair(normal_tail, 1 / mpf(noise_multiplier), mpf(rate))


def laplace_pair(noise_multiplier: float, rate: float = 1.0) -> Pair:
    return Pair(laplace_tail, 1 / mpf(noise_multiplier), mpf(rate))


def threshold(pair: Pair, ratio: Real) -> Real | None:
    """Return the y at which dH1/dH0 equals `ratio` (any y of a flat piece); minus infinity below all ratios, None
    above.
    """
    excess = (ratio - (1 - pair.rate)) / pair.rate
    if excess <= 0:
        return -mpmath.inf
    log = mpmath.log(excess)
    if pair.tail is normal_tail:
        return log / pair.mu + pair.mu / 2
    if log > pair.mu:
        return None
    return -mpmath.inf if log < -pair.mu else (log + pair.mu) / 2


def _solve(falling: Callable[[Real], Real], level: Real, far: Real) -> Real:
    """Return the t with falling(t) = level, by bisection in logarithms to working precision."""
    low, high = -far, far
    while falling(high) > level:
        high *= 2
    for _ in range(int(mpmath.mp.prec * 1.2) + 20):
        middle = (low + high) / 2
        if falling(middle) > level:
            low = middle
        else:
            high = middle
    return (low + high) / 2
