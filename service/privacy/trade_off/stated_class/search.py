"""Largest values of functions of members of a region: delta at an epsilon, and epsilon at a delta.

Let T be the boundary, E = e^eps, and let lines l_i(x) = c_i + m_i x be above T (`boundary.py`).

**delta.** delta(eps) = max_q T(q) - E q. A member (q, p) gives the lower bound p - E q. Take two lines with m_1 >= E >=
m_2, and t = (E - m_2)/(m_1 - m_2). Then t l_1 + (1 - t) l_2 is a line of slope E above T, so delta(eps) <= t c_1 + (1 -
t) c_2.

**epsilon.** e^epsilon(delta) is the least E with T(q) <= delta + E q for all q. A member gives the lower bound (p -
delta)/q. Take two lines with c_1 <= delta <= c_2, and t = (c_2 - delta)/(c_2 - c_1). Then t l_1 + (1 - t) l_2 starts at
delta, so the bound is t m_1 + (1 - t) m_2.

Slopes fall and intercepts rise with the rate. So each point tells on which side of the best rate it is, and the best
pair of lines is that of the nearest points on both sides. Its bound exceeds the truth by a term of second order in
their distance, also at a kink between them.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Final, TypeAlias, final

from flint import arb
from typing_extensions import override

from service.privacy.errors import NumericalFailure
from service.privacy.numerics.work import count_work, is_spent
from service.privacy.trade_off.stated_class.boundary import AbstractFrontier, BoundaryPoint, logistic

CLOSE: Final = 1e-13
"""Relative width of a result at which the search ends."""
MOST_POINTS: Final = 80
FARTHEST: Final = 1e15
"""Nats. Farther logits of rates are not searched: lines above the boundary bound the result there."""
FIRST_STEP: Final = 0.5
"""First step of the logit of the rate if only one side of the best rate is known."""
LEAST_STEP: Final = 1e-13
SLOW: Final = 0.1
"""Share of a bracket after two points above which the search changes its way."""


STUCK: Final = 4
"""Number of points in which a bracket has to halve. Otherwise the next point is its middle."""

Side: TypeAlias = tuple[float, float, BoundaryPoint]
"""Logit of the rate of a point, its `AbstractGoal.side`, and the point."""


class AbstractGoal(ABC):
    """Function of the pairs (rate, power) of a region that is largest at one point of its boundary."""

    @abstractmethod
    def side(self, point: BoundaryPoint) -> float:
        """Return a number that falls with the rate of a boundary point, positive below the rate of the maximum."""

    @abstractmethod
    def lower(self, point: BoundaryPoint) -> arb:
        """Return the value of the goal at the pair (rate, power) of a boundary point, which the region contains."""

    @abstractmethod
    def upper(self, left: BoundaryPoint | None, right: BoundaryPoint | None) -> arb:
        """Return an upper bound of the goal from the lines of two neighbouring boundary points.

        None stands for an unknown point; the bound then uses the line of the other point.
        """

    @abstractmethod
    def excess(self, value: arb) -> arb:
        """Return the number whose relative width ends the search, from a ball `value` of the goal.

        It is the goal itself, or e^epsilon - 1 if the goal is e^epsilon.
        """


@final
@dataclass(frozen=True, slots=True)
class ProfileGoal(AbstractGoal):
    """Goal of the search for delta at `epsilon`: the largest p - E q over pairs (q, p), E = e^epsilon (`growth`)."""

    epsilon: arb
    growth: arb

    @override
    def side(self, point: BoundaryPoint) -> float:
        return float((point.slope.log() - self.epsilon).mid()) if point.slope > 0 else -math.inf

    @override
    def lower(self, point: BoundaryPoint) -> arb:
        return point.power - self.growth * point.rate

    @override
    def upper(self, left: BoundaryPoint | None, right: BoundaryPoint | None) -> arb:
        alone = [one.intercept + (one.slope - self.growth).max(arb(0)) for one in (left, right) if one is not None]
        if left is not None and right is not None:
            share = (self.growth - right.slope) / (left.slope - right.slope)
            if share >= 0 and share <= 1:
                return share * left.intercept + (1 - share) * right.intercept
        return least(alone, arb(1))

    @override
    def excess(self, value: arb) -> arb:
        return value


@final
@dataclass(frozen=True, slots=True)
class EpsilonGoal(AbstractGoal):
    """Goal of the search for epsilon at a delta: the value e^epsilon, the largest (p - delta)/q over pairs (q, p)."""

    delta: arb

    @override
    def side(self, point: BoundaryPoint) -> float:
        intercept = point.intercept
        return float((self.delta / intercept).log().mid()) if intercept > 0 else math.inf

    @override
    def lower(self, point: BoundaryPoint) -> arb:
        return (point.power - self.delta) / point.rate

    @override
    def upper(self, left: BoundaryPoint | None, right: BoundaryPoint | None) -> arb:
        alone = [one.slope for one in (left, right) if one is not None and one.intercept <= self.delta]
        if left is not None and right is not None:
            share = (right.intercept - self.delta) / (right.intercept - left.intercept)
            if share >= 0 and share <= 1:
                return share * left.slope + (1 - share) * right.slope
        return least(alone, arb("inf"))

    @override
    def excess(self, value: arb) -> arb:
        return value - 1


@final
class Search:
    """Search of the largest value of a goal over the rates, by secants of `side` and crossings of tangents.

    The rates are logistic functions of doubles x. Every result is an enclosure, whatever the number of points.
    """

    def __init__(self, frontier: AbstractFrontier, goal: AbstractGoal) -> None:
        self.frontier, self.goal = frontier, goal
        self.left: Side | None = None
        self.right: Side | None = None
        self.best: arb | None = None
        self.last = ""

    def run(self, start: float) -> tuple[arb, arb]:
        """Return a lower and an upper bound of the largest value of the goal on the boundary.

        `start` is a first guess of the logit of its rate.
        """
        x, step, way, widths = start, FIRST_STEP, 0, [math.inf]
        if self._ends_at_kink():
            return self._bounds()
        for _ in range(MOST_POINTS):
            if is_spent():
                break
            count_work(self.frontier.cost)
            try:
                self._take(x, self.frontier.at(*logistic(x)).checked())
            except NumericalFailure:  # the bounds so far hold
                break
            if self.left is None or self.right is None:
                if abs(x) >= FARTHEST:
                    break
                x, step = self._beyond(x, step), 2 * step
                continue
            lower, upper = self._bounds()
            if (upper - lower).upper() <= CLOSE * self.goal.excess(upper).upper():
                break
            widths.append(self.right[0] - self.left[0])
            if widths[-1] <= LEAST_STEP * (1 + abs(x)):
                break
            if len(widths) > 2 and widths[-1] > SLOW * widths[-3]:
                way += 1
            is_stuck = len(widths) > STUCK and widths[-1] > widths[-1 - STUCK] / 2
            x = (self.left[0] + self.right[0]) / 2 if is_stuck else self._inside(way, (self.left, self.right))
        return self._bounds()

    def _ends_at_kink(self) -> bool:
        """Evaluate the goal at the known kink of the boundary, and return whether its largest value is there."""
        kink = self.frontier.kink
        if kink is None:
            return False
        before, after = kink
        x = float((before.rate.log() - before.rate_rest.log()).mid())
        for point in kink:
            if self.goal.side(point) >= 0:
                self.left = (x, self.goal.side(point), point)
            elif self.right is None:
                self.right = (x, self.goal.side(point), point)
        self.best = self.goal.lower(before)
        return self.left is not None and self.right is not None and self.left[2] is before and self.right[2] is after

    def _take(self, x: float, point: BoundaryPoint) -> None:
        side, value = self.goal.side(point), self.goal.lower(point)
        self.best = value if self.best is None else self.best.max(value)
        if side >= 0:
            if self.left is None or x > self.left[0]:
                self.left, self.last = (x, side, point), "left"
        elif self.right is None or x < self.right[0]:
            self.right, self.last = (x, side, point), "right"

    def _bounds(self) -> tuple[arb, arb]:
        left, right = (None if side is None else side[2] for side in (self.left, self.right))
        upper = self.goal.upper(left, right)
        return (upper if self.best is None else self.best), upper

    def _beyond(self, x: float, step: float) -> float:
        """Return the next logit of a rate to evaluate, `step` from the logit x on the side without a known point."""
        return min(x + step, FARTHEST) if self.right is None else max(x - step, -FARTHEST)

    def _inside(self, way: int, sides: tuple[Side, Side]) -> float:
        """Return the next logit of a rate to evaluate, between the nearest evaluated points.

        `sides` are the nearest points on both sides. The result is an estimate by a secant (`way` modulo 3 is 0), by
        the crossing of tangents (1) or by the middle (2), or a point slightly beyond the estimate.
        """
        (low, at_low, left), (high, at_high, right) = sides
        share = at_low / (at_low - at_high) if math.isfinite(at_low - at_high) else 0.5
        secant = low + (high - low) * min(max(share, 0.0), 1.0)
        crossing = _crossing(left, right, low, high)
        for estimate in (secant, crossing):
            floor = LEAST_STEP * (1 + abs(estimate))
            if self.last == "right" and high - estimate < 0.1 * (high - low):
                return max(estimate - 2 * (high - estimate) - floor, 0.5 * (low + estimate))
            if self.last == "left" and estimate - low < 0.1 * (high - low):
                return min(estimate + 2 * (estimate - low) + floor, 0.5 * (high + estimate))
        return (secant, crossing, 0.5 * (low + high))[way % 3]


def _crossing(left: BoundaryPoint, right: BoundaryPoint, low: float, high: float) -> float:
    """Return the logit of the rate at which the lines of two boundary points cross.

    `low` and `high` are the logits of the rates of the points. The result is the middle of both if the crossing is not
    between them.
    """
    rate = (right.intercept - left.intercept) / (left.slope - right.slope)
    logit = float((rate / (1 - rate)).log().mid()) if rate > 0 and rate < 1 else math.nan
    return logit if low < logit < high else 0.5 * (low + high)


def least(bounds: list[arb], otherwise: arb) -> arb:
    """Return the smallest of the numbers `bounds` and `otherwise`."""
    for bound in bounds:
        otherwise = otherwise.min(bound)
    return otherwise
