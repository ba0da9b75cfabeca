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
from service.privacy.trade_off.stated_class.continuation import Continuation


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

    def line(self, rate: arb, rest: arb, nearby: Continuation, link: int = 0) -> BoundaryPoint:
        """Return a point with a line above the boundary T at the rate q = `rate`; `rest` is 1 - q.

        The point is next to the boundary, but it is not proved to be a member of the region. `nearby` has the solutions
        at the rates before, and `link` is the number of this boundary in a chain. Numbers are balls.
        """
        del nearby, link
        return self.at(rate, rest)

    @property
    def middle_logit(self) -> float:
        """Approximate logit of the rate q with T(q) = 1 - q, for a region that is symmetric about p + q = 1."""
        return 0.0 if self.kink is None else logit(self.kink[0].rate, self.kink[0].rate_rest)

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

    @override
    def line(self, rate: arb, rest: arb, nearby: Continuation, link: int = 0) -> BoundaryPoint:
        point = self.link.line(rate, rest, nearby, link)
        for number in range(1, self.length):
            point = point.then(self.link.line(point.power, point.power_rest, nearby, link + number))
        return point

    @property
    @override
    def middle_logit(self) -> float:
        # Half of the links lead from the middle, which is 1/2 or the kink of the middle link, to the last power 1 - q.
        nearby, last = Continuation(), -self.link.middle_logit if self.length % 2 else 0.0
        for _ in range(self.length // 2):
            point = self.link.line(*logistic(last), nearby)
            last = logit(point.power, point.power_rest)
        return -last

    @property
    @override
    def cost(self) -> float:
        return self.length * self.link.cost


def logistic(x: float) -> tuple[arb, arb]:
    """Return q = 1/(1 + e^-x) and 1 - q."""
    tilt = arb(-abs(x)).exp()
    small, large = tilt / (1 + tilt), 1 / (1 + tilt)
    return (small, large) if x < 0 else (large, small)


def logit(number: arb, rest: arb) -> float:
    """Return about ln(number/rest) for a number in (0, 1) and its complement `rest`."""
    return float((number / rest).log().mid())
