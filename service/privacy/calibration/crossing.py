"""Search for the smallest number from which a condition holds, for conditions that are expensive to evaluate.

Each evaluation decides whether the condition holds, and returns a height, which only guides the search. For smooth
heights the search needs few evaluations. It interpolates the inverse of the heights. Each point is moved from the
estimated crossing towards the wider side of the bracket, by a decreasing distance. The search ends when a number at
which the condition holds and a number at which it does not hold are neighbours. If heights do not help (jumps, steps,
infinities), the search bisects the bracket.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final, final

from service.privacy.calibration.scale import Scale

FIRST_STRIDE: Final = {1: math.log(4), -1: math.log(2)}
"""Largest first step from the start, in coordinates, upwards and downwards. Evaluations downwards tend to be expensive.

The limit doubles with each further step.
"""
FIRST_SLOPE: Final = {1: -2.5, -1: -3.0}
"""Assumed slope of the height if it is known at a single number. A steep slope gives a short first step."""
SHORTEST_STRIDE: Final = 1e-3
"""Smallest step beyond the second number, if the next neighbour is closer. The limit grows fourfold with each step."""
BEYOND: Final = 1.1
"""Factor of the secant step for a number that should lie on the other side of the crossing."""
NODES: Final = 4
"""Number of heights that are interpolated."""
SHRUNK: Final = 0.25
"""Largest share of the bracket's width, or of the smallest height, that two interpolations should leave.

If they leave more, the next number bisects the bracket.
"""
TRUSTED: Final = {2: 0.1, 3: 0.25, 4: 0.5}
"""Error of an interpolation, as a share of its difference to the interpolation with one node less, by nodes."""


@final
@dataclass(frozen=True, slots=True)
class Evaluation:
    """Evaluation of the condition at a number.

    Attributes
    ----------
    at : float
        The number.
    holds : bool
        Whether the condition holds.
    height : float
        Approximate distance from the condition: positive where it does not hold, negative where it holds, and smooth in
        `at` if possible. Errors may give it the wrong sign near 0. Infinite or not-a-number if unknown.
    """

    at: float
    holds: bool
    height: float


@final
@dataclass(slots=True)
class Crossing:
    """Search for the smallest coordinate from which a condition holds.

    A coordinate is the natural logarithm of a number, times `Scale.side`. If the condition holds at one coordinate, it
    holds at all larger coordinates.

    Attributes
    ----------
    evaluate : callable
        Evaluates the condition at a number, or returns None if it cannot decide. A None between a number where the
        condition fails and one where it holds counts as a failure. A None beyond all evaluated numbers ends the search
        at numbers closer than that one.
    scale : Scale
        Numbers of the search.
    evaluations : list of Evaluation
        Evaluations that are known before `run`, which appends its own.
    outside : Evaluation or None
        After `run`, the evaluation with the largest coordinate of those where the condition fails; None without one.
    inside : Evaluation or None
        After `run`, the evaluation with the smallest coordinate, above that of `outside`, where the condition holds;
        None without one.
    """

    evaluate: Callable[[float], Evaluation | None]
    scale: Scale
    evaluations: list[Evaluation]
    inside: Evaluation | None = None
    outside: Evaluation | None = None
    _above: float | None = None
    _below: float | None = None
    _strides: int = 0
    _progress: list[tuple[float, float]] = field(default_factory=list[tuple[float, float]])

    def run(self, start: float) -> None:
        """Search from the number `start` until numbers on both sides of the crossing are neighbours.

        `start` counts only if there are no known `evaluations`. The search ends earlier at an endpoint of the range, or
        next to a number that cannot be decided. The crossing is where the condition begins to hold.
        """
        self._update_bracket()
        following: float | None = start if not self.evaluations else self._next()
        while following is not None:
            self._record(following, self.evaluate(following))
            following = self._next()

    def _record(self, number: float, found: Evaluation | None) -> None:
        if found is None and self.inside is not None and self.outside is not None:
            found = Evaluation(number, holds=False, height=math.nan)
        if found is not None:
            self.evaluations.append(found)
            self._update_bracket()
        elif self.outside is not None:
            self._above = number
        elif self.inside is not None:
            self._below = number

    def _update_bracket(self) -> None:
        """Update `outside`, the last number where the condition fails, and `inside`, the next number where it holds."""
        place = self.scale.coordinate
        outside = [each for each in self.evaluations if not each.holds]
        self.outside = max(outside, key=lambda each: place(each.at), default=None)
        floor = -math.inf if self.outside is None else place(self.outside.at)
        inside = [each for each in self.evaluations if each.holds and place(each.at) >= floor]
        self.inside = min(inside, key=lambda each: place(each.at), default=None)

    def _next(self) -> float | None:
        outside, inside = self.outside, self.inside
        if outside is not None and inside is not None:
            return None if self.scale.are_neighbours(outside.at, inside.at) else self._next_inside(outside, inside)
        if outside is not None:
            return self._next_outside(outside, 1, self.scale.last, self._above)
        if inside is not None:
            return self._next_outside(inside, -1, self.scale.first, self._below)
        return None

    def _next_outside(self, anchor: Evaluation, way: int, end: float, refused: float | None) -> float | None:
        """Return the next number to evaluate beyond all evaluated numbers, or None if no number is left.

        `anchor` is the outermost evaluation, `way` the direction (1 or -1), `end` the endpoint of the range, and
        `refused` a number at which the condition could not be decided. None means that `anchor` is at `end` or next to
        `refused`.
        """
        scale = self.scale
        if anchor.at == end or (refused is not None and scale.are_neighbours(anchor.at, refused)):
            return None
        here = scale.coordinate(anchor.at)
        longest, shortest = FIRST_STRIDE[way] * 2**self._strides, SHORTEST_STRIDE * 4**self._strides
        least = shortest if self._strides else scale.least_step
        step = min(max(BEYOND * self._distance(anchor, way, longest), least), longest)
        self._strides += 1
        number = self._next_after(scale.number(here + way * step), anchor.at, way)
        if scale.are_neighbours(number, end):
            number = end
        if refused is not None and way * (scale.coordinate(number) - scale.coordinate(refused)) >= 0:
            return scale.between(anchor.at, refused)
        return number

    def _next_after(self, number: float, anchor: float, way: int) -> float:
        scale = self.scale
        if way * (scale.coordinate(number) - scale.coordinate(anchor)) > 0:
            return number
        up = way * scale.side
        moved = anchor + up if scale.whole else math.nextafter(anchor, up * math.inf)
        return min(max(moved, scale.low), scale.high)

    def _distance(self, anchor: Evaluation, way: int, unknown: float) -> float:
        """Estimate the distance of the crossing from `anchor`, in the coordinate (signed logarithm).

        The heights of evaluations decrease to 0 at the crossing. The distance follows from the secant through `anchor`
        and the nearest other evaluation, or from a default slope without another one. `way` is the direction of the
        search (1 or -1), and `unknown` is returned without a usable slope.
        """
        others = [each for each in self.evaluations if each is not anchor and math.isfinite(each.height)]
        if not math.isfinite(anchor.height):
            return unknown
        here = self.scale.coordinate(anchor.at)
        slope = FIRST_SLOPE[way]
        if others:
            nearest = min(others, key=lambda each: abs(self.scale.coordinate(each.at) - here))
            apart = self.scale.coordinate(nearest.at) - here
            slope = (nearest.height - anchor.height) / apart if apart else slope
        return abs(anchor.height / slope) if slope < 0 else unknown

    def _next_inside(self, outside: Evaluation, inside: Evaluation) -> float:
        scale = self.scale
        low, high = scale.coordinate(outside.at), scale.coordinate(inside.at)
        middle = scale.between(outside.at, inside.at)
        heights = [abs(each.height) for each in self.evaluations if math.isfinite(each.height)]
        if self._stalls(high - low, min(heights, default=math.inf)):
            return middle
        estimate = self._estimate_crossing(low, high)
        if estimate is None:
            return middle
        root, doubt = estimate
        doubt = max(scale.least_step, doubt)
        number = scale.number(root - doubt if root - low > high - root else root + doubt)
        if scale.whole:
            small, large = sorted((outside.at, inside.at))
            return min(max(number, small + 1), large - 1)
        return number if low < scale.coordinate(number) < high else middle

    def _stalls(self, width: float, height: float) -> bool:
        self._progress.append((width, height))
        if len(self._progress) < 3:
            return False
        (wide, high), (width, height) = self._progress[-3], self._progress[-1]
        stalls = width > SHRUNK * wide and (height > SHRUNK * high or high == math.inf)
        if stalls:
            self._progress.clear()
        return stalls

    def _estimate_crossing(self, low: float, high: float) -> tuple[float, float] | None:
        """Return (coordinate at which the heights cross 0, its estimated error), or None.

        The crossing lies between the coordinates `low` and `high`. A height is positive where the condition fails and
        negative where it holds. The result is None if fewer than two heights are finite, or no interpolation through
        them crosses 0 between `low` and `high`.
        """
        known = [
            (each.height, self.scale.coordinate(each.at)) for each in self.evaluations if math.isfinite(each.height)
        ]
        nodes = sorted(known, key=lambda node: abs(node[0]))[:NODES]
        while len(nodes) > 1:
            root, rougher = _at_zero(nodes), _at_zero(nodes[:-1])
            if low < root < high:
                return root, TRUSTED[len(nodes)] * abs(root - rougher)
            nodes.pop()
        return None


def _at_zero(nodes: Sequence[tuple[float, float]]) -> float:
    """Evaluate the polynomial through the (height, coordinate) `nodes` at height 0, by Neville's scheme.

    The result is not-a-number if two heights are equal.
    """
    heights = [height for height, _ in nodes]
    found = [coordinate for _, coordinate in nodes]
    for width in range(1, len(nodes)):
        for index in range(len(nodes) - width):
            left, right = heights[index], heights[index + width]
            if left == right:
                return math.nan
            found[index] = (left * found[index + 1] - right * found[index]) / (left - right)
    return found[0]
