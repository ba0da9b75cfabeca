"""Worst case of k records under a stated (eps, delta)-DP guarantee for one record: a chain of k randomised responses.

One record. For every event the power is at most T(q) = min(delta + e^eps q, 1 - e^-eps (1 - delta - q), 1) at the rate
q (Kairouz, Oh, Viswanath 2015, Theorem 2.1).

k records. Let D_0, ..., D_k differ by one record each, and let S be an event. P_{D_i}(S) <= T(P_{D_{i-1}}(S)), and T
rises, so P_{D_k}(S) <= T(T(...T(q))) for q = P_{D_0}(S). This is attained: a mechanism answers with one coin. At
distance i from D_0, in changed records and at most k, the coin shows 1 with probability x_i, where x_0 = q and
x_{i+1} = T(x_i). Neighbours have distances that differ by at most 1, so their pair of coins is (x_i, x_i) or (x_i,
x_{i+1}) in one of both orders. T is symmetric: (q, p) with p <= T(q) gives (1 - p, 1 - q) with 1 - q <= T(1 - p), so
both orders satisfy the guarantee, and for 0 and 1 exchanged, too. The curve 1 - T(...T(q)) is convex, because a rising
concave function of a concave function is concave, and it is its own inverse, because T mirrored is its own inverse.
"""

from __future__ import annotations

import math
from functools import cached_property
from typing import final

from flint import arb, ctx
from typing_extensions import override

from service.privacy.enclosure import Enclosure
from service.privacy.numerics.balls import doubles
from service.privacy.trade_off.stated_class.boundary import AbstractFrontier, BoundaryPoint
from service.privacy.trade_off.stated_class.curve import AbstractClassTradeOff, logs_of


@final
class GuaranteeFrontier(AbstractFrontier):
    """Largest power under (eps, delta)-DP at each rate q, which has a kink at q = (1 - delta)/(1 + e^eps).

    The power is min(delta + e^eps q, 1 - e^-eps (1 - delta - q), 1).
    """

    def __init__(self, epsilon: float, delta: float) -> None:
        self.epsilon, self.delta = epsilon, delta
        self.bits = 192 + 2 * max(0, -math.frexp(max(epsilon, delta))[1])

    @cached_property
    def _growth(self) -> arb:
        return arb(self.epsilon).exp()

    @cached_property
    def _middle(self) -> arb:
        return (1 - arb(self.delta)) / (1 + self._growth)

    @property
    @override
    def cost(self) -> float:
        return 10.0

    @override
    def at(self, rate: arb, rest: arb) -> BoundaryPoint:
        if rate <= self._middle:
            power = self.delta + self._growth * rate
            return BoundaryPoint(rate, rest, power, 1 - power, arb(0), self._growth)
        error = (rest - self.delta) / self._growth
        if not error > 0:
            return BoundaryPoint(rate, rest, arb(1), arb(0), arb(0), arb(0))
        return BoundaryPoint(rate, rest, 1 - error, error, arb(0), 1 / self._growth)


@final
class GroupTradeOff(AbstractClassTradeOff):
    """Trade-off curve of k records under (eps, delta)-DP for one record, eps > 0 or delta > 0, k >= 2."""

    def __init__(self, epsilon: float, delta: float, records: int) -> None:
        self.epsilon_parameter, self.delta_parameter, self.records = epsilon, delta, records

    @override
    def _link(self) -> GuaranteeFrontier:
        return GuaranteeFrontier(self.epsilon_parameter, self.delta_parameter)

    @override
    def reversed(self) -> GroupTradeOff:
        return self

    @property
    @override
    def largest_log_ratio(self) -> Enclosure:
        if self.delta_parameter > 0:
            return Enclosure.point(math.inf)
        total = self.epsilon_parameter * self.records
        return Enclosure(math.nextafter(total, 0.0), math.nextafter(total, math.inf), self.evidence)

    @cached_property
    def _revealed(self) -> Enclosure:
        with ctx.workprec(self.frontier.bits):
            rate = arb(0)
            for _ in range(self.records):
                rate = self.frontier_of_one.at(rate, 1 - rate).power
            lower, upper = doubles(rate)
        return Enclosure(max(lower, 0.0), min(upper, 1.0), self.evidence)

    @cached_property
    def frontier_of_one(self) -> GuaranteeFrontier:
        """Boundary (largest power at each rate) for one record."""
        return self._link()

    @property
    @override
    def singular_power(self) -> Enclosure:
        return Enclosure.point(0.0) if self.delta_parameter == 0 else self._revealed

    @override
    def log_delta(self, epsilon: float) -> tuple[float, float]:
        # The largest slope is that of k steep pieces, e^{k eps}: beyond, the rate 0 is best.
        if epsilon > self.epsilon_parameter * self.records * (1 + 1e-15):
            singular = self.singular_power
            return logs_of(singular) if singular.upper > 0 else (-math.inf, -math.inf)
        return AbstractClassTradeOff.log_delta(self, epsilon)

    @override
    def _start_of_profile(self, epsilon: float) -> float:
        # The slope e^{(2 j - k) eps} belongs to rates that j steep pieces move to the kink.
        return -0.5 * (epsilon + self.records * self.epsilon_parameter) - 0.1

    @override
    def _start_of_epsilon(self, delta: float) -> float:
        return -0.75 * self.records * self.epsilon_parameter - 0.1
