"""Bounds of one curve that follow from other numbers of the same curve, at no cost.

The profile delta(eps) = sup_alpha P(alpha) - e^eps alpha is a maximum of lines in x = e^eps: it falls, it is convex in
x, and it is 1 at x = 0. The power P rises and is concave, with P(0) >= 0 and P(1) = 1. So every enclosure of one number
bounds others:

- delta(eps) <= delta(eps') for eps >= eps', and delta(eps) lies below the chord of two larger numbers;
- delta(eps) >= P(alpha) - e^eps alpha, and P(alpha) <= e^eps alpha + delta(eps);
- P(alpha) lies above the chord of two powers, P(alpha) <= P(alpha') for alpha <= alpha', and P(alpha)/alpha falls;
- epsilon(delta) <= eps where delta(eps) <= delta, and epsilon(delta) >= eps where delta(eps) >= delta.

All ends are natural logarithms, moved outwards by `SLACK`: a few roundings of doubles are far below it. A chord whose
weights cancel is only as wide as its ends: rates and eps are exact, and so are their differences up to one rounding.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from itertools import product
from typing import Final, final

import numpy as np

SLACK: Final = 2.0**-40
"""Relative error of a logarithm, and absolute error of those near 0: it covers the roundings of exp, log and expm1."""
LARGEST_LOG: Final = 1e6
"""Beyond this a logarithm is no bound here: its rounding would be larger than what it is compared with."""
MOST_FACTS: Final = 512
"""Most numbers of a curve that others are compared with."""
NEAREST: Final = 6
"""Ends of chords on either side of a number: the nearest ones are the best where ends are convex."""

Logs = tuple[float, float]
"""Natural logarithms of a lower and an upper end."""


@final
@dataclass
class JointBounds:
    """Enclosures of one curve: `profile` by eps (nats, >= 0), `power` by alpha in (0, 1), `epsilon` by delta in (0, 1).

    Enclosures of the profile and of the power are natural logarithms of their ends; those of epsilon are nats. All
    numbers are recorded before the first bound is read.
    """

    profile: dict[float, Logs] = field(default_factory=dict[float, Logs])
    power: dict[float, Logs] = field(default_factory=dict[float, Logs])
    epsilon: dict[float, Logs] = field(default_factory=dict[float, Logs])

    @property
    def is_full(self) -> bool:
        """Whether no more numbers are recorded."""
        return len(self.profile) + len(self.power) + len(self.epsilon) >= MOST_FACTS

    def log_profile(self, eps: float) -> Logs:
        """Return ln delta(eps) between two logarithms; eps >= 0."""
        below = (high for each, high in self._highest if each <= eps)
        above = (low for each, low in self._lowest if each >= eps)
        lines = (_log_difference(low, eps + math.log(alpha)) for alpha, (low, _) in self.power.items())
        return max([-math.inf, *above, *lines]), min([0.0, *below, *self._chords(eps)])

    def log_power(self, alpha: float) -> Logs:
        """Return ln P(alpha) between two logarithms; 0 < alpha < 1."""
        log_alpha = math.log(alpha)
        highs = [0.0]
        highs += (high for rate, (_, high) in self.power.items() if rate >= alpha)
        highs += (_up(high + log_alpha - math.log(rate)) for rate, (_, high) in self.power.items() if rate < alpha)
        highs += (_up(_log_sum(eps + log_alpha, high)) for eps, high in self._highest)
        return max([_down(log_alpha), *self._chords_below(alpha)]), min(highs)

    def epsilon_ends(self, delta: float) -> Logs:
        """Return epsilon(delta) >= 0 between two numbers of nats; 0 < delta < 1."""
        log_delta = math.log(delta)
        lows = [eps for eps, low in self._lowest if low > _up(log_delta)]
        lows += (_down(_log_difference(low, log_delta) - math.log(rate)) for rate, (low, _) in self.power.items())
        high = min((eps for eps, end in self._highest if end <= _down(log_delta)), default=math.inf)
        return max([0.0, *lows]), self._least_eps(log_delta, high)

    def _least_eps(self, log_delta: float, high: float) -> float:
        """Return an eps <= `high` at which the upper end of the profile is at most delta, which it is at `high`.

        Where a chord falls to delta, (x'' - x)/(x'' - x') = (delta - delta'')/(delta' - delta''), with x = e^eps.
        """
        log_delta = _down(log_delta)
        points = self._highest
        lefts = [(-math.inf, 0.0), *(point for point in points if point[0] < high)][-NEAREST:]
        rights = [point for point in points if point[0] >= high and point[1] < log_delta][:NEAREST]
        for (left, above), (right, below) in product(lefts, rights):
            first, second = _up(above), _up(below)
            if not second < log_delta < first < math.inf:
                continue
            whole = _log_one_minus_exp(second - first)
            at_left = log_delta - first + _log_one_minus_exp(second - log_delta) - whole
            at_right = _log_one_minus_exp(log_delta - first) - whole
            eps = _log_sum(left + at_left, right + at_right)
            high = min(high, max(eps + SLACK * max(1.0, abs(eps), right, -log_delta, -first), 0.0))
        return high

    @cached_property
    def _highest(self) -> list[Logs]:
        """Pairs (eps, upper end of ln delta(eps)), by eps."""
        found = [(eps, high) for eps, (_, high) in self.profile.items()]
        found += ((high, _up(math.log(delta))) for delta, (_, high) in self.epsilon.items() if high < math.inf)
        return sorted(found)

    @cached_property
    def _lowest(self) -> list[Logs]:
        """Pairs (eps, lower end of ln delta(eps))."""
        found = [(eps, low) for eps, (low, _) in self.profile.items()]
        found += ((low, _down(math.log(delta))) for delta, (low, _) in self.epsilon.items() if low > 0)
        return found

    def _chords(self, eps: float) -> Iterator[float]:
        """Yield upper ends of ln delta(eps): between two points of the profile, the first of which may be (x = 0, 1).

        With x = e^eps a chord has the weights (x'' - x)/(x'' - x') and (x - x')/(x'' - x').
        """
        points = self._highest
        lefts = [(-math.inf, 0.0), *(point for point in points if point[0] < eps)][-NEAREST:]
        rights = [point for point in points if point[0] > eps][:NEAREST]
        for (left, first), (right, second) in product(lefts, rights):
            whole = _log_one_minus_exp(left - right)
            weight = _log_one_minus_exp(eps - right) - whole
            other = eps - right + _log_one_minus_exp(left - eps) - whole
            yield _up(_log_sum(weight + first, other + second))

    def _chords_below(self, alpha: float) -> Iterator[float]:
        """Yield lower ends of ln P(alpha): on chords of two lower ends, with (0, 0) and (1, 1) among them."""
        points = sorted([(0.0, -math.inf), (1.0, 0.0), *((rate, low) for rate, (low, _) in self.power.items())])
        lefts = [point for point in points if point[0] < alpha][-NEAREST:]
        rights = [point for point in points if point[0] > alpha][:NEAREST]
        for (left, first), (right, second) in product(lefts, rights):
            whole = math.log(right - left)  # a quotient of subnormal rates would be rounded too far
            weights = math.log(right - alpha) - whole, math.log(alpha - left) - whole
            yield _down(_log_sum(weights[0] + first, weights[1] + second))


def _up(log: float) -> float:
    """Return an upper end; infinity where the rounding of the logarithm is too large."""
    if log == -math.inf:
        return log
    return log + SLACK * max(1.0, abs(log)) if abs(log) < LARGEST_LOG else math.inf


def _down(log: float) -> float:
    """Return a lower end; minus infinity where the rounding of the logarithm is too large."""
    return log - SLACK * max(1.0, abs(log)) if abs(log) < LARGEST_LOG else -math.inf


def _log_sum(first: float, second: float) -> float:
    """Return ln(e^a + e^b)."""
    return float(np.logaddexp(first, second))


def _log_difference(first: float, second: float) -> float:
    """Return a lower end of ln(e^a - e^b) for a, b with the error of `SLACK`; -inf where there is none."""
    first, second = _down(first), _up(second)
    return _down(first + _log_one_minus_exp(second - first)) if first > second else -math.inf


def _log_one_minus_exp(log: float) -> float:
    """Return ln(1 - e^a) for a < 0."""
    return math.log(-math.expm1(log)) if log > -math.log(2) else math.log1p(-math.exp(log))
