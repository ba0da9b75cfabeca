"""Gaussian differential privacy over a range of a curve whose profile is evaluated in lists.

mu is the supremum of G = Phi^-1(power) - Phi^-1(alpha) over the points of a curve with alpha >= a_min and beta >=
b_min. `gdp_tangents.py` has the upper bound by tangents: G is at most its largest value at the corners where
neighbouring tangents meet. This module evaluates no points. Both bounds come from enclosures of the profile at lists of
log slopes c.

**Lower bound at an inner point.** Let alpha* be a rate at which the line delta(c) + e^c alpha touches the power. If
delta(c) is at least the profile of the Gaussian curve with the parameter m, the line is nowhere below the power of that
curve, so that G(alpha*) >= m. Two conditions prove that alpha* belongs to the range. First, delta(c') + (e^c' - e^c)
a_min < delta(c) for some c' > c: the left side bounds power(alpha) - e^c alpha for all alpha <= a_min. Second, let r =
(delta(c') - delta(c))/(e^c - e^c') for some c' < c. Every rate above r has a smaller power(alpha) - e^c alpha than
alpha*, so that the power at alpha* is at most delta(c) + e^c r. This must be less than 1 - b_min.

**Lower bound at an end of the range.** The power at a_min is the minimum of a convex function of e^c, which
`convex_minimum` bounds from below by its enclosures at a list of c.

**Lower bound by tests.** Some curves have tests next to a log slope. The curve is at least as high as a test.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final, final

import numpy as np
from scipy import special

from service.privacy.enclosure import SMALLEST
from service.privacy.numerics.work import is_spent
from service.privacy.questions.gaussian_profile import gaussian_mu, proved_mu
from service.privacy.questions.gdp_tangents import STEEPEST, Bounds, gaussian_corners
from service.privacy.questions.list_cells import ListCells
from service.privacy.questions.list_tangents import ListTangents
from service.privacy.questions.normal_points import CLOSE
from service.privacy.questions.tangent_sets import corners_of, limited_corners
from service.privacy.trade_off.abstract import AbstractTradeOff

STRONGEST: Final = 1 - 1e-7
"""delta(0) above which points serve better: tangents lose the digits of small type II errors."""
FIRST: Final = 20
"""Log slopes of the first list, from 0 to the slope at the end of the range."""
BEYOND: Final = np.array([1.02, 1.1, 1.3, 1.7])
"""Further slopes of the first list, as multiples of the slope of the Gaussian curve at the end of the range."""
ROUNDS: Final = 14
MOST: Final = 240
"""Largest number of new slopes of a curve in a search."""
MOST_EDGES: Final = 600
"""Largest number of edges of a polygon all of which have tangents."""
PATIENCE: Final = 1
"""Number of rounds without a gain after which a search goes on."""
SETTLED: Final = 1e-9
"""Relative rise of mu that a round has to gain."""
GAIN: Final = 0.05
"""Share of the distance of both bounds that a round has to gain."""
SHARE: Final = 2e-3
"""Share of the width of an enclosure between two curves by which its upper bound may be too large."""
COARSE: Final = 0.1
"""Possible gain of a lower bound at which a search ends, as a share of the distance to the least upper bound."""
TESTED: Final = 3
"""Number of slopes with the largest mu whose tests are evaluated."""


@final
@dataclass(frozen=True, slots=True)
class Goal:
    """Bounds of mu that a search has to find, and numbers that decide how close.

    Attributes
    ----------
    lower, upper : bool
        Which bounds are needed.
    enough : float
        The answer has an upper bound of at least this number.
    floor : float
        The lower bound of the answer if another curve gives it, or infinity.
    known : float
        A lower bound of mu that is proved already.
    """

    lower: bool
    upper: bool
    enough: float = 0.0
    floor: float = math.inf
    known: float = 0.0

    def target(self, least: float) -> float:
        """Return the upper bound of mu at which a search may end. `least` is about the smallest possible one."""
        target = max(least * (1 + CLOSE), least + SHARE * (least - self.floor))
        if not self.lower:
            return max(target, self.enough)
        if not self.upper:
            return max(target, max(least, self.known) + COARSE * (self.enough - self.known))
        return target


@final
class ListSearch:
    """Bounds of mu of Gaussian DP over ranges of a curve whose profile is evaluated in lists.

    mu is that of the largest Gaussian curve below the curve over a range of error rates.

    Parameters
    ----------
    curve : AbstractTradeOff
        The curve.
    is_rough : bool
        Whether tangents come from the fast profile with wider bounds.
    """

    def __init__(self, curve: AbstractTradeOff, *, is_rough: bool = False) -> None:
        inverse = curve.reversed()
        steepest = [min(each.largest_log_ratio.upper, STEEPEST) for each in (curve, inverse)]
        self._sides = [ListTangents(curve, steepest[0], is_rough)]
        self._sides.append(self._sides[0] if inverse is curve else ListTangents(inverse, steepest[1], is_rough))

    def bounds(self, rate_min: float, error_min: float, limit: float, goal: Goal) -> Bounds | None:
        """Return (lower, upper) bounds of mu over the range alpha >= rate_min and f(alpha) >= error_min, or None.

        Both limits of the range are above the smallest doubles, and `limit` is a proved upper bound of mu.
        `goal` states which bounds are needed, and how close; a bound that is not needed is 0 or `limit`. None
        means that points of the curve serve better: the run reveals nearly everything, or the range may be
        empty, or it lies on one side of the slope 1.
        """
        firsts = (rate_min, error_min)
        if max(firsts) >= 0.5 or not self._begin(firsts):
            return None
        pairs = list(zip(self._sides, firsts, firsts[::-1], strict=True))
        if self._sides[0] is self._sides[1] and rate_min == error_min:
            pairs = pairs[:1]
        return _RangeSearch(pairs, self._sides[::-1][: len(pairs)], goal).run(limit)

    def _begin(self, firsts: tuple[float, float]) -> bool:
        """Insert the first tangents, and return whether tangents serve this curve and its range is not empty."""
        for side, first in zip(self._sides, firsts, strict=True):
            if not len(side.all_c):
                edges = side.curve.edge_slopes
                side.insert(np.append(0.0, edges if len(edges) <= MOST_EDGES else edges[:0]))
            half = float(side.delta[0])
            if not SMALLEST < half < STRONGEST:
                return False
            mu = -2 * float(special.ndtri(0.5 * (1 - half)))
            # Log slope of the Gaussian curve at the end of the range.
            last = mu * (-float(special.ndtri(first)) - 0.5 * mu)
            if last > 0 and len(side.all_c) < FIRST // 2:
                side.insert(np.concatenate([np.linspace(0.0, last, FIRST + 1)[1:], last * BEYOND]))
            for _ in range(ROUNDS):  # until the steepest tangent touches beyond the range
                if side.lowest(first) < len(side.c) - 1 or side.c[-1] >= side.steepest:
                    break
                side.insert(side.c[-1] + max(float(side.c[-1]), mu) * np.array([0.25, 0.5, 1.0]))
        for side, first, other in zip(self._sides, firsts, firsts[::-1], strict=True):
            lowest = side.lowest(first)
            # At the end of a range on one side of the slope 1, the line of slope 1 is the lowest.
            if not lowest or float(side.delta[lowest] + math.exp(side.c[lowest]) * first) >= 1 - other:
                return False
        return True


@final
class _RangeSearch:
    """Search for mu of Gaussian DP over one range of error rates.

    Attributes
    ----------
    pairs : list of (ListTangents, float, float)
        The sides to search, each with the first rate of the range on its axis and on the axis of the other side.
    least : float
        An approximate mu that no refinement lowers.
    proved : float
        The largest lower bound of mu at an end of the range.
    """

    def __init__(self, pairs: list[tuple[ListTangents, float, float]], others: list[ListTangents], goal: Goal) -> None:
        self.pairs, self.others, self.goal, self.least, self.proved = pairs, others, goal, 0.0, 0.0

    def run(self, limit: float) -> Bounds:
        """Insert tangents until the wanted bounds are close, and return the bounds.

        `limit` is an upper bound of mu from before.
        """
        goal = self.goal
        bound, tried, most = math.inf, 0, [MOST + len(side.all_c) for side, _, _ in self.pairs]
        for _ in range(ROUNDS):
            before, least = bound, self.least
            cells = [self._cells(*pair, other) for pair, other in zip(self.pairs, self.others, strict=True)]
            bound = min(bound, max(each.largest for each in cells))
            whole = goal.upper and bound > goal.enough
            target = goal.target(self.least)
            gained = self.least > least * (1 + SETTLED) or (whole and before - bound > GAIN * (bound - target))
            tried = 0 if gained else tried + 1
            if is_spent() or tried > PATIENCE or bound <= target:
                break
            new = [
                each.slopes(target, self.least, max(end - len(each.side.all_c), 0), whole=whole)
                for each, end in zip(cells, most, strict=True)
            ]
            if not sum([pair[0].insert(slopes) for pair, slopes in zip(self.pairs, new, strict=True)]):
                break
        best = min(self._proved(), limit) if goal.lower else 0.0
        return best, max(min(bound, limit), best) if goal.upper else limit

    def _cells(self, side: ListTangents, first: float, beyond: float, other: ListTangents) -> ListCells:
        """Return the corners between neighbouring tangents of a side, and update `least`."""
        _, rates, powers = corners_of(side.c, side.delta, first)
        end = min(float(powers[-1]), 1 - other.least_rate(1 - first))
        rates, powers, kept = limited_corners(rates, powers, 1 - beyond, side.least_rate(1 - beyond))
        kept = np.append(kept, True)
        mu, slopes = gaussian_corners(np.append(powers, end), np.append(rates, first))
        touching = side.m[1 : len(rates) - 1]  # of the tangents that touch between two corners
        at_end = side.end(first)
        touched = float(touching.max(initial=0.0))
        self.proved, self.least = max(self.proved, at_end), max(self.least, touched, at_end)
        most = max(touched, float(mu[-2]))
        return ListCells(side, first, mu, slopes, kept, most)

    def _proved(self) -> float:
        """Return the largest lower bound of mu that the tangents prove."""
        best = self.proved
        for side, first, beyond in self.pairs:
            inside = side.touching_inside(first, beyond)
            if len(inside):
                index = int(inside[0])
                c, log_low = side.all_c[[index]], side.log_low[[index]]
                best = max(best, proved_mu(float(c[0]), float(log_low[0]), float(gaussian_mu(c, log_low)[0])))
            at_end = float(side.c[side.lowest(first)])
            last = max(int(np.searchsorted(side.all_c, at_end)) - 1, 0)
            slopes = np.append(side.all_c[inside[:TESTED]], [float(side.all_c[last]), at_end])
            best = max(best, side.attained(np.unique(slopes), first, beyond))
        return best
