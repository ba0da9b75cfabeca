"""The numbers among which one is searched for: in which order they are looked at, and which are neighbours."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final, final

TINY: Final = 1e-300
"""Positive numbers below this are looked at no closer: the next one is 0."""
ARITHMETIC: Final = 1.5
"""Numbers whose ratio is below this have their arithmetic mean between them, others their geometric one."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """Non-negative numbers from `low` to `high`, both included, whole or not, by their logarithm.

    `side`: 1 where the coordinate rises with the number, -1 where it falls. `tolerance`: relative distance at which two
    numbers are neighbours; whole ones are when they are 1 apart.
    """

    low: float
    high: float
    whole: bool
    side: int
    tolerance: float

    @property
    def first(self) -> float:
        """The end with the smallest coordinate."""
        return self.low if self.side > 0 else self.high

    @property
    def last(self) -> float:
        """The end with the largest coordinate."""
        return self.high if self.side > 0 else self.low

    @property
    def least_step(self) -> float:
        """A step of the coordinate from a number to one that is certainly its neighbour."""
        return 0.3 * self.reach

    @property
    def reach(self) -> float:
        """The largest step of the coordinate that leads to a neighbour, but for whole numbers."""
        return math.log1p(self.tolerance)

    def coordinate(self, number: float) -> float:
        """Where a number lies; 0 beside the smallest ones that are looked at."""
        return self.side * math.log(max(number, TINY / 2))

    def number(self, coordinate: float) -> float:
        """The number there, or the nearer end; a whole one where they are whole."""
        exponent = self.side * coordinate
        if exponent >= math.log(max(self.high, TINY)):
            return self.high
        if exponent <= math.log(max(self.low, TINY)):
            return self.low
        found = math.exp(exponent)
        return min(max(round(found), self.low), self.high) if self.whole else found

    def are_neighbours(self, one: float, other: float) -> bool:
        """Whether nothing between them need be looked at."""
        small, large = min(one, other), max(one, other)
        if self.whole:
            return large - small <= 1
        if large <= TINY:
            return True
        return large - small <= self.tolerance * small or math.nextafter(small, math.inf) >= large

    def between(self, one: float, other: float) -> float:
        """A number in the middle of two that are no neighbours."""
        small, large = min(one, other), max(one, other)
        if self.whole:
            low, high = int(small), int(large)
            mean = (low + high) // 2 if large < ARITHMETIC * small else math.isqrt(low * high)
            return min(max(mean, low + 1), high - 1)
        if large < ARITHMETIC * small:
            return small + (large - small) / 2
        return math.exp((math.log(max(small, TINY / 2)) + math.log(large)) / 2)

    def spread(self, count: int) -> list[float]:
        """About so many numbers from end to end, evenly in the coordinate, without repetition."""
        first, last = self.coordinate(self.first), self.coordinate(self.last)
        places = [first + (last - first) * index / (count - 1) for index in range(count)]
        return list(dict.fromkeys([self.first, *map(self.number, places[1:-1]), self.last]))
