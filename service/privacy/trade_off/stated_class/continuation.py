"""Continuation of the boundary of a class along rising or falling rates: the next solution is guessed from the last.

A solution is the order a of the active bound, and D = logit p - logit q, of a pair (rate q, power p) of the boundary.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, final

from service.privacy.trade_off.stated_class.two_outcomes import Fixed

MOST_KNOWN: Final = 3
"""Number of solutions through which a guess extrapolates."""
LARGEST_CHANGE: Final = 2.0
"""Largest change of a logarithm from the last solution to a guess."""


@final
@dataclass(frozen=True, slots=True)
class Solution:
    """Order a of the active bound (1 to infinity), and `distance` D = logit p - logit q at the boundary, in doubles."""

    order: float
    distance: float


@final
@dataclass(slots=True)
class Track:
    """Last solutions along one line of pairs, by the logit of the fixed number of the line."""

    known: list[tuple[float, Solution]] = field(default_factory=list[tuple[float, Solution]])

    def guess(self, logit: float) -> Solution | None:
        """Return a guess of the solution at `logit`, a polynomial through the last solutions; None before the first.

        The guess extrapolates the logarithms of a - 1 and of D. It uses solutions with the present kind of order only.
        """
        if not self.known:
            return None
        last = self.known[-1][1]
        alike = [each for each in self.known if _kind(each[1].order) == _kind(last.order)]
        places = [place for place, _ in alike]
        distance = _extrapolated(logit, places, [math.log(each.distance) for _, each in alike])
        if _kind(last.order) is not None:
            return Solution(last.order, distance)
        above = _extrapolated(logit, places, [math.log(each.order - 1) for _, each in alike])
        return Solution(1 + above, distance)

    def add(self, logit: float, solution: Solution) -> None:
        """Add the solution at `logit`, unless its numbers are no positive doubles."""
        if 0 < solution.distance < math.inf and all(place != logit for place, _ in self.known):
            self.known = [*self.known[1 - MOST_KNOWN :], (logit, solution)]


@final
class Continuation:
    """Tracks of solutions of all links of a chain, each by what is fixed on its line of pairs."""

    def __init__(self) -> None:
        self._tracks: dict[tuple[int, Fixed], Track] = {}

    def track(self, link: int, fixed: Fixed) -> Track:
        """Return the track of the link of this number, for lines on which `fixed` is fixed."""
        return self._tracks.setdefault((link, fixed), Track())


def _kind(order: float) -> float | None:
    """Return an order that stays the same along a track (1 or infinity), and None for the others."""
    return order if order == 1 or math.isinf(order) else None


def _extrapolated(x: float, places: Sequence[float], logs: Sequence[float]) -> float:
    """Return the exponential of the polynomial through the points (places, logs), at x."""
    found = 0.0
    for one, value in zip(places, logs, strict=True):
        found += value * math.prod((x - other) / (one - other) for other in places if other != one)
    return math.exp(min(max(found, logs[-1] - LARGEST_CHANGE), logs[-1] + LARGEST_CHANGE))
