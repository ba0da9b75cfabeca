"""Members of the class of all mechanisms with bounded Renyi divergences of finitely many orders."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final, final

import numpy as np
from flint import arb
from typing_extensions import override

from service.privacy.errors import NumericalFailure
from service.privacy.numerics.arrays import FloatArray
from service.privacy.trade_off.stated_class.continuation import Solution
from service.privacy.trade_off.stated_class.region import AbstractRegion, Active, Base, Pair
from service.privacy.trade_off.stated_class.two_outcomes import RoughBase, RoughPair, increasing_zero

VIOLATED: Final = 1 + 1e-12
"""Divergence over its bound above which a guess violates a constraint."""
FAINT: Final = 1e-7
"""a D below which the limit for small D serves, because doubles lose the digits of the divergence of order a."""
FARTHEST: Final = 1e16
"""Largest D whose exponential is computed."""
MOST_ROUNDS: Final = 64
SOLVED: Final = 1e-6
"""Relative distance of a divergence from its bound within which Newton's method has converged."""


@final
class RenyiRegion(AbstractRegion):
    """Pairs (q, p) of rate and power whose Renyi divergences D_a(p || q) are at most eps(a) for listed orders a.

    Orders rise from at least 1 on, infinity included. Bounds are positive and finite, and do not fall.

    The region is the intersection of the sets of single orders. Each set contains p = q and is convex. So on a line of
    a fixed rate the boundary is the smallest boundary of all orders, and on a line of a fixed power the largest.
    """

    def __init__(self, orders: Sequence[float], bounds: Sequence[float]) -> None:
        self.orders, self.bounds = np.array(orders), np.array(bounds)
        middle = np.isfinite(self.orders) & (self.orders > 1)
        self._middle = np.flatnonzero(middle)
        self.bits = 224 + 2 * max(0, -math.frexp(self.least_bound)[1])
        self._constraints = [
            Active(None if math.isinf(order) else arb(order), arb(bound))
            for order, bound in zip(orders, bounds, strict=True)
        ]
        self._last = 0

    @property
    @override
    def least_bound(self) -> float:
        return float(self.bounds.min())

    @property
    @override
    def order_of_least_bound(self) -> float:
        return float(self.orders[self.bounds == self.least_bound].max())

    @property
    @override
    def bound_at_infinity(self) -> float | None:
        return next(
            (float(bound) for order, bound in zip(self.orders, self.bounds, strict=True) if np.isinf(order)), None
        )

    @override
    def starts(self, factor: float) -> tuple[FloatArray, FloatArray]:
        # The bound of order 1 serves slightly above 1, that of infinity at a large order.
        return np.clip(self.orders, 1 + 1e-6, 1e9), factor * self.bounds

    @override
    def located(self, base: Base) -> tuple[Active, arb]:
        index, distance = self._guess(base.rough)
        self._last = index
        active = self._constraints[index]
        if distance > FARTHEST:  # a pair inside the region, whose numbers cannot be told from those of its boundary
            return active, arb(FARTHEST)
        return active, active.solved(base, arb(distance))

    @override
    def continued(self, base: Base, guess: Solution) -> tuple[Active, arb] | None:
        rough, distance = base.rough, arb(guess.distance)
        binding, index = self.bounds < rough.largest_divergence, self._nearest(guess.order)
        for _ in range(MOST_ROUNDS):
            if not binding[index]:
                return None
            distance = self._constraints[index].solved(base, distance)
            if distance > FARTHEST:
                return None
            shares = np.where(binding, self._shares(rough.pair(float(distance))), 0.0)
            if not abs(shares[index] - 1) <= SOLVED:
                return None
            worst = int(np.argmax(shares))
            if worst == index or shares[worst] <= VIOLATED:
                return self._constraints[index], distance
            index = worst
        return None

    def _nearest(self, order: float) -> int:
        """Return the index of the stated order nearest to `order`."""
        return len(self.orders) - 1 if math.isinf(order) else int(np.argmin(np.abs(self.orders - order)))

    @override
    def unproved(self, pair: Pair, active: Active) -> Active | None:
        if not active.excess(pair) <= 0:
            return active
        return self._violated(pair, 0, len(self._constraints) - 1)

    def _violated(self, pair: Pair, first: int, last: int) -> Active | None:
        """Return a constraint with an index from `first` to `last` that a pair is not proved to satisfy, or None.

        Divergences rise with their order, and so do the bounds. So the divergence of the last order proves all these
        constraints if it is at most the bound of the first order.
        """
        largest = self._constraints[last]
        if first == last:
            return None if largest.excess(pair) <= 0 else largest
        if Active(largest.order, self._constraints[first].bound).excess(pair) <= 0:
            return None
        middle = (first + last) // 2
        found = self._violated(pair, first, middle)
        return self._violated(pair, middle + 1, last) if found is None else found

    def _guess(self, base: RoughBase) -> tuple[int, float]:
        """Return the index of the attained bound, and D = logit p - logit q, at the boundary on `base`, in doubles.

        Each round solves the constraint that the solution of the round before violates most.
        """
        binding = self.bounds < base.largest_divergence
        if not binding.any():
            raise NumericalFailure("no bound limits the power at this rate")
        index = self._last if binding[self._last] else int(np.argmax(binding))
        distance = self._first_distance(base, index)
        for _ in range(MOST_ROUNDS):
            solution = increasing_zero(lambda d, at=index: self._share(base.pair(d), at) - 1, distance)
            distance = min(solution, 2 * FARTHEST)
            shares = np.where(binding, self._shares(base.pair(distance)), 0.0)
            worst = int(np.argmax(shares))
            if worst == index or shares[worst] <= VIOLATED:
                return index, distance
            index, distance = worst, min(distance, self._first_distance(base, worst))
        return index, distance

    def _first_distance(self, base: RoughBase, index: int) -> float:
        """Return D = logit p - logit q from which to search the boundary of the order a with the index `index`.

        p is the power and q the rate on the line `base`. The limit for small D serves, where a D^2 q (1 - q)/2 =
        eps(a), or D = eps for order infinity. Otherwise 1.
        """
        order, bound = float(self.orders[index]), float(self.bounds[index])
        log_distance = math.log(bound)
        if math.isfinite(order):
            log_distance = 0.5 * (log_distance + math.log(2 / order) - base.log_value - base.log_rest)
        return math.exp(log_distance) if log_distance < math.log(FAINT) else 1.0

    def _share(self, pair: RoughPair, index: int) -> float:
        """Return the Renyi divergence of the pair for the order with the index `index`, divided by its bound."""
        order, bound = float(self.orders[index]), float(self.bounds[index])
        if order * pair.distance <= FAINT:
            return math.exp(float(pair.log_faint(np.array(order))) - math.log(bound))
        if order == 1:
            return pair.relative_entropy / bound
        if math.isinf(order):
            return (pair.distance - pair.moved) / bound
        return pair.tilted(order)[0] / (order - 1) / bound

    def _shares(self, pair: RoughPair) -> FloatArray:
        """Return the Renyi divergences of the pair for all orders, each divided by its bound, shape (orders,)."""
        shares = np.empty_like(self.bounds)
        orders, bounds = self.orders[self._middle], self.bounds[self._middle]
        faint = orders * pair.distance <= FAINT
        shares[self._middle[faint]] = np.exp(pair.log_faint(orders[faint]) - np.log(bounds[faint]))
        with np.errstate(over="ignore"):
            shares[self._middle[~faint]] = pair.many(orders[~faint]) / (orders[~faint] - 1) / bounds[~faint]
        for index in np.flatnonzero((self.orders == 1) | np.isinf(self.orders)).tolist():
            shares[index] = self._share(pair, index)
        return shares
