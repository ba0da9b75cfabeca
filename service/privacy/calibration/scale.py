"""Ordered numbers of a search, their coordinates (signed logarithms) and their neighbours."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final, final

TINY: Final = 1e-300
"""Smallest positive number of a search. Its neighbour is 0."""
ARITHMETIC: Final = 1.5
"""Ratio of two numbers below which their middle is the arithmetic mean. Otherwise it is the geometric mean."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """Range of a search: non-negative numbers from `low` to `high`, both included, with logarithmic coordinates.

    Attributes
    ----------
    whole : bool
        Whether the numbers are integers.
    side : int
        1 if the coordinate increases with the number, -1 if it decreases.
    tolerance : float
        Relative distance up to which two numbers are neighbours. Neighbouring integers differ by 1.
    """

    low: float
    high: float
    whole: bool
    side: int
    tolerance: float

    @property
    def first(self) -> float:
        """Number of the range with the smallest coordinate: `low` if side is 1, else `high`."""
        return self.low if self.side > 0 else self.high

    @property
    def last(self) -> float:
        """Number of the range with the largest coordinate: `high` if side is 1, else `low`."""
        return self.high if self.side > 0 else self.low

    @property
    def least_step(self) -> float:
        """Smallest step of the search in the coordinate, 0.3 times `reach`.

        The coordinate of a number is its logarithm times `side`.
        """
        return 0.3 * self.reach

    @property
    def reach(self) -> float:
        """Largest distance between neighbouring numbers in the coordinate, ln(1 + `tolerance`).

        Neighbouring integers differ by 1 instead, whatever their distance in the coordinate.
        """
        return math.log1p(self.tolerance)

    def coordinate(self, number: float) -> float:
        """Return the coordinate of a number: its logarithm times `side`.

        Parameters
        ----------
        number : float
            Number of the range.

        Returns
        -------
        float
            The coordinate. Numbers below 5e-301 (TINY/2), including 0, have the coordinate of 5e-301.
        """
        return self.side * math.log(max(number, TINY / 2))

    def number(self, coordinate: float) -> float:
        """Return the number at a coordinate.

        Parameters
        ----------
        coordinate : float
            Signed logarithm.

        Returns
        -------
        float
            The number, or the nearer endpoint of the range. Integers are rounded.
        """
        exponent = self.side * coordinate
        if exponent >= math.log(max(self.high, TINY)):
            return self.high
        if exponent <= math.log(max(self.low, TINY)):
            return self.low
        found = math.exp(exponent)
        return min(max(round(found), self.low), self.high) if self.whole else found

    def are_neighbours(self, one: float, other: float) -> bool:
        """Return whether the numbers `one` and `other` are so close that no number between them needs an evaluation."""
        small, large = min(one, other), max(one, other)
        if self.whole:
            return large - small <= 1
        if large <= TINY:
            return True
        return large - small <= self.tolerance * small or math.nextafter(small, math.inf) >= large

    def between(self, one: float, other: float) -> float:
        """Return a number in the middle of two numbers that are not neighbours.

        Parameters
        ----------
        one, other : float
            Numbers of the range.

        Returns
        -------
        float
            A number strictly between them.
        """
        small, large = min(one, other), max(one, other)
        if self.whole:
            low, high = int(small), int(large)
            mean = (low + high) // 2 if large < ARITHMETIC * small else math.isqrt(low * high)
            return min(max(mean, low + 1), high - 1)
        if large < ARITHMETIC * small:
            return small + (large - small) / 2
        return math.exp((math.log(max(small, TINY / 2)) + math.log(large)) / 2)

    def spread(self, count: int) -> list[float]:
        """Return distinct numbers from endpoint to endpoint, equally spaced in the coordinate.

        Parameters
        ----------
        count : int
            Approximate count of numbers.

        Returns
        -------
        list of float
            The numbers, in the order of the coordinate.
        """
        first, last = self.coordinate(self.first), self.coordinate(self.last)
        places = [first + (last - first) * index / (count - 1) for index in range(count)]
        return list(dict.fromkeys([self.first, *map(self.number, places[1:-1]), self.last]))
