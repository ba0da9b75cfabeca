"""Boundaries of regions of pairs: for both directions, for the forward direction, and for swapped hypotheses.

Let S(p) be the smallest rate q of a member with power p, and T(q) the largest power with rate q, both from the forward
bounds D_a(p || q) <= eps(a). With swapped hypotheses a member (q, p) becomes (1 - p, 1 - q), and the boundary becomes
1 - S(1 - q).

Let there be bounds for both directions. A pair with p + q <= 1 satisfies the reverse bounds if it satisfies the forward
bounds (`zcdp.py`). The region is symmetric about p + q = 1. Let (q*, 1 - q*) be the boundary on this line. For q <= q*
the boundary of the region is T(q): T(q) + q <= T(q*) + q* = 1. For q >= q* it is 1 - S(1 - q).
"""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from typing import Final, final

from flint import arb
from typing_extensions import override

from service.privacy.trade_off.stated_class.boundary import AbstractFrontier, BoundaryPoint
from service.privacy.trade_off.stated_class.continuation import Continuation
from service.privacy.trade_off.stated_class.region import AbstractRegion, Base

NEAR: Final = 1e-12


@final
class ForwardFrontier(AbstractFrontier):
    """Upper boundary T(q) of pairs (rate q, power p) with Renyi bounds in the direction of H1 against H0.

    D_a(p || q) is the Renyi divergence of order a of the law (p, 1 - p) from (q, 1 - q). D_a(1 || q) = ln(1/q) for
    every order. So T = 1 at rates of at least e^-eps for the smallest bound eps. The *line of order a* is the tangent
    at (q, p) of the set of pairs that satisfy the bound of order a (`region.py`). For p -> 1 its slope tends to (1 -
    1/a)/q: D = logit p - logit q is infinite, and e^{D - C(D)} = p/q with C(s) = ln(1 - q + q e^s).
    """

    def __init__(self, region: AbstractRegion) -> None:
        self.region, self.bits = region, region.bits

    @override
    def at(self, rate: arb, rest: arb) -> BoundaryPoint:
        bound = self.region.least_bound
        if -rate.log() <= bound:
            return BoundaryPoint(rate, rest, arb(1), arb(0), arb(0), arb(0))
        base = Base(rate, rest)
        if base.rough.largest_divergence > bound * (1 + NEAR):
            return self.region.boundary(base)
        # Doubles do not tell such rates from e^-eps. A member of a smaller rate is a member at this rate, too.
        near = rate * (1 - 4 * NEAR * max(bound, 1.0))
        point = self.region.boundary(Base(near, 1 - near))
        gap = point.gap + point.slope * (rate - near)
        return replace(point, rate=rate, rate_rest=rest, gap=gap)

    @property
    @override
    def kink(self) -> tuple[BoundaryPoint, BoundaryPoint] | None:
        order, exact = self.region.order_of_least_bound, (-arb(self.region.least_bound)).exp()
        if order == 1:
            return None
        slope = (1 - 1 / arb(order)) / exact
        rate = exact.upper()
        right = BoundaryPoint(rate, 1 - rate, arb(1), arb(0), arb(0), arb(0))
        return replace(right, slope=slope, gap=slope * (rate - exact)), right


@final
class ReverseFrontier(AbstractFrontier):
    """Upper boundary 1 - S(1 - q) of pairs (rate, power) with Renyi bounds for H1 against H0, hypotheses swapped.

    S(p) is the smallest rate of all pairs with power p that have these bounds with the hypotheses as given.
    """

    def __init__(self, region: AbstractRegion) -> None:
        self.region, self.bits = region, region.bits

    @override
    def at(self, rate: arb, rest: arb) -> BoundaryPoint:
        return self.region.boundary(Base(rest, rate, "power")).mirrored()


@final
class SymmetricFrontier(AbstractFrontier):
    """Upper boundary of pairs (rate, power) with Renyi bounds for both orders of the hypotheses."""

    def __init__(self, region: AbstractRegion) -> None:
        self.region, self.bits = region, region.bits

    @override
    def at(self, rate: arb, rest: arb) -> BoundaryPoint:
        middle = self.middle
        if rate <= middle.rate:
            point = self.region.boundary(Base(rate, rest))
            # A pair above the line p + q = 1 is no proved member. The pair between (0, 0) and the middle is one.
            return point if point.power <= rest else _with_power(point, middle.power * rate / middle.rate)
        point = self.region.boundary(Base(rest, rate, "power")).mirrored()
        if point.power_rest <= rate:
            return point
        return _with_power(point, 1 - middle.power_rest * rest / middle.rate_rest)

    @override
    def line(self, rate: arb, rest: arb, nearby: Continuation, link: int = 0) -> BoundaryPoint:
        if rate <= self.middle.rate:
            return self.region.line(Base(rate, rest), nearby.track(link, "rate"))
        return self.region.line(Base(rest, rate, "power"), nearby.track(link, "power")).mirrored()

    @cached_property
    def middle(self) -> BoundaryPoint:
        """Point (rate q, power p) with p + q = 1 next to the region's boundary, with the tangent from the left."""
        return self.region.boundary(Base(arb(0.5), arb(0.5), "middle"))

    @property
    @override
    def kink(self) -> tuple[BoundaryPoint, BoundaryPoint]:
        return self.middle, self.middle.mirrored()


def _with_power(point: BoundaryPoint, power: arb) -> BoundaryPoint:
    """Return the boundary point with the same rate and line as `point`, but with the given power."""
    return replace(point, power=power, power_rest=1 - power, gap=(point.gap + point.power - power).max(arb(0)))
