"""Points of the upper boundary of a convex region of pairs (rate, power), in ball arithmetic.

A ball is a midpoint with a radius, and every result contains the exact number for all numbers in its arguments.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import final

from flint import arb
from typing_extensions import override

from service.privacy.errors import NumericalFailure


@final
@dataclass(frozen=True, slots=True)
class BoundaryPoint:
    """Point (q, p) of a region of rates and powers, next to the region's upper boundary T, with a line above T.

    The region is the convex set of all pairs that a class of mechanisms allows, and its points are *members*.

    Attributes
    ----------
    rate, rate_rest : arb
        False positive rate q in (0, 1), and 1 - q.
    power, power_rest : arb
        Power p of a member (q, p) of the region, and 1 - p. So T(q) >= p.
    gap : arb
        T(q) <= p + gap.
    slope : arb
        T(x) <= p + gap + slope (x - q) for all x in [0, 1], where slope is some number in this ball.
    """

    rate: arb
    rate_rest: arb
    power: arb
    power_rest: arb
    gap: arb
    slope: arb

    @property
    def intercept(self) -> arb:
        """Value at rate 0 of the line above the boundary T."""
        return self.power + self.gap - self.slope * self.rate

    def checked(self) -> BoundaryPoint:
        """Return the point itself. Raises NumericalFailure if one of its numbers is not finite."""
        if all(each.is_finite() for each in (self.rate, self.power, self.power_rest, self.gap, self.slope)):
            return self
        raise NumericalFailure("a point of the boundary of a class of mechanisms is not finite")

    def mirrored(self) -> BoundaryPoint:
        """Return the point and the line after the exchange of (q, p) and (1 - p, 1 - q).

        The exchange maps the region to that of swapped hypotheses. The line p' = p + gap + m (q' - q) becomes
        1 - q' = 1 - q + gap/m + ((1 - p') - (1 - p))/m.
        """
        return BoundaryPoint(
            self.power_rest, self.power, self.rate_rest, self.rate, self.gap / self.slope, 1 / self.slope
        )

    def then(self, following: BoundaryPoint) -> BoundaryPoint:
        """Return the point and line of a chain of two changed records.

        The rate of `following` is the power of this point, so that the chain leads from the rate of this point to the
        power of `following`. Both lines rise. So the line of `following`, evaluated at the line of this point, is above
        the boundary of the chain.
        """
        return BoundaryPoint(
            self.rate,
            self.rate_rest,
            following.power,
            following.power_rest,
            following.gap + following.slope * self.gap,
            self.slope * following.slope,
        )


class AbstractFrontier(ABC):
    """Upper boundary T of a region of pairs (rate, power), an increasing concave function of the rate.

    A region holds the pairs that a class of mechanisms allows. `bits` is the precision of the balls.
    """

    bits: int

    @abstractmethod
    def at(self, rate: arb, rest: arb) -> BoundaryPoint:
        """Return a point of the region next to its boundary at the rate q = `rate` in (0, 1); `rest` is 1 - q.

        Numbers are balls, which enclose the true values.
        """

    @property
    def kink(self) -> tuple[BoundaryPoint, BoundaryPoint] | None:
        """Known kink of the boundary T, as two points with lines of the slope left of it and right of it.

        The property is None for a boundary without a known kink.
        """
        return None

    @property
    def cost(self) -> float:
        """Approximate work of evaluating one point of the boundary, in microseconds of CPU time."""
        return 400.0


@final
class ChainFrontier(AbstractFrontier):
    """Boundary T(T(...T(q))) of a chain of several pairs (rate, power) of one region.

    In a chain the power of each pair is the rate of the next one. A region holds the pairs (rate, power) that are
    allowed for one changed record, and a chain changes several records.
    """

    def __init__(self, link: AbstractFrontier, length: int) -> None:
        self.link, self.length, self.bits = link, length, link.bits

    @override
    def at(self, rate: arb, rest: arb) -> BoundaryPoint:
        point = self.link.at(rate, rest)
        for _ in range(self.length - 1):
            point = point.then(self.link.at(point.power, point.power_rest))
        return point

    @property
    @override
    def cost(self) -> float:
        return self.length * self.link.cost
