"""Bounds of mu of Gaussian differential privacy over one range of error rates, by the method that serves the curve.

Tangents of a list of log slopes (`gdp_lists.py`), tangents at single log slopes (`gdp_tangents.py`), or points
(`gdp_cells.py`) bound mu.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import numpy as np
from scipy import special

from service.privacy.enclosure import Enclosure, Evidence
from service.privacy.questions.gdp_cells import CellSearch, Half
from service.privacy.questions.gdp_lists import Goal, ListSearch
from service.privacy.questions.gdp_tangents import Bounds, tangent_bounds
from service.privacy.questions.normal_points import CLOSE, SMALLEST_RATE
from service.privacy.trade_off.abstract import AbstractTradeOff
from service.privacy.trade_off.combinators.second_engine import SecondEngine

WIDE: Final = 0.03
"""Relative width of an answer from which the upper bound by a rough profile suffices."""
PROVED_FROM: Final = 1e-12
"""Smallest rates of the search if only a limit bounds mu over the whole curve."""


@dataclass(frozen=True, slots=True)
class Needed:
    """Bounds of mu that are needed, and the searches of curves whose profiles are evaluated in lists.

    The search `rough` needs less time, and its upper bound suffices where the answer is wide anyway. `floor` is the
    lower bound of the answer if another curve gives it, or infinity. `known` is a lower bound of mu that a smaller
    range proves. `second` counts the uses of a second engine by the curves of the answer.
    """

    lower: bool = True
    upper: bool = True
    floor: float = math.inf
    known: float = 0.0
    lists: tuple[ListSearch, ...] = ()
    rough: ListSearch | None = None
    second: SecondEngine | None = None

    @property
    def uses(self) -> int:
        """Number of uses of the second engine so far."""
        return 0 if self.second is None else self.second.times


BOTH: Final = Needed()


def corner(rate_min: float, error_min: float) -> float:
    """Return Phi^-1(1 - error_min) - Phi^-1(rate_min), the largest mu that a point can have.

    The range has false positive rates of at least `rate_min` and type II errors of at least `error_min`, both above 0.
    The mu of a point is Phi^-1(power) - Phi^-1(false positive rate).
    """
    most = -float(special.ndtri(error_min)) - float(special.ndtri(rate_min))
    return max(most * (1 + CLOSE), 0.0)


def _by_lists(needed: Needed, rate_min: float, error_min: float, limit: float, enough: float) -> Bounds | None:
    """Return bounds of mu over a range by the searches of `needed`, or None if a search by single points has to follow.

    The arguments are those of `over_range`. Each of these searches evaluates many epsilons in one call.
    Several of them are of curves whose largest mu is needed. Then only their lower bounds are needed, and the upper
    bound is that of the first search. No search serves false positive rates or type II errors below 1e-300.
    """
    if min(rate_min, error_min) < SMALLEST_RATE:
        return None
    goal = Goal(needed.lower, needed.upper, enough, needed.floor, needed.known)
    if needed.rough is not None:
        found = needed.rough.bounds(rate_min, error_min, limit, goal)
        if found is not None and found[1] - needed.floor > WIDE * found[1]:
            return found
    tried = (each.bounds(rate_min, error_min, limit, goal) for each in needed.lists)
    found = [ends for ends in tried if ends is not None]
    return (max(ends[0] for ends in found), found[0][1]) if found else None


def over_range(
    curve: AbstractTradeOff,
    rate_min: float,
    error_min: float,
    limit: float,
    needed: Needed = BOTH,
    enough: float = 0.0,
) -> Enclosure:
    """Enclose the largest mu over a range of error rates, given an upper bound of it.

    Parameters
    ----------
    curve : AbstractTradeOff
        The curve.
    rate_min, error_min : float
        Smallest false positive rate and smallest type II error of the range, in [0, 1].
    limit : float
        A proved upper bound of mu over the range.
    needed : Needed
        Which bounds are needed. A bound that is not needed is valid, and may be far.
    enough : float
        No upper bound below this number is needed.

    Returns
    -------
    Enclosure
        mu over the range; 0 for a range that is proved to be empty.
    """
    cut_short = min(rate_min, error_min) < SMALLEST_RATE
    limit = limit if cut_short else min(limit, corner(rate_min, error_min))
    if cut_short and curve.evidence is Evidence.CERTIFIED:
        # The upper bound is the limit, and points at the smallest doubles are expensive.
        inner = over_range(curve, max(rate_min, PROVED_FROM), max(error_min, PROVED_FROM), limit, needed)
        return Enclosure(inner.lower, limit, curve.evidence)
    listed = _by_lists(needed, rate_min, error_min, limit, enough)
    if listed is not None:
        return Enclosure(*listed, curve.evidence)
    searched = curve.searches_points and curve.evidence.is_certain
    if (searched or curve.evidence is Evidence.CERTIFIED) and min(rate_min, error_min) >= SMALLEST_RATE:
        ends = tangent_bounds(curve, rate_min, error_min, limit)
        if ends is not None:
            return Enclosure(*ends, curve.evidence)
    inverse = curve.reversed()
    start, end = max(rate_min, SMALLEST_RATE), max(error_min, SMALLEST_RATE)
    # f falls, so the range ends where f = error_min. The largest possible end gives upper bounds, the smallest one
    # gives lower bounds.
    last, middle, at_start = (
        read.type_two_error(np.array([rate])) for read, rate in ((inverse, end), (curve, 0.5), (curve, start))
    )
    if float(last.upper[0]) < rate_min or max(rate_min, error_min) == 1:
        return Enclosure.point(0.0)
    halves = (
        Half(curve, start, min(0.5, float(last.upper[0])), float(last.lower[0])),
        Half(
            inverse,
            end,
            min(float(middle.upper[0]), float(at_start.upper[0])),
            min(float(middle.lower[0]), float(at_start.lower[0])),
        ),
    )
    search = CellSearch(limit)
    for half in halves:
        if half.first <= half.last:
            search.run(half)
    upper = limit if cut_short else min(max(search.settled, search.best), limit)
    return Enclosure(min(search.best, upper), upper, curve.evidence)
