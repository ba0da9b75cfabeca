"""From which number on a condition holds, where every look is dear and says how far from holding it is.

The condition is decided by the look alone; heights only steer. Looks are as few as for a smooth function: inverse
interpolation of the heights, each estimate of the crossing left on the side on which less is known, by less and less,
until one number on which the condition holds and one on which it does not are neighbours. Where heights do not help
(jumps, steps, infinities) the widths of the bracket are halved.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final, final

from service.privacy.calibration.scale import Scale

FIRST_STRIDE: Final = {1: math.log(4), -1: math.log(2)}
"""In coordinates, how far at most the first look beyond the start is from it, up and down, where looks tend to be dear;
each further one may go twice as far."""
FIRST_SLOPE: Final = {1: -2.5, -1: -3.0}
"""Of the height, where it is known at one place only: a steep one leads to a short first step."""
SHORTEST_STRIDE: Final = 1e-3
"""How far at least, where that is further than to the next neighbour; each further look goes four times as far."""
BEYOND: Final = 1.1
"""How much further than the secant says a look goes that is to be on the other side."""
NODES: Final = 4
"""Heights that are interpolated."""
SHRUNK: Final = 0.25
"""Two looks inside a bracket leave at most this much of its width or of the least height, or the next one halves it."""
TRUSTED: Final = {2: 0.1, 3: 0.25, 4: 0.5}
"""How much of its difference to the one with a node less an interpolation with so many nodes may be off."""


@final
@dataclass(frozen=True, slots=True)
class Seen:
    """A look at one number: whether the condition `holds` there, and a `height` that is about positive where it does
    not, about negative where it does, and smooth where possible (infinite, or not a number, where nothing is known).
    """

    at: float
    holds: bool
    height: float


@final
@dataclass(slots=True)
class Crossing:
    """A search for the smallest coordinate at which a condition holds that holds above wherever it holds.

    `look`: None where nothing can be said about a number, so that the condition does not hold there for all that is
    known; nor is looked at what lies beyond. `seen`: what is known before. After `run`, `outside` is the last number
    known where the condition does not hold, and `inside` the first where it does; None where there is none among the
    numbers that could be looked at.
    """

    look: Callable[[float], Seen | None]
    scale: Scale
    seen: list[Seen]
    inside: Seen | None = None
    outside: Seen | None = None
    _above: float | None = None
    _below: float | None = None
    _strides: int = 0
    _progress: list[tuple[float, float]] = field(default_factory=list[tuple[float, float]])

    def run(self, start: float) -> None:
        """Look, beginning at `start`, until both sides are neighbours, an end is reached, or `look` raises."""
        self._settle()
        following: float | None = start if not self.seen else self._next()
        while following is not None:
            self._take(following, self.look(following))
            following = self._next()

    def _take(self, number: float, found: Seen | None) -> None:
        """What a look told, or that nothing can be said there: where both sides are known that does not hold."""
        if found is None and self.inside is not None and self.outside is not None:
            found = Seen(number, holds=False, height=math.nan)
        if found is not None:
            self.seen.append(found)
            self._settle()
        elif self.outside is not None:
            self._above = number
        elif self.inside is not None:
            self._below = number

    def _settle(self) -> None:
        """The bracket of what was seen: the last that does not hold, and the first beyond it that does."""
        place = self.scale.coordinate
        outside = [seen for seen in self.seen if not seen.holds]
        self.outside = max(outside, key=lambda seen: place(seen.at), default=None)
        floor = -math.inf if self.outside is None else place(self.outside.at)
        inside = [seen for seen in self.seen if seen.holds and place(seen.at) >= floor]
        self.inside = min(inside, key=lambda seen: place(seen.at), default=None)

    def _next(self) -> float | None:
        outside, inside = self.outside, self.inside
        if outside is not None and inside is not None:
            return None if self.scale.are_neighbours(outside.at, inside.at) else self._within(outside, inside)
        if outside is not None:
            return self._beyond(outside, 1, self.scale.last, self._above)
        if inside is not None:
            return self._beyond(inside, -1, self.scale.first, self._below)
        return None

    def _beyond(self, anchor: Seen, way: int, end: float, refused: float | None) -> float | None:
        """A number further out than all that was seen; None at the end of what can be looked at."""
        scale = self.scale
        if anchor.at == end or (refused is not None and scale.are_neighbours(anchor.at, refused)):
            return None
        here = scale.coordinate(anchor.at)
        longest, shortest = FIRST_STRIDE[way] * 2**self._strides, SHORTEST_STRIDE * 4**self._strides
        least = shortest if self._strides else scale.least_step
        step = min(max(BEYOND * self._distance(anchor, way, longest), least), longest)
        self._strides += 1
        number = self._nudged(scale.number(here + way * step), anchor.at, way)
        if scale.are_neighbours(number, end):
            number = end
        if refused is not None and way * (scale.coordinate(number) - scale.coordinate(refused)) >= 0:
            return scale.between(anchor.at, refused)
        return number

    def _nudged(self, number: float, anchor: float, way: int) -> float:
        """The number, or the next one where it is no further out than the anchor."""
        scale = self.scale
        if way * (scale.coordinate(number) - scale.coordinate(anchor)) > 0:
            return number
        up = way * scale.side
        moved = anchor + up if scale.whole else math.nextafter(anchor, up * math.inf)
        return min(max(moved, scale.low), scale.high)

    def _distance(self, anchor: Seen, way: int, unknown: float) -> float:
        """How far from the anchor the crossing is by the secant, or by a first slope."""
        others = [seen for seen in self.seen if seen is not anchor and math.isfinite(seen.height)]
        if not math.isfinite(anchor.height):
            return unknown
        here = self.scale.coordinate(anchor.at)
        slope = FIRST_SLOPE[way]
        if others:
            nearest = min(others, key=lambda seen: abs(self.scale.coordinate(seen.at) - here))
            apart = self.scale.coordinate(nearest.at) - here
            slope = (nearest.height - anchor.height) / apart if apart else slope
        return abs(anchor.height / slope) if slope < 0 else unknown

    def _within(self, outside: Seen, inside: Seen) -> float:
        """A number between both."""
        scale = self.scale
        low, high = scale.coordinate(outside.at), scale.coordinate(inside.at)
        middle = scale.between(outside.at, inside.at)
        heights = [abs(seen.height) for seen in self.seen if math.isfinite(seen.height)]
        if self._stalls(high - low, min(heights, default=math.inf)):
            return middle
        estimate = self._estimate(low, high)
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
        """Whether the last two looks brought neither the ends nor the best height down much."""
        self._progress.append((width, height))
        if len(self._progress) < 3:
            return False
        (wide, high), (width, height) = self._progress[-3], self._progress[-1]
        stalls = width > SHRUNK * wide and (height > SHRUNK * high or high == math.inf)
        if stalls:
            self._progress.clear()
        return stalls

    def _estimate(self, low: float, high: float) -> tuple[float, float] | None:
        """Where the heights cross 0, and about how far off that may be; None where they do not tell."""
        known = [(seen.height, self.scale.coordinate(seen.at)) for seen in self.seen if math.isfinite(seen.height)]
        nodes = sorted(known, key=lambda node: abs(node[0]))[:NODES]
        while len(nodes) > 1:
            root, rougher = _at_zero(nodes), _at_zero(nodes[:-1])
            if low < root < high:
                return root, TRUSTED[len(nodes)] * abs(root - rougher)
            nodes.pop()
        return None


def _at_zero(nodes: Sequence[tuple[float, float]]) -> float:
    """The polynomial through these (height, coordinate) at height 0, by Neville's scheme; not a number where two
    heights are equal.
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
