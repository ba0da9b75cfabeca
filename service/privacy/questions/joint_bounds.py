"""Bounds of one curve that follow from other numbers of the same curve, at no cost.

The profile delta(eps) = sup_alpha P(alpha) - e^eps alpha is a maximum of affine functions of x = e^eps. So the profile
falls, is convex in x, and equals 1 at x = 0. The power P rises and is concave, with P(0) >= 0 and P(1) = 1. Therefore
every enclosure of one number bounds others:

- delta(eps) <= delta(eps') for eps >= eps', and delta(eps) lies below the chord of two larger numbers;
- delta(eps) >= P(alpha) - e^eps alpha, and P(alpha) <= e^eps alpha + delta(eps);
- P(alpha) lies above the chord of two powers, P(alpha) <= P(alpha') for alpha <= alpha', and P(alpha)/alpha falls;
- epsilon(delta) <= eps where delta(eps) <= delta, and epsilon(delta) >= eps where delta(eps) >= delta.

All bounds are natural logarithms, moved outwards by `SLACK`, which far exceeds a few roundings of doubles. The weights
of a chord lose no digits, because rates and eps are exact and their differences are rounded once.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final, final

import numpy as np

from service.privacy.numerics.arrays import FloatArray

SLACK: Final = 2.0**-40
"""Relative error of a logarithm, absolute near 0. The slack covers the roundings of exp, log and expm1."""
LARGEST_LOG: Final = 1e6
"""Largest logarithm that serves as a bound: the rounding of larger ones would exceed the differences compared."""
MOST_FACTS: Final = 512
"""Largest count of recorded numbers of a curve."""
NEAREST: Final = 6
"""Endpoints of chords on either side of a number. The nearest endpoints are the best where the bounds are convex."""

Logs = tuple[float, float]
"""Natural logarithms of a lower and an upper bound."""
Points = tuple[FloatArray, FloatArray]
"""Abscissae, and natural logarithms of the bounds there."""


@final
@dataclass
class JointBounds:
    """Known enclosures of numbers of one trade-off curve, and the bounds that they imply for its other numbers.

    All numbers are recorded before the first bound is computed.

    Attributes
    ----------
    profile : dict of float to Logs
        By eps (nats, >= 0): natural logarithms of the (lower, upper) bounds of delta(eps).
    power : dict of float to Logs
        By alpha in (0, 1): natural logarithms of the (lower, upper) bounds of the power.
    epsilon : dict of float to (float, float)
        By delta in (0, 1): (lower, upper) bounds of epsilon (nats).
    """

    profile: dict[float, Logs] = field(default_factory=dict[float, Logs])
    power: dict[float, Logs] = field(default_factory=dict[float, Logs])
    epsilon: dict[float, Logs] = field(default_factory=dict[float, Logs])

    @property
    def is_full(self) -> bool:
        """Whether the limit of recorded numbers is reached, so that no more are recorded."""
        return len(self.profile) + len(self.power) + len(self.epsilon) >= MOST_FACTS

    @np.errstate(all="ignore")
    def log_profile(self, eps: float) -> Logs:
        """Return (lower, upper) bounds of ln delta(eps) for `eps` >= 0 in nats."""
        (at_high, high), (at_low, low) = self._highest, self._lowest
        rates, least, _ = self._powers
        lines = _log_difference(least, eps + np.log(rates))
        lower = max(_largest(low[at_low >= eps]), _largest(lines))
        return lower, min(0.0, _smallest(high[at_high <= eps]), _smallest(self._chords(eps)))

    @np.errstate(all="ignore")
    def log_power(self, alpha: float) -> Logs:
        """Return (lower, upper) bounds of ln power at the false positive rate `alpha` in (0, 1)."""
        log_alpha = math.log(alpha)
        rates, _, most = self._powers
        at_high, high = self._highest
        steeper = _up(most + log_alpha - np.log(rates))[rates < alpha]
        lines = _up(np.logaddexp(at_high + log_alpha, high))
        upper = min(0.0, _smallest(most[rates >= alpha]), _smallest(steeper), _smallest(lines))
        known, _ = self.power.get(alpha, (-math.inf, 0.0))
        return max(float(_down(log_alpha)), known, _largest(self._chords_below(alpha))), upper

    @np.errstate(all="ignore")
    def epsilon_ends(self, delta: float) -> Logs:
        """Return (lower, upper) bounds of the smallest epsilon >= 0 (nats) for a `delta` in (0, 1)."""
        log_delta = math.log(delta)
        slack = SLACK * max(1.0, -log_delta)
        (at_high, high), (at_low, low) = self._highest, self._lowest
        known = self.epsilon.get(delta, (0.0, math.inf))
        lower = max(known[0], _largest(at_low[low > log_delta + slack]))
        if self.power:
            rates, least, _ = self._powers
            lower = max(lower, _largest(_down(_log_difference(least, log_delta) - np.log(rates))))
        return lower, min(known[1], self._least_eps(log_delta - slack, _smallest(at_high[high <= log_delta - slack])))

    def _least_eps(self, log_delta: float, high: float) -> float:
        """Return the smallest eps <= `high` (nats) at which chords of recorded points bound delta by e^`log_delta`.

        The bound holds at `high` itself. A chord from (x', delta') to (x'', delta''), with x = e^eps, falls to delta
        where (x'' - x)/(x'' - x') = (delta - delta'')/(delta' - delta'').
        """
        at, ends = self._highest
        side = int(np.searchsorted(at, high))
        below = side + np.flatnonzero(ends[side:] < log_delta)[:NEAREST]
        (left, above), (right, beneath) = self._lefts(side), (at[below], ends[below])
        left, first, right, second = _pairs((left, _up(above)), (right, _up(beneath)))
        whole = _log_one_minus_exp(second - first)
        at_left = log_delta - first + _log_one_minus_exp(second - log_delta) - whole
        at_right = _log_one_minus_exp(log_delta - first) - whole
        eps = np.logaddexp(left + at_left, right + at_right)
        slack = SLACK * np.maximum.reduce(
            [np.ones_like(eps), np.abs(eps), right, -np.full_like(eps, log_delta), -first]
        )
        crossed = (second < log_delta) & (log_delta < first) & (first < math.inf)
        return max(min(high, _smallest((eps + slack)[crossed])), 0.0)

    @cached_property
    def _highest(self) -> Points:
        """Recorded upper bounds of the privacy profile, ln delta(eps), in the order of rising eps."""
        found = [(eps, high) for eps, (_, high) in self.profile.items()]
        found += ((high, float(_up(math.log(delta)))) for delta, (_, high) in self.epsilon.items() if high < math.inf)
        return _arrays(sorted(found))

    @cached_property
    def _lowest(self) -> Points:
        """Recorded lower bounds of the privacy profile, ln delta(eps), in the order of their recording."""
        found = [(eps, low) for eps, (low, _) in self.profile.items()]
        found += ((low, float(_down(math.log(delta)))) for delta, (low, _) in self.epsilon.items() if low > 0)
        return _arrays(found)

    @cached_property
    def _powers(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Recorded false positive rates in rising order, and both bounds of the log power; shape (n,) each."""
        found = np.array([(rate, *ends) for rate, ends in sorted(self.power.items())]).reshape(-1, 3)
        return found[:, 0], found[:, 1], found[:, 2]

    def _lefts(self, side: int) -> Points:
        """Return recorded upper bounds of the profile delta(eps) before the index `side`, as left endpoints of chords.

        With x = e^eps, the point (x = 0, delta = 1) counts, too.
        """
        at, ends = self._highest
        first = max(side - NEAREST + 1, 0)
        if first:
            return at[first - 1 : side], ends[first - 1 : side]
        return np.concatenate([[-math.inf], at[:side]]), np.concatenate([[0.0], ends[:side]])

    def _chords(self, eps: float) -> FloatArray:
        """Return upper bounds of ln delta(eps) from chords between recorded points, shape (chords,).

        The left endpoint of a chord may be (x = 0, delta = 1), where x = e^eps. A chord from x' to x'' has the weights
        (x'' - x)/(x'' - x') and (x - x')/(x'' - x').
        """
        at, ends = self._highest
        after = int(np.searchsorted(at, eps, side="right"))
        rights = at[after:][:NEAREST], ends[after:][:NEAREST]
        left, first, right, second = _pairs(self._lefts(int(np.searchsorted(at, eps))), rights)
        whole = _log_one_minus_exp(left - right)
        weight = _log_one_minus_exp(eps - right) - whole
        other = eps - right + _log_one_minus_exp(left - eps) - whole
        return _up(np.logaddexp(weight + first, other + second))

    def _chords_below(self, alpha: float) -> FloatArray:
        """Return lower bounds of the log power at the rate `alpha` from chords, shape (chords,).

        A chord joins two recorded lower bounds of the power, or one of them and the point (0, 0) or (1, 1).
        """
        known, ends, _ = self._powers
        rates, lows = np.concatenate([[0.0], known, [1.0]]), np.concatenate([[-math.inf], ends, [0.0]])
        before, after = int(np.searchsorted(rates, alpha)), int(np.searchsorted(rates, alpha, side="right"))
        lefts = rates[:before][-NEAREST:], lows[:before][-NEAREST:]
        rights = rates[after:][:NEAREST], lows[after:][:NEAREST]
        left, first, right, second = _pairs(lefts, rights)
        whole = np.log(right - left)  # a quotient of subnormal rates would be rounded too far
        weights = np.log(right - alpha) - whole, np.log(alpha - left) - whole
        return _down(np.logaddexp(weights[0] + first, weights[1] + second))


def _arrays(points: list[Logs]) -> Points:
    found = np.array(points, dtype=np.float64).reshape(-1, 2)
    return found[:, 0], found[:, 1]


def _pairs(lefts: Points, rights: Points) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    """Return all pairs of a point in `lefts` and a point in `rights`, as four arrays.

    The arrays are the position (epsilon or rate) and the bound of the left point, and those of the right point.
    """
    count, times = len(lefts[0]), len(rights[0])
    at = np.arange(count * times)
    left, right = at // max(times, 1), at % max(times, 1)
    return lefts[0][left], lefts[1][left], rights[0][right], rights[1][right]


def _largest(values: FloatArray) -> float:
    return float(np.fmax.reduce(values, initial=-math.inf))


def _smallest(values: FloatArray) -> float:
    return float(np.fmin.reduce(values, initial=math.inf))


def _up(log: FloatArray | float) -> FloatArray:
    """Return logarithms rounded up by their possible error, or infinity if that error is too large."""
    size = np.abs(log)
    moved = np.where(size < LARGEST_LOG, log + SLACK * np.maximum(1.0, size), math.inf)
    return np.where(log == -math.inf, log, moved)


def _down(log: FloatArray | float) -> FloatArray:
    """Return logarithms rounded down by their possible error, or minus infinity if that error is too large."""
    size = np.abs(log)
    return np.where(size < LARGEST_LOG, log - SLACK * np.maximum(1.0, size), -math.inf)


def _log_difference(first: FloatArray, second: FloatArray | float) -> FloatArray:
    """Return lower bounds of ln(e^a - e^b) for the logarithms a = `first` and b = `second`; -inf if unknown.

    Both logarithms have absolute errors of at most `SLACK` times the larger of 1 and their size.
    """
    first, second = _down(first), _up(second)
    apart = np.where(first > second, second - first, -1.0)
    return np.where(first > second, _down(first + _log_one_minus_exp(apart)), -math.inf)


def _log_one_minus_exp(log: FloatArray) -> FloatArray:
    near = -np.expm1(log)
    return np.where(near < 0.5, np.log(near), np.log1p(near - 1.0))
