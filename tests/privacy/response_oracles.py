"""Runs of randomised responses from their definition: every loss with its masses, in many digits."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import mpmath
from mpmath import mpf

Real = Any


@dataclass(frozen=True)
class Atoms:
    """Rows (loss, H0-mass, H1-mass) of a discrete law with decreasing losses.

    It has also the mass of each hypothesis that is impossible under the second one.
    """

    rows: tuple[tuple[Real, Real, Real], ...]
    outside: Real

    @staticmethod
    def of(parts: Iterable[tuple[float, int]], outside: Real = 0) -> Atoms:
        """Return the atoms of steps (epsilon, count): binomial losses of each kind, and all sums of them.

        The rest is scaled.
        """
        kinds: list[list[tuple[Real, Real]]] = []
        for epsilon, count in parts:
            eps = mpf(epsilon)
            true, false = 1 / (1 + mpmath.exp(-eps)), 1 / (1 + mpmath.exp(eps))
            kinds.append(
                [
                    ((2 * k - count) * eps, mpmath.binomial(count, k) * false**k * true ** (count - k))
                    for k in range(count + 1)
                ]
            )
        rest, sums = 1 - mpf(outside), dict[Real, Real]()
        for chosen in itertools.product(*kinds):
            loss = mpmath.fsum(loss for loss, _ in chosen)
            sums[loss] = sums.get(loss, mpf(0)) + rest * mpmath.fprod(mass for _, mass in chosen)
        rows = tuple((loss, mass, mass * mpmath.exp(loss)) for loss, mass in sorted(sums.items(), reverse=True))
        return Atoms(rows, mpf(outside))

    @cached_property
    def vertices(self) -> tuple[tuple[Real, Real], ...]:
        """(alpha, power) of the tests that reject all losses above a threshold."""
        points = [(mpf(0), self.outside)]
        for _, null, other in self.rows:
            points.append((points[-1][0] + null, points[-1][1] + other))
        return tuple(points)

    def power(self, alpha: float) -> Real:
        """Return the power at alpha. Between vertices, the test is randomised."""
        wanted = mpf(alpha)
        for (left, low), (right, high) in itertools.pairwise(self.vertices):
            if wanted <= right:
                return min(low + (high - low) * (wanted - left) / (right - left), mpf(1))
        return mpf(1)

    def error(self, alpha: float) -> Real:
        """Return the type II error, summed from the other side to keep its digits."""
        wanted, right, low = 1 - mpf(alpha), self.outside, mpf(0)
        if wanted <= right:
            return mpf(0)
        for _, null, other in reversed(self.rows):
            if wanted <= right + null:
                return min(low + other * (wanted - right) / null, mpf(1))
            right, low = right + null, low + other
        return low

    def delta(self, epsilon: float) -> Real:
        """Return delta at eps: the sum of (q - e^eps p)_+ over the atoms of mass p under H0 and q under H1."""
        e = mpf(epsilon)
        gained = mpmath.fsum(other * -mpmath.expm1(e - loss) for loss, _, other in self.rows if loss > e)
        return min(self.outside + gained, mpf(1))

    def epsilon(self, delta: float) -> Real:
        """Return the smallest eps >= 0 with delta(eps) <= delta."""
        wanted = mpf(delta) - self.outside
        null = other = mpf(0)
        for (loss, p, q), following in zip(self.rows, [*(row[0] for row in self.rows[1:]), mpf(0)], strict=True):
            null, other = null + p, other + q
            if other - mpmath.exp(max(following, 0)) * null >= wanted or following <= 0:
                reached = mpmath.log((other - wanted) / null) if other > wanted else mpf(0)
                return max(mpf(0), min(reached, loss))
        return mpf(0)
